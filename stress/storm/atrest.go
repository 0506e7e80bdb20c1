package storm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// stop has all callers pause and waits until none moves: each has parked or is
// in a call, and as many wait as the engine says. In a lull all have released
// what they held, and who waited has been served.
func (s *storm) stop(how pause) (moves uint64, ok bool) {
	s.pauser.set(how)
	if how != rest {
		s.churner.awaitPark()
		s.churner.calm()
	}
	deadline := time.Now().Add(s.config.Patience)
	ticks := s.lateTicks()
	for wait := 20 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		if moves, ok = s.still(how); ok {
			if ticks == 0 {
				return moves, true
			}
			ticks--
			s.clock.Advance(time.Millisecond)
		}
		if time.Now().After(deadline) {
			calls, busy := s.activities()
			s.broken.add(6, "the storm does not come to rest: %d callers in calls, %d busy; %+v; loads %+v", calls, busy, s.engine.Stats(), s.engine.Loads())
			for _, f := range s.inspect() {
				s.broken.add(f.Invariant, "and so: %s", f.What)
			}
			return 0, false
		}
		if how != rest && s.ticker.is() != running {
			// Time passes, or a waiter for decay would wait for ever; leaked
			// bookings must be found.
			s.clock.Advance(max(100*time.Microsecond, wait))
			runtime.GC()
		}
		time.Sleep(wait)
	}
}

// lateTicks is how many milliseconds pass at rest before the engine is looked at: a
// timer that fired before a coarse clock, or one that panicked, showed its time is set
// anew; see coarseLooks.
func (s *storm) lateTicks() int {
	switch tick := s.config.Tick; {
	case tick > 0:
		return 3 + int((tick-s.clock.Now().Sub(s.source.Now()))/time.Millisecond)
	case s.config.Sources:
		return 3
	}
	return 0
}

func (p *participant) awaitPark() {
	for p.is() != parked && p.is() != returned {
		time.Sleep(10 * time.Microsecond)
	}
}

func (s *storm) activities() (calls, busy int) {
	for _, p := range s.participants {
		switch p.is() {
		case calling:
			calls++
		case running:
			busy++
		case parked, returned:
		}
	}
	return calls, busy
}

func (s *storm) moves() (n uint64) {
	for _, p := range s.participants {
		n += p.moves.Load()
	}
	return n
}

func (s *storm) still(how pause) (moves uint64, ok bool) {
	moves = s.moves()
	calls, busy := s.activities()
	if busy > 0 || how != rest && calls > 0 {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Patience)
	defer cancel()
	if err := s.engine.Settle(ctx); err != nil {
		s.broken.add(6, "the engine does not settle: %v", err)
		return 0, false
	}
	return moves, s.engine.Stats().Waiting == int64(calls) && s.moves() == moves
}

// A fault at rest must be seen so often, for so long, with nothing having moved:
// a lost wake-up is for ever, a goroutine descheduled on its way out is not.
const (
	undisturbed    = 20
	undisturbedFor = 2 * time.Second
)

// coarseLooks is how many ticks of a coarse clock a fault must outlast. A timer that
// fires before such a clock shows its time is set anew for what the clock says is left,
// which can be nearly a tick too much: then a request that is due, or a rank that time
// frees, is found a tick later. One that is lost stays lost.
const coarseLooks = 4

// atRest stops the storm where it is and checks invariants 5 to 8.
func (s *storm) atRest() {
	moves, ok := s.stop(rest)
	defer s.pauser.set(goOn)
	if !ok {
		return
	}
	s.rests.Add(1)
	for look := 0; s.config.Tick > 0 && look < coarseLooks; look++ {
		if len(s.inspect()) == 0 {
			return
		}
		if moves, ok = s.stop(rest); !ok {
			return
		}
	}
	var faults []Violation
	for seen := 0; seen < undisturbed; {
		leaked := s.engine.Stats().Leaked
		if faults = s.inspect(); len(faults) == 0 {
			return
		}
		time.Sleep(undisturbedFor / undisturbed)
		seen++
		if s.engine.Stats().Leaked == leaked && s.moves() == moves {
			continue
		}
		// A caller's context has ended, or a leaked booking was found.
		seen = 0
		if moves, ok = s.stop(rest); !ok {
			return
		}
	}
	for _, f := range faults {
		s.broken.add(f.Invariant, "at rest: %s", f.What)
	}
}

// inspect compares the engine with what everybody knows. REQUIRES: nothing moves.
func (s *storm) inspect() (faults []Violation) {
	fault := func(invariant int, format string, args ...any) {
		faults = append(faults, Violation{invariant, fmt.Sprintf(format, args...)})
	}
	w, stats := s.world.Load(), s.engine.Stats()
	loads := make(map[sched.RankID]sched.RankLoad)
	for _, l := range s.engine.Loads() {
		loads[l.Rank] = l
	}
	s.checkCap(slices.Collect(maps.Values(loads)))
	s.inspectWaiting(w, &stats, loads, fault)
	s.inspectLoads(&stats, loads, fault)
	return faults
}

// inspectLoads: the load of each rank is the sum over the bookings on it.
func (s *storm) inspectLoads(stats *sched.Stats, loads map[sched.RankID]sched.RankLoad, fault func(int, string, ...any)) {
	sums := make(map[sched.RankID]*sum)
	of := func(rank sched.RankID) *sum {
		if sums[rank] == nil {
			sums[rank] = &sum{distinct: make(map[uint64]bool)}
		}
		return sums[rank]
	}
	ids := make(map[string]bool)
	live, lost := int64(0), int64(0)
	if s.leaks.Load() > 0 {
		lost = s.leaks.Load() - stats.Leaked
	}
	for _, c := range s.callers {
		c.mu.Lock()
		held := slices.Clone(c.mu.held)
		c.mu.Unlock()
		for _, cl := range held {
			if cl.gone() || cl.ends.Load() > 0 {
				continue
			}
			if cl.shared {
				switch err := cl.b.Touch(); {
				case errors.Is(err, sched.ErrStaleAttempt):
					lost++ // moved or ended by another
					continue
				case err != nil:
					continue
				}
			}
			if ids[cl.id] {
				fault(8, "two bookings of %s live", cl.id)
			}
			ids[cl.id] = true
			live++
			if err := s.engine.Touch(cl.id, cl.attempt()); err != nil {
				fault(8, "the id of a live booking is not known: %v", err)
			}
			p := cl.b.Placement()
			of(p.Rank).add(cl, &p)
		}
	}
	if stats.Live < live || stats.Live > live+lost {
		fault(7, "%d bookings live, callers hold %d and have lost %d", stats.Live, live, lost)
	}
	for rank, l := range loads {
		of(rank).compare(l, lost, fault)
		delete(sums, rank)
	}
	for rank := range sums {
		fault(7, "a booking is on %v, which Loads does not list", rank)
	}
}

// sum is what a rank should have, as bounds where that is not known exactly.
type sum struct {
	requests, least, most int64
	distinct              map[uint64]bool
	outputs               int64
	weighed               bool
}

func (m *sum) add(cl *claim, p *sched.Placement) {
	m.requests++
	if cl.tracked && cl.done.Load() == 0 {
		t := max(0, cl.isl-p.CachedTokens)
		m.most += t
		if !cl.decays && !cl.shared {
			m.least += t
		}
	}
	for _, b := range cl.blocks {
		m.distinct[b] = true
	}
	m.outputs += cl.outputs.Load()
	m.weighed = m.weighed || mayWeigh(cl.blocks)
}

// compare compares it with the load; lost bookings, of which nothing is known,
// may add to it.
func (m *sum) compare(l sched.RankLoad, lost int64, fault func(int, string, ...any)) {
	blocks := int64(len(m.distinct)) + m.outputs
	least := blocks
	if m.weighed {
		least = 0
	}
	if l.Requests < m.requests || l.PrefillTokens < m.least || l.Blocks < least ||
		lost == 0 && (l.Requests > m.requests || l.PrefillTokens > m.most || l.Blocks > blocks) {
		fault(7, "rank %v has %d requests, %d tokens and %d blocks; the bookings on it amount to %d, %d to %d and %d to %d",
			l.Rank, l.Requests, l.PrefillTokens, l.Blocks, m.requests, m.least, m.most, least, blocks)
	}
}

// inLull has everybody release everything and checks that nothing is left:
// invariants 7 and 10.
func (s *storm) inLull(how pause) (ok bool) {
	if _, ok = s.stop(how); !ok {
		return false
	}
	s.lulls.Add(1)
	s.awaitLeaks()
	stats := s.engine.Stats()
	if stats.Live != 0 || stats.Waiting != 0 {
		s.broken.add(7, "all was released, but %d live and %d wait", stats.Live, stats.Waiting)
	}
	for _, c := range stats.Classes {
		if c.Pending != 0 || c.Tokens != 0 || c.Cached != 0 {
			s.broken.add(7, "no request waits, but class %s counts %+v", c.Name, c)
		}
	}
	for _, l := range s.engine.Loads() {
		if l.PrefillTokens != 0 || l.Blocks != 0 || l.Requests != 0 {
			s.broken.add(7, "all was released, but rank %v has %+v", l.Rank, l)
		}
	}
	s.checkIndexes()
	s.checkShared()
	s.order.checkEmpty()
	if at, pending := s.clock.Next(); pending {
		s.broken.add(10, "no request waits or is booked, but a timer is set for %v", at)
	}
	return true
}

// awaitLeaks waits until all bookings that were lost have been found.
func (s *storm) awaitLeaks() {
	for began := time.Now(); s.engine.Stats().Live > 0 && time.Since(began) < s.config.Patience; {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Patience)
	defer cancel()
	if err := s.engine.Settle(ctx); err != nil {
		s.broken.add(6, "the engine does not settle: %v", err)
	}
}

// checkIndexes: no rank is thought to hold a block of those released.
func (s *storm) checkIndexes() {
	e, ok := s.engine.(interface {
		PotentialLoads(*sched.Request) ([]sched.PotentialLoad, error)
	})
	if !ok {
		return
	}
	for n := range uint64(conversations) {
		r := &sched.Request{ISL: 100, Blocks: conversation(n, 6)}
		loads, err := e.PotentialLoads(r)
		if err != nil {
			s.broken.add(7, "PotentialLoads: %v", err)
		}
		for _, l := range loads {
			if l.PotentialDecodeBlocks != int64(len(r.Blocks)) {
				s.broken.add(7, "nothing is booked, but rank %v is thought to hold some of %v: %+v", l.Rank, r.Blocks, l)
			}
		}
	}
}

// checkShared: of each id that was everybody's, as many bookings ended as were
// made.
func (s *storm) checkShared() {
	for i := range s.shared {
		m := &s.shared[i].mu
		m.Lock()
		for _, cl := range m.unclear {
			if cl.gone() {
				m.ends++
			}
		}
		m.unclear = nil
		if m.ends < m.admitted || m.ends > m.admitted+m.withdrawn {
			s.broken.add(8, "of id s:%d, %d bookings were made and %d ended", i, m.admitted, m.ends)
		}
		m.Unlock()
	}
}
