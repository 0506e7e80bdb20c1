package storm

import (
	"errors"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// checkPlacement checks an admission that was made in one world: invariant 1.
func (s *storm) checkPlacement(r *sched.Request, p *sched.Placement, w *world, began uint64, scratch []place) []place {
	places := s.checkRank(r, p, w, scratch)
	class := w.profile.class(r.Class)
	if class == nil || class.BusyThreshold == nil || len(places) == 0 {
		return places
	}
	s.witnessed.Add(1)
	blocked := 0
	for i := range places {
		busy := places[i].book.busySince(began, *class.BusyThreshold)
		if places[i].overloaded || busy {
			blocked++
		}
		if busy && places[i].id == p.Rank && class.ChooseFrom == policy.ChooseIdle && r.Pin == nil {
			s.broken.add(1, "%s was put on %v, which was busy for its class from before it came until it was booked", r.ID, p.Rank)
		}
	}
	if class.MustWait(blocked, len(places)) {
		s.broken.add(1, "%s was admitted to %v while %d of %d ranks were busy, from before it came until it was booked",
			r.ID, p.Rank, blocked, len(places))
	}
	return places
}

// checkRank checks that a rank chosen in one world is one of the eligible.
func (s *storm) checkRank(r *sched.Request, p *sched.Placement, w *world, scratch []place) []place {
	places := w.eligible(r, scratch)
	i := slices.IndexFunc(places, func(l place) bool { return l.id == p.Rank })
	switch {
	case i < 0:
		s.broken.add(1, "%s was put on %v, which is not eligible", r.ID, p.Rank)
	case places[i].overloaded:
		s.broken.add(1, "%s was put on %v, which is overloaded", r.ID, p.Rank)
	case p.Endpoint != w.endpoint(p.Rank.Worker):
		s.broken.add(2, "%s was put on %v at %q, which is at %q", r.ID, p.Rank, p.Endpoint, w.endpoint(p.Rank.Worker))
	}
	return places
}

// checkCap checks that no rank has more requests than all classes let it have.
func (s *storm) checkCap(loads []sched.RankLoad) {
	if !s.capped() {
		return
	}
	for _, l := range loads {
		if l.Requests > maxRequests {
			s.broken.add(1, "%d requests at once on rank %v, on which each class puts no more than %d", l.Requests, l.Rank, maxRequests)
		}
	}
}

// capped reports whether every class caps the requests of a rank.
func (s *storm) capped() bool {
	return s.config.Profile == ProfileCapped && s.profiles[0].parsed.Class(0).MaxRequestsPerRank > 0
}

// checkVisible checks that what was booked before is seen: invariant 2.
func (s *storm) checkVisible(b *book, rank sched.RankID, r *sched.Request, w *world) {
	count, tokens, leaves := b.read()
	loads := s.engine.Loads()
	s.checkCap(loads)
	if _, _, now := b.read(); now != leaves || s.world.Load() != w {
		return
	}
	s.looked.Add(1)
	i := slices.IndexFunc(loads, func(l sched.RankLoad) bool { return l.Rank == rank })
	if i < 0 {
		s.broken.add(2, "Loads does not list %v", rank)
		return
	}
	l := loads[i]
	blocks := int64(0)
	if !mayWeigh(r.Blocks) {
		blocks = int64(len(r.Blocks))
	}
	if l.Requests < count || l.PrefillTokens < tokens || l.Blocks < blocks {
		s.broken.add(2, "after Schedule returned for %s, Loads shows %+v; owners know of %d bookings with %d tokens",
			r.ID, l, count, tokens)
	}
}

// checkError checks an error of Schedule, Query or Select.
func (s *storm) checkError(r *sched.Request, err error, before *world) {
	var e *sched.Error
	if !errors.As(err, &e) {
		s.broken.add(8, "%s: an error that is no *sched.Error: %v", r.ID, err)
		return
	}
	switch e.Code {
	case sched.ErrCanceled, sched.ErrDeadline, sched.ErrQueueFull, sched.ErrWouldQueue:
	case sched.ErrDuplicate:
		if r.ID[0] != 's' {
			s.broken.add(10, "%s is still taken although its last request has ended", r.ID)
		}
	case sched.ErrInternal:
		if !s.config.Sources {
			s.broken.add(8, "%s: %v", r.ID, err)
		}
	case sched.ErrSelector:
		if s.config.Calm || s.config.Exact {
			s.broken.add(8, "%s: %v", r.ID, err)
		}
	case sched.ErrNoEndpoints, sched.ErrOverloaded, sched.ErrPinnedOverloaded:
		if before == nil || before != s.world.Load() {
			return
		}
		places := before.eligible(r, nil)
		free := slices.ContainsFunc(places, func(l place) bool { return !l.overloaded })
		if free || (e.Code == sched.ErrNoEndpoints) != (len(places) == 0) {
			s.broken.add(8, "%s: %v, but %d ranks are eligible", r.ID, err, len(places))
		}
	default:
		s.broken.add(8, "%s: %v", r.ID, err)
	}
}
