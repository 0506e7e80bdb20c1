package capacity_test

import (
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/capacity"
)

type machine struct {
	name string
	hint capacity.Mark
}

func ExampleRing() {
	ring := capacity.NewRing(2, func(m *machine) *capacity.Mark { return &m.hint })
	a, b, c := &machine{name: "a"}, &machine{name: "b"}, &machine{name: "c"}

	// Each under its machine's lock, after the load has changed.
	for _, m := range []*machine{a, b, a, c} {
		ring.Record(m)
	}
	overflowed := ring.Drain(func(m *machine) { fmt.Println("look at", m.name) })
	if overflowed { // there was no room for c
		fmt.Println("look at all")
		ring.ClearAll(func(yield func(*machine) bool) { _ = yield(a) && yield(b) && yield(c) })
	}
	fmt.Println("pending:", ring.Pending())
	// Output:
	// look at a
	// look at b
	// look at all
	// pending: false
}
