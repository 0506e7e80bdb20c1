package linear

import (
	"errors"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/stress/model"
)

// ordered is a step of which the decision hook was told, as the n-th of those that
// are ordered, from 1. Decisions are told in decision order, and since all of them
// happen each comes right after the one before.
type ordered struct {
	step
	n uint8
}

func (o ordered) from(w *world, s *state) []*state {
	if o.n != s.told+1 {
		return nil
	}
	next := o.step.from(w, s)
	for i, n := range next {
		next[i] = n.copied()
		next[i].told = o.n
		next[i].sealed()
	}
	return next
}

func (o ordered) String() string { return fmt.Sprintf("%v, ordered as %d", o.step, o.n) }

// step is one operation of a history for the checker: it returns the states that
// may follow a state if it takes effect there, none if it may not.
type step interface {
	from(w *world, s *state) []*state
	String() string
}

// result is how a call ended.
type result struct {
	rank int   // where it was placed, noRank if err is set
	err  error // nil or an *sched.Error
	// queued: the call was told to remain waiting before it ended.
	queued bool
}

// arrival is the step of a call that was told to wait. It may have stood in line
// unseen while others were served before it.
type arrival struct{ r *request }

func (o arrival) from(w *world, s *state) []*state {
	before, after := s, []*state{s}
	switch s.places[o.r.index].phase {
	case unborn:
		after = stands(s, o.r)
	case waits:
		before = s.copied()
		before.unqueue(o.r)
	default:
		return nil
	}
	class, rules := w.class(s, o.r)
	_, never := rules.NeverQueues()
	_, _, full := rules.Full(w.usage(before, class), w.present(s))
	if !w.open(s, o.r) || never || full || o.r.noQueue || !w.mustWait(s, o.r) {
		return nil
	}
	return after
}

// open reports whether a request gets as far as to be tested for whether it must
// wait.
func (w *world) open(s *state, r *request) bool {
	return !s.closed && s.present != 0 && (len(w.usable(s, r)) > 0 || len(w.eligible(s, r)) == 0)
}

// ended ends a request, if that is right.
func ended(s *state, r *request, right bool) []*state {
	if !right {
		return nil
	}
	next := s.copied()
	next.places[r.index].phase = over
	return []*state{next.sealed()}
}

// stands adds a request to the queue. It may have read the clock at any time since it
// was called.
func stands(s *state, r *request) (out []*state) {
	for since := r.born; since <= s.ticks; since++ {
		next := s.copied()
		next.places[r.index].phase, next.places[r.index].since = waits, since
		next.queue = append(next.queue, int8(r.index))
		out = append(out, next.sealed())
	}
	return out
}

func (o arrival) String() string { return fmt.Sprintf("%v is queued, %s", o.r, o.r.asks()) }

// attempt is the first step of a call that may, but need not, have stood in line
// for a moment: then it counts for whose turn it is.
type attempt struct{ r *request }

func (o attempt) from(w *world, s *state) []*state {
	if s.places[o.r.index].phase != unborn {
		return nil
	}
	out := []*state{s}
	if w.open(s, o.r) {
		if _, stand := w.comes(s, o.r); stand {
			out = append(out, stands(s, o.r)...)
		}
	}
	return out
}

func (o attempt) String() string { return fmt.Sprintf("%v may stand, %s", o.r, o.r.asks()) }

// comes says what an arrival does that is open: it may be admitted directly, or
// stands in line; neither if it is refused because its class never queues.
func (w *world) comes(s *state, r *request) (direct, stand bool) {
	class, rules := w.class(s, r)
	wait := w.mustWait(s, r)
	if _, never := rules.NeverQueues(); never {
		return !rules.CanQueue() || w.usage(s, class)[0] == 0 && !wait, false
	}
	direct = len(s.queue) == 0 && !wait
	return direct, !direct
}

// unseenAt places a request whose owner has left on a rank, or on any.
func unseenAt(w *world, s *state, r *request, rank int) (out []*state) {
	for _, usable := range w.choices(s, r) {
		if rank == noRank || rank == usable {
			next := s.copied()
			next.places[r.index] = place{phase: unseen, rank: int8(usable), prefill: true}
			if r.query {
				next.places[r.index] = place{phase: unseen, rank: noRank}
			}
			out = append(out, next.sealed())
		}
	}
	if rank == noRank && len(out) == 0 {
		next := s.copied()
		next.places[r.index] = place{phase: unseen, rank: noRank}
		out = append(out, next.sealed())
	}
	return out
}

// refusal is the end of a call that was refused as it arrived.
type refusal struct {
	r      *request
	result result
}

func (o refusal) from(w *world, s *state) []*state {
	phase := s.places[o.r.index].phase
	standing := phase == waits
	if phase != unborn && !standing {
		return nil
	}
	code := codeOf(o.result.err)
	switch code {
	case sched.ErrClosed:
		return ended(s, o.r, s.closed && !standing)
	case sched.ErrOverloaded, sched.ErrPinnedOverloaded:
		return ended(s, o.r, !s.closed && !standing && code == noRankCode(w, s, o.r) && len(w.usable(s, o.r)) == 0)
	}
	if !w.open(s, o.r) {
		return nil
	}
	class, rules := w.class(s, o.r)
	without := s
	if standing {
		without = s.copied()
		without.unqueue(o.r)
	}
	used := w.usage(without, class)
	wait := w.mustWait(s, o.r)
	if limit, never := rules.NeverQueues(); never {
		full := rules.CanQueue() && (used[0] > 0 || wait) && o.result.says(rules.Name, limit, used[limit], 0)
		return ended(s, o.r, full && !standing)
	}
	// Waiters that can run are served before limits are looked at.
	if !wait || w.canRun(without, class) {
		return nil
	}
	limit, bound, full := rules.Full(used, w.present(s))
	right := !full && o.r.noQueue && o.result.counts(rules.Name, used)
	if code == sched.ErrQueueFull {
		right = full && o.result.says(rules.Name, limit, used[limit], bound)
	}
	if !right {
		return nil
	}
	return []*state{gone(w, s, o.r)}
}

func (o refusal) String() string { return fmt.Sprintf("%v is refused%v", o.r, o.result) }

// gone ends a request that may wait; a class emptied so loses its deficit.
func gone(w *world, s *state, r *request) *state {
	next := s.copied()
	if s.places[r.index].phase == waits {
		class, _ := w.class(s, r)
		next.unqueue(r)
		if w.usage(next, class)[0] == 0 {
			next.round.Empty(class)
		}
	}
	next.places[r.index] = place{phase: over}
	return next.sealed()
}

func (w *world) present(s *state) (n int) {
	for i := range w.workers {
		n += int(s.present >> i & 1)
	}
	return n
}

// canRun reports whether any waiter of a class can run.
func (w *world) canRun(s *state, class int) bool {
	for _, q := range s.queue {
		r := w.requests[q]
		if c, _ := w.class(s, r); c == class && !w.mustWait(s, r) {
			return true
		}
	}
	return false
}

// placed gives a request its rank, if that is one it may have, or its failure, if
// it has none. It takes over next.
func placed(w *world, next *state, r *request, got result) []*state {
	usable := w.usable(next, r)
	p := &next.places[r.index]
	switch {
	case got.err != nil:
		if len(usable) > 0 || codeOf(got.err) != noRankCode(w, next, r) {
			return nil
		}
		p.phase = over
	case !contains(w.choices(next, r), got.rank):
		return nil
	case r.query:
		p.phase = over
	default:
		*p = place{phase: booked, rank: int8(got.rank), prefill: true, attempts: 1}
	}
	return []*state{next.sealed()}
}

func noRankCode(w *world, s *state, r *request) error {
	switch {
	case len(w.eligible(s, r)) == 0:
		return sched.ErrNoEndpoints
	case r.pin != noRank:
		return sched.ErrPinnedOverloaded
	default:
		return sched.ErrOverloaded
	}
}

func contains(ranks []int, rank int) bool {
	for _, r := range ranks {
		if r == rank {
			return true
		}
	}
	return false
}

// grant is the step in which a call is served. If it was not told to wait it has
// arrived in the same step, or stood in line unseen before.
type grant struct {
	r      *request
	result result
}

func (o grant) from(w *world, s *state) (out []*state) {
	for _, next := range comesThrough(w, s, o.r, o.result.queued) {
		out = append(out, placed(w, next, o.r, o.result)...)
	}
	return out
}

// comesThrough returns the states to be completed in which it is for a request to
// be placed.
func comesThrough(w *world, s *state, r *request, queued bool) (out []*state) {
	switch phase := s.places[r.index].phase; {
	case s.closed:
		return nil
	case phase == waits:
		return served(w, s, r)
	case phase != unborn || queued:
		return nil
	case s.present == 0:
		return []*state{s.copied()}
	case !w.open(s, r):
		return nil
	}
	switch direct, stand := w.comes(s, r); {
	case direct:
		return []*state{s.copied()}
	case stand:
		for _, standing := range stands(s, r) {
			out = append(out, served(w, standing, r)...)
		}
	}
	return out
}

// served returns the state to be completed in which a waiting request has had its
// turn; none if it is not its turn.
func served(w *world, s *state, r *request) []*state {
	first, round := w.turn(s)
	if first != r.index {
		return nil
	}
	next := s.copied()
	next.unqueue(r)
	next.round = round
	return []*state{next}
}

func (o grant) String() string { return fmt.Sprintf("%v is granted%v, %s", o.r, o.result, o.r.asks()) }

// secret is what may happen unseen to a request whose owner leaves: it may be
// granted before that is noticed.
type secret struct {
	r *request
	// rank is where it was placed if the hook was told so, noRank if it was not.
	rank   int
	queued bool
}

func (o secret) from(w *world, s *state) (out []*state) {
	if o.rank == noRank {
		out = append(out, s) // it need not have happened
	}
	for _, next := range comesThrough(w, s, o.r, o.queued) {
		out = append(out, unseenAt(w, next, o.r, o.rank)...)
	}
	return out
}

func (o secret) String() string { return fmt.Sprintf("%v may be granted unseen at %d", o.r, o.rank) }

// leave is the end of a request whose owner has gone or that was closed over.
type leave struct {
	r      *request
	closed bool
	// granted: the hook was told before that it was granted.
	granted bool
}

func (o leave) from(w *world, s *state) []*state {
	phase := s.places[o.r.index].phase
	if o.closed && (!s.closed || phase != waits) || o.granted && phase != unseen {
		return nil
	}
	return []*state{gone(w, s, o.r)}
}

func (o leave) String() string { return fmt.Sprintf("%v leaves closed=%t", o.r, o.closed) }

func codeOf(err error) error {
	var e *sched.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e.Code
	default:
		return err
	}
}

// says reports whether a refusal gives this limit.
func (r result) says(class string, limit int, used, bound int64) bool {
	var e *sched.Error
	return errors.As(r.err, &e) && e.Class == class && e.Limit == model.LimitNames[limit] && e.Usage == used && e.Bound == bound
}

// counts reports whether a refusal gives these counters.
func (r result) counts(class string, used model.Usage) bool {
	var e *sched.Error
	return errors.As(r.err, &e) && e.Class == class && e.Pending == used[0] && e.Tokens == used[1] && e.Cached == used[2]
}

func (r result) String() string {
	switch {
	case r.err != nil:
		return fmt.Sprintf(" (queued=%t): %v", r.queued, r.err)
	default:
		return fmt.Sprintf(" (queued=%t): rank %d", r.queued, r.rank)
	}
}

func (r *request) String() string { return r.id }

// asks says what a request asks for.
func (r *request) asks() string {
	s := fmt.Sprintf("class=%s isl=%d", r.class, r.isl)
	for _, more := range []struct {
		text string
		set  bool
	}{
		{fmt.Sprintf(" prio=%d", r.priority), r.priority > 0},
		{fmt.Sprintf(" pin=%d", r.pin), r.pin != noRank},
		{fmt.Sprintf(" allow=%v", r.allowed), r.allowed != nil},
		{" query", r.query},
		{" no-queue", r.noQueue},
	} {
		if more.set {
			s += more.text
		}
	}
	return s
}
