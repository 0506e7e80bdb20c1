package storm

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Snapshot is how a storm stands.
type Snapshot struct {
	Elapsed                time.Duration
	Ops, Admitted, Waiting int64
	Violations, Heap       int64
	Goroutines             int
	Rests, Lulls           int64
	WitnessChecks, Visible int64
	OrderChecks            int64
}

func (s *storm) snapshot() Snapshot {
	return Snapshot{
		Elapsed: time.Since(s.began), Ops: s.ops(), Admitted: s.admitted.Load(), Waiting: s.engine.Stats().Waiting,
		Violations: s.broken.count(), Heap: liveHeap(), Goroutines: runtime.NumGoroutine(),
		Rests: s.rests.Load(), Lulls: s.lulls.Load(), WitnessChecks: s.witnessed.Load(), Visible: s.looked.Load(),
		OrderChecks: s.order.compared(),
	}
}

// Report is what came of a storm.
type Report struct {
	Snapshot
	Config Config
	// Interrupted: it ended before its bound.
	Interrupted bool
	Stats       sched.Stats
	// First are the first violations, word for word.
	First []Violation
	// EarlyHeap and LateHeap are what lived on the heap when all had released
	// everything, after a tenth of the operations (EarlyOps) and at the end; 0 if
	// the storm had no bound of operations or did not get there.
	EarlyOps, EarlyHeap, LateHeap int64
}

// growth is how much of the early heap the late one may have more, if every caller
// had made so many calls on average by then. Before that pools and maps still fill.
const (
	growth = 0.10
	warm   = 1000
)

// judged reports whether the heap may not have grown.
func (r *Report) judged() bool {
	return r.LateHeap > 0 && r.EarlyOps >= warm*int64(r.Config.Callers)
}

func (s *storm) report() *Report {
	r := &Report{
		Config: s.config, Interrupted: s.interrupted, Stats: s.engine.Stats(),
		EarlyOps: s.earlyOps, EarlyHeap: s.earlyHeap, LateHeap: s.lateHeap,
	}
	if r.judged() && float64(r.LateHeap) > float64(r.EarlyHeap)*(1+growth) {
		s.broken.add(10, "the heap grew from %d bytes after %d operations to %d", r.EarlyHeap, r.EarlyOps, r.LateHeap)
	}
	r.Snapshot = s.snapshot()
	s.broken.mu.Lock()
	defer s.broken.mu.Unlock()
	r.First = slices.Clone(s.broken.mu.first)
	return r
}

// OK reports whether nothing was violated.
func (r *Report) OK() bool { return r.Violations == 0 }

// Write prints the report.
func (r *Report) Write(w io.Writer) error {
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	rate := float64(r.Ops) / max(r.Elapsed.Seconds(), 1e-9)
	line("%-12s %s, profile %s, %d callers, seed %d", "storm", r.Config.Engine, r.Config.Profile, r.Config.Callers, r.Config.Seed)
	line("%-12s %d in %v, %.0f per second", "operations", r.Ops, r.Elapsed.Round(time.Millisecond), rate)
	line("%-12s %d, of which %d ended by expiry, %d lost handles, %d dropped with their workers",
		"admissions", r.Admitted, r.Stats.Expired, r.Stats.Leaked, r.Stats.Dropped)
	line("%-12s %v", "rejections", r.Stats.Rejected)
	line("%-12s %d epochs, %d lost races, %d overflows of the hint ring", "engine", r.Stats.Epochs, r.Stats.Retries, r.Stats.HintOverflows)
	line("%-12s %d of a witness, %d of visibility, %d of order, %d at rest, %d in a lull",
		"checks", r.WitnessChecks, r.Visible, r.OrderChecks, r.Rests, r.Lulls)
	if r.LateHeap > 0 {
		verdict := "at most +10 % is right"
		if !r.judged() {
			verdict = fmt.Sprintf("too early to judge: below %d operations a caller", warm)
		}
		line("%-12s %d bytes after %d operations, %d after %d (%+.1f %%; %s)", "heap in use",
			r.EarlyHeap, r.EarlyOps, r.LateHeap, r.Ops, 100*(float64(r.LateHeap)/float64(r.EarlyHeap)-1), verdict)
	}
	line("%-12s %d", "goroutines", r.Goroutines)
	line("%-12s %d", "violations", r.Violations)
	for _, v := range r.First {
		line("  %v", v)
	}
	if more := r.Violations - int64(len(r.First)); more > 0 {
		line("  and %d more", more)
	}
	return err
}

// checkClosed checks what a call got that came too late.
func (s *storm) checkClosed(err error) {
	if !errors.Is(err, sched.ErrClosed) && !errors.Is(err, sched.ErrQueueFull) {
		s.broken.add(10, "Close answered with %v", err)
	}
}

// endAfterClose checks that the lifecycle goes on.
func (s *storm) endAfterClose(b engine.Booking) {
	err := errors.Join(b.AddOutputBlock(), b.PrefillDone(), b.Release())
	if err != nil {
		s.broken.add(9, "a lifecycle call after Close: %v", err)
	}
}
