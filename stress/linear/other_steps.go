package linear

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/stress/model"
)

// lifecycle is a call on a booking.
type lifecycle struct {
	r    *request
	kind string // prefill-done, release or transfer
	to   int    // the rank of a transfer
	// seen is the newest attempt that anybody had been told of when the call was
	// made: only if a later one came while it was under way may it be stale.
	seen uint8
	// byID: the call named the request, so that what has ended is not found.
	byID bool
	err  error
}

func (o lifecycle) from(w *world, s *state) []*state {
	p := s.places[o.r.index]
	live := p.phase == booked
	if errors.Is(o.err, sched.ErrStaleAttempt) {
		return only(s, p.attempts > o.seen)
	}
	if !live {
		want := sched.ErrUnchanged
		if o.byID {
			want = sched.ErrNotFound
		}
		return only(s, p.phase == over && errors.Is(o.err, want))
	}
	next := s.copied()
	n := &next.places[o.r.index]
	changes := true
	switch o.kind {
	case "prefill-done":
		changes = p.prefill
		n.prefill = false
	case "release":
		*n = place{phase: over, attempts: p.attempts}
	case "transfer":
		if s.present&(1<<w.worker(o.to)) == 0 {
			return only(s, errors.Is(o.err, sched.ErrNoEndpoints))
		}
		changes = int(p.rank) != o.to || p.doomed
		n.rank, n.doomed = int8(o.to), false
		n.attempts++
	}
	if !changes {
		return only(s, errors.Is(o.err, sched.ErrUnchanged))
	}
	if o.err != nil {
		return nil
	}
	return []*state{next.sealed()}
}

func only(s *state, right bool) []*state {
	if !right {
		return nil
	}
	return []*state{s}
}

func (o lifecycle) String() string {
	if o.kind == "transfer" {
		return fmt.Sprintf("%s %v to %d: %v", o.kind, o.r, o.to, o.err)
	}
	return fmt.Sprintf("%s %v: %v", o.kind, o.r, o.err)
}

// advisory is a Select.
type advisory struct {
	r      *request
	result result
}

func (o advisory) from(w *world, s *state) []*state {
	switch {
	case codeOf(o.result.err) == sched.ErrClosed || s.closed:
		return only(s, s.closed && codeOf(o.result.err) == sched.ErrClosed)
	case o.result.err != nil:
		return only(s, len(w.usable(s, o.r)) == 0 && codeOf(o.result.err) == noRankCode(w, s, o.r))
	default:
		return only(s, contains(w.usable(s, o.r), o.result.rank))
	}
}

func (o advisory) String() string { return fmt.Sprintf("select%v", o.result) }

// change is a call about the pool, the policy or the scheduler as a whole.
type change struct {
	kind string // remove, add, overloaded, aside, back, tick, profile or close
	// worker is the index of one, set a set of them, profile the index of one, process
	// that of the incarnation named.
	worker, profile int
	process         int8
	set             uint8
	err             error
}

func (o change) from(w *world, s *state) []*state {
	next := s.copied()
	bit, another := uint8(1)<<o.worker, false
	switch o.kind {
	case "remove", "add", "aside", "back":
		known := s.processes[o.worker]
		another = s.present&bit != 0 && known != 0 && o.process != 0 && known != o.process
		switch {
		case o.kind == "add":
		case s.present&bit == 0:
			return only(s, errors.Is(o.err, sched.ErrNotFound))
		case another:
			return only(s, errors.Is(o.err, sched.ErrStaleIncarnation))
		}
	}
	switch o.kind {
	case "remove":
		w.removes(next, o.worker)
	case "add":
		if another {
			w.removes(next, o.worker)
		}
		next.present |= bit
		if o.process != 0 {
			next.processes[o.worker] = o.process
		}
	case "aside":
		next.aside |= bit
	case "back":
		next.aside &^= bit
	case "tick":
		next.ticks++
	case "overloaded":
		next.overloaded = o.set
	case "profile":
		next.profile = int8(o.profile)
		next.round = model.NewRound(len(w.profiles[o.profile].Classes))
	case "close":
		next.closed = true
	}
	if o.err != nil {
		return nil
	}
	return []*state{next.sealed()}
}

// removes takes a worker out of a state that is being made.
func (w *world) removes(next *state, worker int) {
	bit := uint8(1) << worker
	next.present &^= bit
	next.aside &^= bit
	next.processes[worker] = 0
	for rank := range w.ranks {
		if w.worker(rank) != worker {
			continue
		}
		next.dropping |= 1 << rank
		for i, p := range next.places {
			if p.on(rank) {
				next.places[i].doomed = true
			}
		}
	}
}

// drop is the end of the bookings of a rank whose worker was removed. It comes
// after the worker has left the table and before the call returns; until then
// they are live to their owners.
type drop struct {
	rank int
	// maybe: the call may have removed a worker, or found it to be the same.
	maybe bool
}

func (o drop) from(_ *world, s *state) (out []*state) {
	bit := uint8(1) << o.rank
	if o.maybe {
		out = append(out, s)
	}
	if s.dropping&bit == 0 {
		return out
	}
	next := s.copied()
	next.dropping &^= bit
	for i, p := range s.places {
		if p.doomed && int(p.rank) == o.rank {
			next.places[i] = place{phase: over, attempts: p.attempts}
			if p.phase == unseen { // its owner is still to find out
				next.places[i] = place{phase: unseen, rank: noRank}
			}
		}
	}
	return append(out, next.sealed())
}

func (o drop) String() string { return fmt.Sprintf("drop rank %d maybe=%t", o.rank, o.maybe) }

func (o change) String() string {
	return fmt.Sprintf("%s worker=%d process=%d profile=%d set=%b: %v", o.kind, o.worker, o.process, o.profile, o.set, o.err)
}

// rest is what is seen when nothing moves any more: no request that could run waits,
// the loads are the sums over the live bookings and the counters those over who
// waits.
type rest struct {
	loads   []sched.RankLoad
	classes []sched.ClassStats
}

func (o rest) from(w *world, s *state) []*state {
	if served, _ := w.turn(s); served >= 0 {
		return nil
	}
	var loads []sched.RankLoad
	for rank, id := range w.ranks {
		if s.present&(1<<w.worker(rank)) == 0 {
			continue
		}
		l := sched.RankLoad{Rank: id, PrefillTokens: w.active(s, rank)}
		for _, p := range s.places {
			if p.phase == booked && p.on(rank) {
				l.Requests++
			}
		}
		loads = append(loads, l)
	}
	if !slices.Equal(loads, o.loads) {
		return nil
	}
	for i, c := range o.classes {
		if u := w.usage(s, i); c.Pending != u[0] || c.Tokens != u[1] || c.Deficit != s.round.Deficit[i] {
			return nil
		}
	}
	return []*state{s}
}

func (o rest) String() string {
	s := "rest:"
	for _, l := range o.loads {
		s += fmt.Sprintf(" %v prefill=%d requests=%d", l.Rank, l.PrefillTokens, l.Requests)
	}
	for _, c := range o.classes {
		s += fmt.Sprintf(" %s pending=%d tokens=%d deficit=%d", c.Name, c.Pending, c.Tokens, c.Deficit)
	}
	return s
}
