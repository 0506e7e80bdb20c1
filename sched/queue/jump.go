package queue

import (
	"math"
	"time"
)

// Jump returns a priority jump, given in seconds, in whole nanoseconds. A negative
// one counts as 0, one of more than 146 years as that.
func Jump(seconds float64) int64 {
	const most = 1 << 62
	return int64(min(max(math.Round(seconds*float64(time.Second)), 0), most))
}
