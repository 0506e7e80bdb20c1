//go:build !unix

package micro

import "time"

// cpuTime returns 0: there is no getrusage here.
func cpuTime() time.Duration { return 0 }
