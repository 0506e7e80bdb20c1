package policy

import (
	"fmt"
	"math"
	"time"
)

// Order says in which order requests of one class are served.
type Order uint8

// The orders. The zero value is the default.
const (
	// FCFS serves first come, first served.
	FCFS Order = iota
	// LCFS serves the latest arrival first.
	LCFS
	// WSPT serves the least scheduling cost first (weighted shortest
	// processing time).
	WSPT
)

// String returns the order as it is written in a policy file.
func (o Order) String() string {
	switch o {
	case FCFS:
		return "fcfs"
	case LCFS:
		return "lcfs"
	case WSPT:
		return "wspt"
	default:
		return fmt.Sprintf("Order(%d)", uint8(o))
	}
}

// ParseOrder reads an order as it is written in a policy file: fcfs, lcfs or
// wspt, in lower case.
func ParseOrder(s string) (Order, error) {
	for _, o := range []Order{FCFS, LCFS, WSPT} {
		if s == o.String() {
			return o, nil
		}
	}
	return FCFS, fmt.Errorf("%w: unknown order %q: %s", ErrInvalid, s, ruleOrder)
}

// ChooseFrom says among which of its eligible ranks a request is placed when it need
// not wait.
type ChooseFrom uint8

// The sets to choose from. The zero value is the default.
const (
	// ChooseEligible chooses among all eligible ranks: one that is not busy opens
	// the gate, and the cost alone says which rank is taken.
	ChooseEligible ChooseFrom = iota
	// ChooseIdle chooses among those that are not busy for the class, so that its
	// thresholds cap what the class itself puts on a rank.
	ChooseIdle
)

// ParseChooseFrom reads a set as it is written in a policy file: eligible or idle,
// in lower case.
func ParseChooseFrom(s string) (ChooseFrom, error) {
	for _, c := range []ChooseFrom{ChooseEligible, ChooseIdle} {
		if s == c.String() {
			return c, nil
		}
	}
	return ChooseEligible, fmt.Errorf("%w: unknown set to choose from %q: %s", ErrInvalid, s, ruleChooseFrom)
}

// String returns the set as it is written in a policy file.
func (c ChooseFrom) String() string {
	switch c {
	case ChooseEligible:
		return "eligible"
	case ChooseIdle:
		return "idle"
	default:
		return fmt.Sprintf("ChooseFrom(%d)", uint8(c))
	}
}

// The names of the limits, as refusals report them.
const (
	LimitRequests     = "requests"
	LimitRawTokens    = "raw-tokens"
	LimitCachedTokens = "cached-tokens"
)

// Limits bound how much may wait in a class, per worker. Nil means no limit;
// 0 makes a class that never queues; negative is invalid.
type Limits struct {
	// Requests counts the waiting requests.
	Requests *int64
	// RawTokens counts their input tokens, cached or not.
	RawTokens *int64
	// CachedTokens counts their input tokens that were cached at arrival.
	CachedTokens *int64
}

// Class is one queue class. Treat the classes of a [Profile] as read-only.
type Class struct {
	// Name is unique in the profile: letters, digits, "_", "." and "-".
	Name string
	// Family and Bucket are the class's cell in the matrix; both are empty for
	// an explicit class, which is asked for by its name.
	Family, Bucket string
	// Order is the order in which requests of the class are served; default
	// FCFS.
	Order Order
	// Quantum is what the class may spend per round of deficit round robin, in
	// tokens: at least 1.
	Quantum int64
	// BusyThreshold makes a rank busy for this class when it has more active
	// prefill tokens than this; at least 0, nil for none.
	BusyThreshold *int64
	// BusyThresholdFrac does the same in multiples of the worker's
	// max_batched_tokens; finite and at least 0, nil for none. Either
	// threshold suffices to make the rank busy.
	BusyThresholdFrac *float64
	// BusyWorkerRatio is the share of the eligible ranks that must be busy or
	// overloaded before a request has to wait, in (0,1]. 0 means all of them.
	// It needs a threshold.
	BusyWorkerRatio float64
	// MaxQueueAge is how long a request waits before it goes ahead of the
	// class's order; 0 means never.
	MaxQueueAge time.Duration
	// MaxRequestsPerRank makes a rank busy for this class when it has that many
	// active requests or more; at least 1, 0 for none.
	MaxRequestsPerRank int64
	// KVBusyThresholdFrac makes a rank busy for this class when it has more
	// active blocks than this multiple of its worker's total KV blocks, if those
	// are known; finite and at least 0, nil for none.
	KVBusyThresholdFrac *float64
	// ChooseFrom says among which ranks a request of the class is placed; default
	// ChooseEligible. ChooseIdle needs a threshold: the number of prefill tokens,
	// requests or KV blocks above which a rank is busy.
	ChooseFrom ChooseFrom
	// GuardAfter is how long a request of the class waits before the class's
	// prefill thresholds bind the other classes that can queue; 0 means never. It
	// needs a prefill threshold and no BusyWorkerRatio.
	GuardAfter time.Duration
	// EndpointWait is how long a request of the class waits while it has no rank
	// that it may use; 0 means that it fails at once.
	EndpointWait time.Duration
	// Limits bound what may wait in the class.
	Limits Limits
}

// NeverQueues reports whether a limit of 0 forbids waiting in this class, and
// which is the first, in the order requests, raw tokens, cached tokens.
func (c *Class) NeverQueues() (limit string, never bool) {
	switch {
	case isZero(c.Limits.Requests):
		return LimitRequests, true
	case isZero(c.Limits.RawTokens):
		return LimitRawTokens, true
	case isZero(c.Limits.CachedTokens):
		return LimitCachedTokens, true
	}
	return "", false
}

// LimitReached reports the first limit that the usage by the waiters has reached:
// requests, raw tokens, cached tokens, in this order. The bound is the limit per worker
// times the number of workers, saturating.
func (c *Class) LimitReached(requests, raw, cached, workers int64) (limit string, usage, bound int64, reached bool) {
	for _, l := range [...]struct {
		name      string
		perWorker *int64
		usage     int64
	}{
		{LimitRequests, c.Limits.Requests, requests},
		{LimitRawTokens, c.Limits.RawTokens, raw},
		{LimitCachedTokens, c.Limits.CachedTokens, cached},
	} {
		if l.perWorker == nil {
			continue
		}
		if bound := saturatingMul(*l.perWorker, workers); l.usage >= bound {
			return l.name, l.usage, bound, true
		}
	}
	return "", 0, 0, false
}

// saturatingMul multiplies two counts; negative ones count as 0.
func saturatingMul(a, b int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	if a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// clone copies the class with what it points to, so that a profile shares no
// memory with its caller.
func (c *Class) clone() Class {
	d := *c
	d.BusyThreshold = clonePtr(c.BusyThreshold)
	d.BusyThresholdFrac = clonePtr(c.BusyThresholdFrac)
	d.KVBusyThresholdFrac = clonePtr(c.KVBusyThresholdFrac)
	d.Limits.Requests = clonePtr(c.Limits.Requests)
	d.Limits.RawTokens = clonePtr(c.Limits.RawTokens)
	d.Limits.CachedTokens = clonePtr(c.Limits.CachedTokens)
	return d
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func isZero(p *int64) bool { return p != nil && *p == 0 }
