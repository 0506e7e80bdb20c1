package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// steer takes over what the headers ask for. It returns how long the request may wait
// for its turn and its own timeout, 0 for none. Its error is a *prompt.FieldError that
// names the header.
func steer(h http.Header, r *sched.Request) (wait, timeout time.Duration, err error) {
	r.Class = h.Get(HeaderClass)
	if text := h.Get(HeaderPriority); text != "" {
		priority, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return 0, 0, &prompt.FieldError{Field: HeaderPriority, Rule: "must be a whole number from 0 to 4294967295"}
		}
		r.Priority = uint32(priority)
	}
	if text := h.Get(HeaderNoQueue); text != "" {
		if r.DoNotQueue, err = strconv.ParseBool(text); err != nil {
			return 0, 0, &prompt.FieldError{Field: HeaderNoQueue, Rule: "must be true or false"}
		}
	}
	if wait, err = duration(h, HeaderMaxWait); err != nil {
		return 0, 0, err
	}
	timeout, err = duration(h, HeaderTimeout)
	return wait, timeout, err
}

func duration(h http.Header, name string) (time.Duration, error) {
	text := h.Get(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, &prompt.FieldError{Field: name, Rule: "must be a duration greater than 0, such as 500ms or 30s"}
	}
	return d, nil
}

// private tells that a header is between the client and the gateway.
func private(name string) bool { return strings.HasPrefix(name, "X-Turnstile-") }
