package replay

import (
	"context"
	"runtime"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
)

// Result is what a replay measured.
type Result struct {
	// Requests is how many there were to send. Completed ones ran to their end;
	// Unscheduled ones were refused, or something on their way failed; CutShort
	// ones were given up, or never sent, because the replay was interrupted.
	Requests, Completed, Unscheduled, CutShort int
	// Err is the error of the first request, in order, that has one.
	Err error

	// Wall and CPU are the time from the start to the last end, and the
	// processor time the whole process spent in it (0 where it cannot be told).
	Wall, CPU time.Duration
	// Late is by how much, in all, ticks came later than they should: because the
	// engine takes all the processors there are or, if it does next to nothing,
	// because something else does.
	Late time.Duration
	// Schedule holds how long each answered Schedule call took.
	Schedule []time.Duration
	// FirstToken holds, in simulated time, how long after its arrival each
	// completed request had its first token.
	FirstToken []time.Duration
	// MostWaiting is the most callers that were within Schedule at once.
	MostWaiting int64

	// Prompt and Cached are the prompt tokens run, and those of them found in
	// the cache of their rank.
	Prompt, Cached int64
	// Balance is the most computed prompt tokens of any rank over their mean; 1
	// is even.
	Balance float64

	Left Leftovers
	// Interrupted: the context ended first. Stalled: see ErrStalled. Stuck: some
	// callers did not come back when they were cancelled.
	Interrupted, Stalled, Stuck bool
}

// Leftovers is what should be zero once every request has ended.
type Leftovers struct {
	// Waiting and Live are requests that still wait and bookings that still
	// live, Loaded the ranks whose load is not zero, and Goroutines how many
	// more there are once the engine is closed than before it was built.
	Waiting, Live, Loaded, Goroutines int64
	// Err is set if the engine failed to settle or to close.
	Err error
}

// Total is the sum of all that is left.
func (l Leftovers) Total() int64 {
	total := l.Waiting + l.Live + l.Loaded + l.Goroutines
	if l.Err != nil {
		total++
	}
	return total
}

// leftovers looks what an engine holds when it should hold nothing, and closes
// it.
func leftovers(eng engine.Engine, goroutinesBefore int, grace time.Duration) Leftovers {
	var l Leftovers
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	l.Err = eng.Settle(ctx)
	stats := eng.Stats()
	l.Waiting, l.Live = stats.Waiting, stats.Live
	for _, load := range eng.Loads() {
		if load.PrefillTokens != 0 || load.Blocks != 0 || load.Requests != 0 {
			l.Loaded++
		}
	}
	if err := eng.Close(); err != nil && l.Err == nil {
		l.Err = err
	}
	cancel()
	// What was told to end may need a moment to do so.
	deadline := time.Now().Add(grace / 2)
	more := runtime.NumGoroutine() - goroutinesBefore
	for more > 0 && time.Now().Before(deadline) {
		time.Sleep(2 * time.Millisecond)
		more = runtime.NumGoroutine() - goroutinesBefore
	}
	l.Goroutines = max(0, int64(more))
	return l
}

// count sums up the flights. If callers are stuck they may still write to
// theirs, so that nothing but the number of those that ended can be told.
func (d *driver) count() {
	r := &d.result
	r.Requests = len(d.flights)
	r.MostWaiting = d.mostCalls.Load()
	if r.Stuck {
		r.Completed = int(d.ended.Load())
		r.Unscheduled = r.Requests - r.Completed
		r.Err = ErrStalled
		return
	}
	for i := range d.flights {
		f := &d.flights[i]
		switch f.outcome {
		case completed:
			r.Completed++
			r.Schedule = append(r.Schedule, f.schedule)
			r.FirstToken = append(r.FirstToken, f.firstToken)
		case cutShort:
			r.CutShort++
		case unfinished, refused:
			if f.err == nil && r.Interrupted { // never sent
				r.CutShort++
				continue
			}
			r.Unscheduled++
		}
		if r.Err == nil {
			r.Err = f.err
		}
	}
	most, sum := int64(0), int64(0)
	for _, n := range d.nodes {
		t := n.totals()
		r.Prompt += t.Prompt
		r.Cached += t.Cached
		most = max(most, t.Prompt-t.Cached)
		sum += t.Prompt - t.Cached
	}
	if sum > 0 {
		r.Balance = float64(most) * float64(len(d.nodes)) / float64(sum)
	}
}
