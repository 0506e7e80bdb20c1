//go:build !unix

package replay

import "time"

// CPUTime returns 0: there is no getrusage here.
func CPUTime() time.Duration { return 0 }
