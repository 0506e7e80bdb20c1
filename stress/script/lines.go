package script

import (
	"errors"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// codes are the errors a script knows by name. ErrUnchanged is not among them:
// it has a line of its own.
var codes = [...]error{
	sched.ErrInvalid, sched.ErrNoEndpoints, sched.ErrOverloaded, sched.ErrPinnedOverloaded,
	sched.ErrPinNotAllowed, sched.ErrQueueFull, sched.ErrWouldQueue, sched.ErrDuplicate,
	sched.ErrDeadline, sched.ErrCanceled, sched.ErrClosed, sched.ErrNotFound, sched.ErrStaleAttempt,
	sched.ErrStaleIncarnation,
}

// errorText is what a script prints after "error: ".
func errorText(err error) string {
	var e *sched.Error
	detailed := errors.As(err, &e)
	code := error(nil)
	if detailed {
		code = e.Code
	} else {
		for _, c := range codes {
			if errors.Is(err, c) {
				code = c
				break
			}
		}
	}
	switch {
	case code == nil:
		return fmt.Sprintf("unclassified %q", err)
	case detailed && errors.Is(code, sched.ErrQueueFull):
		return fmt.Sprintf("%v class=%s limit=%s usage=%d bound=%d", code, e.Class, e.Limit, e.Usage, e.Bound)
	case detailed && errors.Is(code, sched.ErrWouldQueue):
		return fmt.Sprintf("%v class=%s pending=%d tokens=%d cached=%d", code, e.Class, e.Pending, e.Tokens, e.Cached)
	default:
		return code.Error()
	}
}

// resultLines is what a call about no request prints.
func resultLines(err error) []string {
	if err == nil {
		return nil
	}
	return []string{"error: " + errorText(err)}
}

func errorLine(id string, err error) string {
	if errors.Is(err, sched.ErrUnchanged) {
		return id + " unchanged"
	}
	return id + " error: " + errorText(err)
}

func placementLine(id string, p sched.Placement) string {
	return fmt.Sprintf("%s -> %d/%d cached=%d", id, p.Rank.Worker, p.Rank.Rank, p.CachedTokens)
}

// disagrees reports that an engine says two things at once.
func disagrees(id, format string, v ...any) string {
	return id + " error: engine-disagrees " + fmt.Sprintf(format, v...)
}
