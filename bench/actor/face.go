package actor

import (
	"github.com/seed-3c5df8a4/turnstile/internal/parts"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// face checks requests and configs and words errors as the scheduler does.
var face = parts.Taken[sched.Request, sched.Config]()
