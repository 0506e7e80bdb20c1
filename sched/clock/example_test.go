package clock_test

import (
	"fmt"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

func ExampleManual() {
	c := clock.NewManual(time.Date(2031, 5, 17, 9, 0, 0, 0, time.UTC))
	c.AfterFunc(time.Minute, func() { fmt.Println("tea at", c.Now().Format(time.TimeOnly)) })
	c.Advance(59 * time.Second)
	fmt.Println("it is", c.Now().Format(time.TimeOnly))
	c.Advance(time.Hour) // each timer runs at its own time
	fmt.Println("it is", c.Now().Format(time.TimeOnly))
	// Output:
	// it is 09:00:59
	// tea at 09:01:00
	// it is 10:00:59
}
