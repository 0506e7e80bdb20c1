package linear

import (
	"fmt"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/stress/model"
)

// The specification looks at a small, closed world: the workers that may be
// there, the profiles that may be in force and the requests of one history are
// known from the start. A state then holds a few bytes for each.

// world is what a history may be about.
type world struct {
	workers  []sched.Worker
	ranks    []sched.RankID // of all workers, in order
	profiles []*model.Profile
	requests []*request
	// classes holds the class of each request under each profile.
	classes [][]int
}

// request is one call of Schedule or Query.
type request struct {
	index    int
	id       string
	query    bool
	isl      int64
	class    string
	priority uint32
	pin      int // index of a rank, noRank for none
	allowed  []uint64
	noQueue  bool
	// born is how often the clock had moved, at least, when the call was made.
	born uint8
}

const noRank = -1

// cost is the scheduling cost: no request of a history is cached anywhere.
func (r *request) cost() int64 { return max(1, r.isl) }

// phase is how far a request has come.
type phase uint8

const (
	unborn phase = iota
	waits
	// unseen: it was granted in secret, and its owner, who has left, will be found
	// out. A booking counts meanwhile.
	unseen
	booked
	over
)

// place is what a state knows of one request.
type place struct {
	phase    phase
	rank     int8
	prefill  bool // its prefill is not done
	attempts uint8
	// doomed: its worker was removed, and it will be dropped with its rank.
	doomed bool
	// since is the tick at which it came to wait.
	since uint8
}

// on reports whether it is a booking that counts in the load of a rank.
func (p place) on(rank int) bool {
	return (p.phase == booked || p.phase == unseen) && int(p.rank) == rank && !p.doomed
}

// state is one state of the sequential scheduler. It is never changed once made.
type state struct {
	closed     bool
	profile    int8
	present    uint8 // bit i: worker i is there
	overloaded uint8
	aside      uint8   // bit i: worker i is set aside
	processes  [3]int8 // which incarnation each worker is of
	ticks      uint8   // how often the clock has moved
	dropping   uint8   // bit i: rank i was removed and its bookings are still to be dropped
	places     []place
	queue      []int8 // requests that wait, in arrival order
	round      *model.Round
	told       uint8 // decisions of which the hook was told
	key        string
	// lag is 1 in the view of a caller that read the clock before its last move.
	lag uint8
}

func (w *world) initial() *state {
	s := &state{
		present: 1<<len(w.workers) - 1, places: make([]place, len(w.requests)),
		round: model.NewRound(len(w.profiles[0].Classes)),
	}
	return s.sealed()
}

// copied returns a copy to be changed and then sealed.
func (s *state) copied() *state {
	c := *s
	c.places, c.queue, c.round = slices.Clone(s.places), slices.Clone(s.queue), s.round.Clone()
	return &c
}

// sealed computes what states are compared by, and ends a view that lags.
func (s *state) sealed() *state {
	key := make([]byte, 0, 12+6*len(s.places)+len(s.queue)+12*len(s.round.Visiting))
	key = append(key, b(s.closed), byte(s.profile), s.present, s.overloaded, s.dropping, s.told, s.aside, s.ticks)
	for _, p := range s.processes {
		key = append(key, byte(p))
	}
	for _, p := range s.places {
		key = append(key, byte(p.phase), byte(p.rank), b(p.prefill), b(p.doomed), p.attempts, p.since)
	}
	for _, q := range s.queue {
		key = append(key, byte(q))
	}
	key = append(key, 0xff)
	for i, c := range s.round.Visiting {
		d := s.round.Deficit[i]
		key = append(key, byte(c), b(s.round.OnVisit[i]), byte(d), byte(d>>8), byte(d>>16))
	}
	s.key, s.lag = string(key), 0
	return s
}

func b(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// worker returns the index of a rank's worker.
func (w *world) worker(rank int) int {
	return slices.IndexFunc(w.workers, func(x sched.Worker) bool { return x.ID == w.ranks[rank].Worker })
}

// eligible returns the ranks that may serve a request, overload aside.
func (w *world) eligible(s *state, r *request) (ranks []int) {
	for i, id := range w.ranks {
		if s.present&(1<<w.worker(i)) != 0 && (r.pin == noRank || r.pin == i) &&
			(r.allowed == nil || slices.Contains(r.allowed, id.Worker)) {
			ranks = append(ranks, i)
		}
	}
	return ranks
}

func (w *world) isOverloaded(s *state, rank int) bool {
	return (s.overloaded|s.aside)&(1<<w.worker(rank)) != 0
}

// choices are the usable ranks among which a request is placed: a class may choose
// from idle ranks alone, and leaves guarded ones out.
func (w *world) choices(s *state, r *request) []int {
	c, class := w.class(s, r)
	return slices.DeleteFunc(w.usable(s, r), func(rank int) bool {
		return r.pin == noRank && (class.Idle && class.Busy(w.load(s, rank)) || w.guarded(s, c, rank))
	})
}

// guarded reports whether a waiter of another class guards a rank.
func (w *world) guarded(s *state, class int, rank int) bool {
	if !w.profiles[s.profile].Classes[class].Bound() {
		return false
	}
	for _, q := range s.queue {
		other := w.requests[q]
		c, guard := w.class(s, other)
		waited := int64(s.ticks) - int64(s.lag) - int64(s.places[q].since)
		if c != class && guard.Guards(waited*int64(tick)) &&
			guard.PrefillBusy(w.active(s, rank), w.workers[w.worker(rank)].MaxBatchedTokens) &&
			contains(w.eligible(s, other), rank) {
			return true
		}
	}
	return false
}

// usable are the eligible ranks that are not overloaded.
func (w *world) usable(s *state, r *request) []int {
	return slices.DeleteFunc(w.eligible(s, r), func(rank int) bool { return w.isOverloaded(s, rank) })
}

// active returns the active prefill tokens of a rank: no prefill decays here.
func (w *world) active(s *state, rank int) (sum int64) {
	for i, p := range s.places {
		if p.on(rank) && p.prefill {
			sum += w.requests[i].isl
		}
	}
	return sum
}

// load is what makes a rank busy.
func (w *world) load(s *state, rank int) model.Load {
	l := model.Load{Prefill: w.active(s, rank), MaxBatched: w.workers[w.worker(rank)].MaxBatchedTokens}
	for _, p := range s.places {
		if p.on(rank) {
			l.Requests++
		}
	}
	return l
}

func (w *world) class(s *state, r *request) (int, *model.Class) {
	i := w.classes[s.profile][r.index]
	return i, &w.profiles[s.profile].Classes[i]
}

func (w *world) mustWait(s *state, r *request) bool {
	c, class := w.class(s, r)
	ranks := w.eligible(s, r)
	blocked, guarded := 0, 0
	for _, rank := range ranks {
		switch {
		case w.isOverloaded(s, rank) || class.Busy(w.load(s, rank)):
			blocked++
		case w.guarded(s, c, rank):
			guarded++
		}
	}
	return class.MustWait(blocked, len(ranks)) || guarded > 0 && blocked+guarded == len(ranks)
}

// usage is what the waiting requests of a class amount to.
func (w *world) usage(s *state, class int) (u model.Usage) {
	for _, q := range s.queue {
		r := w.requests[q]
		if c, _ := w.class(s, r); c == class {
			u[0], u[1] = u[0]+1, u[1]+r.isl
		}
	}
	return u
}

// turn says whose turn it is among the waiters that can run, and how the round stands
// once that one is served; −1 if none can run.
func (w *world) turn(s *state) (served int, next *model.Round) {
	classes := w.profiles[s.profile].Classes
	best, costs, waiting := make([]int, len(classes)), make([]int64, len(classes)), make([]int, len(classes))
	some := false
	for seq, q := range s.queue {
		r := w.requests[q]
		c, class := w.class(s, r)
		waiting[c]++
		if w.mustWait(s, r) {
			continue
		}
		some = true
		a := model.Entry{Seq: seq, Priority: r.priority, Due: model.NoDue, Cost: r.cost()}
		if costs[c] != model.Nobody {
			other := w.requests[s.queue[best[c]]]
			e := model.Entry{Seq: best[c], Priority: other.priority, Due: model.NoDue, Cost: other.cost()}
			if !class.Before(&a, &e, 0) {
				continue
			}
		}
		best[c], costs[c] = seq, r.cost()
	}
	if !some {
		return -1, nil
	}
	next = s.round.Clone()
	class, _ := next.Turn(classes, costs, waiting)
	return int(s.queue[best[class]]), next
}

// unqueue takes a request out of the queue of a state that is being made.
func (s *state) unqueue(r *request) {
	s.queue = slices.DeleteFunc(s.queue, func(q int8) bool { return int(q) == r.index })
}

func (s *state) String() string {
	places := ""
	for i, p := range s.places {
		if p.phase == booked || p.phase == unseen {
			places += fmt.Sprintf(" r%d:%+v", i, p)
		}
	}
	return fmt.Sprintf("closed=%t profile=%d workers=%b processes=%v overloaded=%b aside=%b ticks=%d queue=%v places=%v visiting=%v deficits=%v visits=%v",
		s.closed, s.profile, s.present, s.processes, s.overloaded, s.aside, s.ticks, s.queue, places, s.round.Visiting, s.round.Deficit, s.round.OnVisit)
}
