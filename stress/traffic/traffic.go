// Package traffic runs streams of requests through an engine in virtual time, on
// ranks that compute one prompt after the other, and tells which request was served when.
//
// It is deterministic: the clock moves from one event to the next, and nothing else
// happens before the engine has settled.
//
// The package stands on floor 3.
package traffic

import (
	"container/heap"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

// Stream is requests of one kind, one after the other at the same distance.
type Stream struct {
	Name  string
	Class string
	ISL   int64
	Pin   *sched.RankID
	// First is when the first comes, Every the distance, Count how many come; 0 for as
	// many as there is time for.
	First, Every time.Duration
	Count        int
	// Leak: the owner never says that the prompt is computed.
	Leak bool
}

// World is an engine, its ranks and what is asked of them.
type World struct {
	Policy  string
	Workers []sched.Worker
	// TokensPerSecond is what a rank computes.
	TokensPerSecond int64
	Streams         []Stream
	// Policies replace the policy at a time.
	Policies map[time.Duration]string
	For      time.Duration
}

// Served is what became of a stream.
type Served struct {
	Asked, Granted int
	Tokens         int64
	// Longest is the longest wait of those granted.
	Longest time.Duration
	// On counts the grants by worker.
	On map[uint64]int
}

// Run runs the streams on an engine.
func Run(w World, factory script.Factory) (map[string]*Served, error) {
	r := &run{
		World: w, clock: clock.NewManual(time.Unix(1_000_000, 0)), served: map[string]*Served{},
		asked: map[string]*asked{}, free: map[sched.RankID]time.Time{},
	}
	r.decided = sync.NewCond(&r.mu)
	var err error
	r.engine, err = factory(script.Setup{
		BlockSize: 16, OverlapCredit: 1, PrefillScale: 1, Selector: "kv", Role: "both",
		PolicyYAML: []byte(w.Policy), Clock: r.clock, OnDecision: r.note,
	})
	if err != nil {
		return nil, err
	}
	err = r.all()
	if cerr := r.engine.Close(); err == nil {
		err = cerr
	}
	r.calls.Wait()
	return r.served, err
}

// asked is a request that came.
type asked struct {
	stream *Stream
	at     time.Time
}

type run struct {
	World
	engine engine.Engine
	clock  *clock.Manual
	calls  sync.WaitGroup
	events events
	last   int // number of the last event
	served map[string]*Served
	asked  map[string]*asked
	free   map[sched.RankID]time.Time // when a rank has computed what it has

	decided   *sync.Cond // on mu: decisions grew
	mu        sync.Mutex
	decisions []sched.Decision // guarded by mu
}

func (r *run) note(d sched.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decisions = append(r.decisions, d)
	r.decided.Broadcast()
}

// all makes everything happen in order of time.
func (r *run) all() error {
	for _, w := range r.Workers {
		if err := r.engine.UpsertWorker(w); err != nil {
			return err
		}
	}
	for i := range r.Streams {
		s := &r.Streams[i]
		r.served[s.Name] = &Served{On: map[uint64]int{}}
		r.after(s.First, func() error { return r.ask(s, 1) })
	}
	for at, text := range r.Policies {
		r.after(at, func() error { return r.engine.SetProfileYAML([]byte(text)) })
	}
	end := r.clock.Now().Add(r.For)
	for {
		next := end
		if len(r.events) > 0 && r.events[0].at.Before(next) {
			next = r.events[0].at
		}
		if at, ok := r.clock.Next(); ok && at.Before(next) {
			next = at
		}
		r.clock.Advance(next.Sub(r.clock.Now()))
		if err := r.settle(); err != nil {
			return err
		}
		if !next.Before(end) {
			return nil
		}
		for len(r.events) > 0 && !r.events[0].at.After(next) {
			if err := heap.Pop(&r.events).(event).do(); err != nil {
				return err
			}
			if err := r.settle(); err != nil {
				return err
			}
		}
	}
}

// ask makes the n-th request of a stream.
func (r *run) ask(s *Stream, n int) error {
	if s.Count == 0 || n < s.Count {
		r.after(s.Every, func() error { return r.ask(s, n+1) })
	}
	id := fmt.Sprintf("%s-%d", s.Name, n)
	r.asked[id] = &asked{s, r.clock.Now()}
	r.served[s.Name].Asked++
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.decisions)
	r.calls.Go(func() {
		// What becomes of it is told to the hook.
		_, _ = r.engine.Schedule(context.Background(), &sched.Request{ID: id, ISL: s.ISL, Class: s.Class, Pin: s.Pin})
	})
	for len(r.decisions) == before {
		r.decided.Wait()
	}
	return nil
}

// settle waits until the engine rests, and starts the prompts of those it granted.
func (r *run) settle() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.engine.Settle(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	decisions := r.decisions
	r.decisions = nil
	r.mu.Unlock()
	for _, d := range decisions {
		if d.Kind == sched.DecisionAdmitted {
			r.granted(d)
		}
	}
	return nil
}

// granted has the rank compute the prompt once it has computed those before.
func (r *run) granted(d sched.Decision) {
	a, now := r.asked[d.Request], r.clock.Now()
	served := r.served[a.stream.Name]
	served.Granted++
	served.Tokens += a.stream.ISL
	served.Longest = max(served.Longest, now.Sub(a.at))
	served.On[d.Placement.Rank.Worker]++
	if a.stream.Leak {
		return
	}
	start := r.free[d.Placement.Rank]
	if start.Before(now) {
		start = now
	}
	done := start.Add(time.Duration(a.stream.ISL) * time.Second / time.Duration(r.TokensPerSecond))
	r.free[d.Placement.Rank] = done
	r.after(done.Sub(now), func() error { return r.engine.Release(d.Request, 0) })
}

func (r *run) after(d time.Duration, do func() error) {
	r.last++
	heap.Push(&r.events, event{r.clock.Now().Add(d), r.last, do})
}

// event is something that happens at a time; of several, that which was planned first.
type event struct {
	at     time.Time
	number int
	do     func() error
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}
