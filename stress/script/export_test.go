package script

import "time"

// SetTimeout changes how long a command may take.
func (r *Runner) SetTimeout(d time.Duration) { r.timeout = d }
