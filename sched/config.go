package sched

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/seed-3c5df8a4/turnstile/internal/chance"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// Config is the data a scheduler is made from. Only BlockSize must be set.
type Config struct {
	// BlockSize is the number of tokens in a KV block, at least 1.
	BlockSize int64

	// Profile is the policy profile. Nil takes it from Policy.
	Profile *policy.Profile
	// Policy is a policy file, of which Model picks the profile: the model's, else the
	// root's. Nil, or a file with neither: one class "default" that never queues. The
	// logger receives a record of such a file.
	Policy *policy.File
	Model  string

	// Selector chooses among the eligible ranks. Nil means selector.KV();
	// selector.Compose makes a custom one.
	Selector selector.Selector
	// OverlapCredit and PrefillScale weigh cached blocks and prefill work in the
	// KV cost; nil means 1. CreditDecay and RequestWeight default to 0, which
	// leaves them out. All must be finite and not negative.
	OverlapCredit *float64
	PrefillScale  *float64
	CreditDecay   float64
	RequestWeight float64
	// Temperature above 0 draws the rank from a softmax over the costs instead
	// of taking the least. Finite, not negative, default 0.
	Temperature float64
	// TierWeights value a cached block per tier; nil means 1, 0.75 and 0.25, but for
	// what the router section of Policy says. They hold for the life of the scheduler.
	TierWeights *selector.TierWeights
	// Role says whether the ranks compute prompts and output (default) or, with
	// selector.RoleDecode, output alone: then cached blocks of a request whose prefill
	// is not tracked are taken off the blocks it would add.
	Role selector.Role
	// Ties says which rank wins among equals: one at random (default) or the lowest.
	Ties selector.Ties

	// BookingTTL ends a booking on which no lifecycle call was made for so long.
	// 0, the default, means never: a booking can be silent and alive. More than 70
	// years count as that.
	BookingTTL time.Duration
	// RefreshAfter has the overlap of a request that waited longer looked up
	// again; 0 means never. It needs WithOverlapRefresher.
	RefreshAfter time.Duration
	// ReclaimLeaked releases a booking whose handle has become garbage, unless
	// Detach was called. It costs one more allocation for each booking.
	ReclaimLeaked bool

	// SampleSelection times one decision of so many, at random, for
	// Stats.SelectionTimes. 0, the default, times none and reads no clock.
	SampleSelection int
	// EventBuffer is how many events may be on their way to observers before
	// further ones are dropped. 0 means the default of 8192.
	EventBuffer int
}

const defaultEventBuffer = 8192

// validate returns every fault at once, and the profile that applies.
func (c *Config) validate() (*policy.Profile, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, &Error{Code: ErrInvalid, Rule: fmt.Sprintf(format, args...)})
	}
	number := func(name string, value float64) {
		if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
			fault("config: %s %v: must be finite and not negative", name, value)
		}
	}
	if c.BlockSize < 1 {
		fault("config: block size %d: must be at least 1 token", c.BlockSize)
	}
	if c.OverlapCredit != nil {
		number("overlap credit", *c.OverlapCredit)
	}
	if c.PrefillScale != nil {
		number("prefill scale", *c.PrefillScale)
	}
	number("credit decay", c.CreditDecay)
	number("request weight", c.RequestWeight)
	number("temperature", c.Temperature)
	if w := c.TierWeights; w != nil {
		number("device tier weight", w.Device)
		number("host tier weight", w.Host)
		number("disk tier weight", w.Disk)
	}
	if c.Ties > selector.TiesLowest {
		fault("config: ties %d: unknown", c.Ties)
	}
	if c.Role > selector.RoleDecode {
		fault("config: role %d: unknown", c.Role)
	}
	if c.BookingTTL < 0 {
		fault("config: booking ttl %v: must not be negative", c.BookingTTL)
	}
	if c.RefreshAfter < 0 {
		fault("config: refresh after %v: must not be negative", c.RefreshAfter)
	}
	if c.SampleSelection < 0 {
		fault("config: sample selection %d: must not be negative", c.SampleSelection)
	}
	if c.EventBuffer < 0 {
		fault("config: event buffer %d: must not be negative", c.EventBuffer)
	}
	profile := c.Profile
	if profile == nil && c.Policy != nil {
		profile = c.Policy.For(c.Model)
	}
	if profile == nil {
		profile = policy.Default()
	}
	return profile, errors.Join(faults...)
}

// params are the parameters of the cost, before a request's overrides.
func (c *Config) params() selector.Params {
	p := selector.Params{
		BlockSize: c.BlockSize, OverlapCredit: 1, PrefillScale: 1, CreditDecay: c.CreditDecay,
		RequestWeight: c.RequestWeight, Temperature: c.Temperature, Ties: c.Ties, Role: c.Role,
		Tiers: selector.DefaultTierWeights(),
	}
	if c.OverlapCredit != nil {
		p.OverlapCredit = *c.OverlapCredit
	}
	if c.PrefillScale != nil {
		p.PrefillScale = *c.PrefillScale
	}
	switch f := c.Policy; {
	case c.TierWeights != nil:
		p.Tiers = *c.TierWeights
	case f != nil:
		if f.HostCacheHitWeight != nil {
			p.Tiers.Host = *f.HostCacheHitWeight
		}
		if f.DiskCacheHitWeight != nil {
			p.Tiers.Disk = *f.DiskCacheHitWeight
		}
	}
	return p
}

// Option gives a scheduler code to call.
type Option func(*options)

type options struct {
	clock      clock.Clock
	onDecision func(Decision)
	observers  []func(Event)
	logger     *slog.Logger
	refresher  OverlapRefresher
	estimator  PrefillEstimator
	rand       selector.Rand
	fleet      Fleet
}

// WithClock replaces the system clock: arrivals, due times, decay and ttls follow
// it, the deadlines of contexts do not. It is read under locks, and must not call
// the scheduler. Nil changes nothing. Within testing/synctest the system clock is
// the bubble's already.
func WithClock(c clock.Clock) Option {
	return func(o *options) {
		if c != nil {
			o.clock = c
		}
	}
}

// WithObserver sets an observer, which receives what becomes of requests. It can
// neither block nor break the scheduler: where f is slower than the events come,
// those for which there is no room in Config.EventBuffer are dropped and counted in
// Stats.EventsDropped. The events of one request come in order, apart from those
// dropped. Each of several observers receives all events, unless one before it ends
// the goroutine (runtime.Goexit), which no observer should. Nil changes nothing.
func WithObserver(f Observer) Option {
	return func(o *options) {
		if f != nil {
			o.observers = append(o.observers, f)
		}
	}
}

// WithLogger has rare events logged, and nothing else: bookings that expired,
// leaked or went with their worker, a replaced profile, a policy with none for the
// model; and, at its first, second,
// fourth, eighth … occurrence, a failed selector, a hook that panicked and an
// overflow of capacity hints. Handlers run on the observers' goroutine, so a slow
// one holds up no request. Nil, the default, logs nothing.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithDecisionHook sets a hook that receives every decision, one at a time and in
// decision order, for simulations and tests; to watch a scheduler at work take
// WithObserver. f is called by the next caller of the scheduler that holds no lock;
// it may call the scheduler, but while it runs it receives no further decision. A
// panic in f is counted and goes no further; f must not end its goroutine.
func WithDecisionHook(f func(Decision)) Option { return func(o *options) { o.onDecision = f } }

// WithOverlapRefresher has f called for a request that waited longer than
// Config.RefreshAfter.
func WithOverlapRefresher(f OverlapRefresher) Option { return func(o *options) { o.refresher = f } }

// WithPrefillEstimator has f estimate the prefill duration of requests that do
// not say.
func WithPrefillEstimator(f PrefillEstimator) Option { return func(o *options) { o.estimator = f } }

// WithRand replaces the source of random numbers, for reproducible runs. The
// scheduler calls it from one goroutine at a time, also under locks, so it must
// not call the scheduler. Nil changes nothing.
func WithRand(r selector.Rand) Option {
	return func(o *options) {
		if r != nil {
			o.rand = chance.Locked(r)
		}
	}
}
