package micro

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed-3c5df8a4/turnstile/bench/internal/cputime"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
)

// caller is what one caller does over and over. The latency is that of timed;
// rest, which may be nil, belongs to the operation but not to its latency.
type caller struct {
	group       int
	timed, rest func() error
}

// trial is a prepared round: callers that are ready to run.
type trial struct {
	callers []caller
	// groups names the groups of callers that are also told of by themselves.
	groups []string
	// begin, unless nil, is called once all callers run.
	begin func() error
	// backlog, unless nil, says how many wait. The figures of a round in which fewer
	// than least wait on average are left out: a busy machine keeps the callers from coming.
	backlog func() int64
	least   int64
	// abort has callers that wait return with an error.
	abort func()
	// cpu, unless nil, is the CPU time used by the process that does the work, if that
	// is not this one.
	cpu func() time.Duration
	// kept says that the engine lives through all rounds, and may be so large that
	// collecting garbage before each would take longer than the round.
	kept bool
	// shares has the callers' progress watched, p90 that percentile told too.
	shares, p90 bool
	// end releases what is held and checks that nothing is left.
	end func() error
}

// outcome is what a round measured.
type outcome struct {
	total  report.Round
	groups []report.Round
	// counts are the operations of each caller, for fairness.
	counts []int64
	group  []int
	wall   time.Duration
	// blurred: when the round began and ended cannot be told well enough, or it is thin.
	blurred bool
	// thin, unless empty, says that too few waited for a backlog.
	thin   string
	waits  *hdrhistogram.Histogram
	shares []report.Share
	notes  []string
}

const (
	longest    = int64(100 * time.Second) // what a histogram can hold
	digits     = 2
	sampleCost = 80 // ns of a sample: two readings of the clock and a record
	overhead   = 0.02
	mostEvery  = 256
	windows    = 20 // in which progress is watched
	poll       = 500 * time.Microsecond
	// A round that does not come to an end within this is a fault.
	patience = 60 * time.Second
)

type kind int

const (
	warming kind = iota
	measuring
	stopping
)

// phase is what the callers are told. every is how many operations share one
// latency sample.
type phase struct {
	kind  kind
	every int
}

// worker is a running caller. Its fields but published are its own until it has
// ended.
type worker struct {
	caller
	ops       int64  // in the last phase measured that it saw
	measured  *phase // that phase
	latency   *hdrhistogram.Histogram
	published atomic.Int64 // operations so far, written with each sample
	_         [64]byte
}

type driver struct {
	trial   *trial
	workers []worker
	window  *phase // the one that counts
	phase   atomic.Pointer[phase]
	base    time.Time
	wg      sync.WaitGroup

	mu  sync.Mutex
	err error // the first; guarded by mu
}

// fail notes the first error and has everybody stop.
func (d *driver) fail(err error) {
	d.mu.Lock()
	first := d.err == nil
	if first {
		d.err = err
	}
	d.mu.Unlock()
	if first {
		d.phase.Store(&phase{kind: stopping, every: 1})
		if d.trial.abort != nil {
			d.trial.abort()
		}
	}
}

func (d *driver) failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (w *worker) operate() error {
	err := w.timed()
	if err == nil && w.rest != nil {
		err = w.rest()
	}
	return err
}

// run is the caller's goroutine.
func (w *worker) run(d *driver, index int) {
	defer d.wg.Done()
	var current *phase
	var total, before int64
	left := 1
	for {
		if p := d.phase.Load(); p != current {
			if current != nil && current.kind == measuring {
				w.ops, w.measured = total-before, current
			}
			if p.kind == stopping {
				w.published.Store(total)
				return
			}
			before, current = total, p
			left = 1 + index%p.every // callers sample at different times
		}
		left--
		if left > 0 {
			if err := w.operate(); err != nil {
				d.fail(err)
				return
			}
			total++
			continue
		}
		left = current.every
		began := time.Since(d.base)
		err := w.timed()
		took := time.Since(d.base) - began
		if err == nil && w.rest != nil {
			err = w.rest()
		}
		if err != nil {
			d.fail(err)
			return
		}
		total++
		w.published.Store(total)
		if current.kind == measuring {
			_ = w.latency.RecordValue(min(max(0, int64(took-clockCost())), longest))
		}
	}
}

// clockCost is what one reading of the clock adds to a latency.
var clockCost = sync.OnceValue(func() time.Duration {
	base := time.Now()
	took := make([]time.Duration, 2001)
	for i := range took {
		began := time.Since(base)
		took[i] = time.Since(base) - began
	}
	slices.Sort(took)
	return took[len(took)/2]
})

// cpu is the CPU time used so far by the process that does the work.
func (d *driver) cpu() time.Duration {
	if d.trial.cpu != nil {
		return d.trial.cpu()
	}
	return cputime.Now()
}

// sum returns how many operations were published.
func (d *driver) sum() int64 {
	var n int64
	for i := range d.workers {
		n += d.workers[i].published.Load()
	}
	return n
}

// drive runs a trial for about so long. The trial is ended whatever happens.
func drive(ctx context.Context, t *trial, duration time.Duration) (*outcome, error) {
	d := &driver{trial: t, workers: make([]worker, len(t.callers)), base: time.Now()}
	for i := range d.workers {
		d.workers[i].caller = t.callers[i]
		d.workers[i].latency = hdrhistogram.New(1, longest, digits)
	}
	clockCost()
	if !t.kept {
		runtime.GC() // so that no round pays for the garbage of the one before
	}
	d.phase.Store(&phase{kind: warming, every: 1})
	d.wg.Add(len(d.workers))
	for i := range d.workers {
		go d.workers[i].run(d, i)
	}
	out, err := d.measure(ctx, duration)
	d.phase.Store(&phase{kind: stopping, every: 1})
	if err != nil {
		d.fail(err)
	}
	if !waitFor(&d.wg, patience) {
		return nil, errors.Join(err, fmt.Errorf("callers have not returned after %v", patience))
	}
	if err == nil {
		err = d.failed()
	}
	if endErr := t.end(); endErr != nil {
		err = errors.Join(err, endErr)
	}
	if err != nil {
		return nil, err
	}
	d.collect(out)
	return out, nil
}

func waitFor(wg *sync.WaitGroup, patience time.Duration) bool {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}

// measure takes the round through its phases, up to the end of the one measured.
func (d *driver) measure(ctx context.Context, duration time.Duration) (*outcome, error) {
	if d.trial.begin != nil {
		if err := d.trial.begin(); err != nil {
			return nil, err
		}
	}
	callers := int64(len(d.workers))
	// Warm up: a quarter of the round, and each caller once where they go in step.
	began, cpu, done := time.Now(), d.cpu(), d.sum()
	warm := max(duration/4, time.Millisecond)
	for time.Since(began) < warm || d.sum()-done < callers {
		if err := d.pause(ctx, min(poll, warm), began); err != nil {
			return nil, err
		}
	}
	perOp := float64(d.cpu()-cpu) / float64(d.sum()-done)
	every := int(min(mostEvery, max(1, math.Ceil(sampleCost/(overhead*max(perOp, 1))))))

	// On a busy machine this goroutine may be put aside between looking at the
	// clock and telling the callers; then it looks again.
	for range attempts - 1 {
		out, sharp, err := d.take(ctx, duration, callers, every)
		if err != nil || sharp {
			return out, err
		}
	}
	out, _, err := d.take(ctx, duration, callers, every)
	return out, err
}

const (
	attempts  = 5
	sharpness = 20
)

// take is the phase measured. It is not sharp if too few waited for a backlog, or if
// too much may have gone on between the looks at clock and counters and the moments
// when the callers were told; then it says nothing of what an operation takes of time, CPU and memory.
func (d *driver) take(ctx context.Context, duration time.Duration, callers int64, every int) (out *outcome, sharp bool, err error) {
	var before, after runtime.MemStats
	out = &outcome{}
	w := watch{driver: d, out: out, every: duration / (windows + 1), least: math.MaxInt64}
	w.start()
	about := time.Now()
	runtime.ReadMemStats(&before)
	done, cpu := d.sum(), d.cpu()
	began := time.Now()
	d.window = &phase{kind: measuring, every: every}
	d.phase.Store(d.window)
	blur := time.Since(about)
	for {
		left := duration - time.Since(began)
		if left <= 0 && d.cycled(d.sum()-done, callers) {
			break
		}
		step := poll
		if left > 0 {
			step = min(left, max(duration/windows, time.Millisecond))
		}
		if err := d.pause(ctx, step, began); err != nil {
			return nil, false, err
		}
		if left > 0 {
			w.look(time.Since(began))
		}
	}
	about = time.Now()
	used := d.cpu() - cpu
	ended := time.Now()
	d.phase.Store(&phase{kind: warming, every: every})
	runtime.ReadMemStats(&after)
	blur += time.Since(about)
	out.wall = ended.Sub(began)
	w.finish()
	out.total = report.NewRound()
	sharp = blur < out.wall/sharpness && out.thin == ""
	out.blurred = !sharp
	if sharp {
		out.total[report.CPUPerOp] = float64(used)
		if d.trial.cpu == nil {
			out.total[report.AllocsPerOp] = float64(after.Mallocs - before.Mallocs)
			out.total[report.BytesPerOp] = float64(after.TotalAlloc - before.TotalAlloc)
		}
	}
	return out, sharp, nil
}

// cycled reports whether so many operations make a fair sample: many cycles of
// all callers, or about a whole number.
func (d *driver) cycled(ops, callers int64) bool {
	return ops >= 3*callers || ops >= callers && ops%callers <= callers/16
}

func (d *driver) pause(ctx context.Context, step time.Duration, began time.Time) error {
	time.Sleep(step)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case d.failed() != nil:
		return d.failed()
	case time.Since(began) > patience:
		return fmt.Errorf("%d operations of %d callers in %v", d.sum(), len(d.workers), patience)
	}
	return nil
}

// collect works out the figures once all callers have ended.
func (d *driver) collect(out *outcome) {
	out.waits = hdrhistogram.New(1, longest, digits)
	perGroup := make([]*hdrhistogram.Histogram, len(d.trial.groups))
	ops := make([]int64, len(perGroup))
	for i := range perGroup {
		perGroup[i] = hdrhistogram.New(1, longest, digits)
	}
	var all int64
	for i := range d.workers {
		w := &d.workers[i]
		if w.measured != d.window {
			w.ops = 0 // it had no turn
		}
		all += w.ops
		out.waits.Merge(w.latency)
		out.counts = append(out.counts, w.ops)
		out.group = append(out.group, w.group)
		if len(perGroup) > 0 {
			ops[w.group] += w.ops
			perGroup[w.group].Merge(w.latency)
		}
	}
	out.total[report.CPUPerOp] = known(out.total[report.CPUPerOp]) / float64(all)
	out.total[report.AllocsPerOp] /= float64(all)
	out.total[report.BytesPerOp] /= float64(all)
	out.fill(&out.total, all, out.waits)
	if d.trial.p90 && out.waits.TotalCount() > 0 {
		out.total[report.P90] = float64(out.waits.ValueAtQuantile(90))
	}
	for i, h := range perGroup {
		r := report.NewRound()
		out.fill(&r, ops[i], h)
		out.groups = append(out.groups, r)
	}
}

// known makes a CPU time of 0, which means that the system does not tell, NaN.
func known(cpu float64) float64 {
	if cpu == 0 {
		return math.NaN()
	}
	return cpu
}

func (out *outcome) fill(r *report.Round, ops int64, h *hdrhistogram.Histogram) {
	if ops == 0 {
		*r = report.NewRound()
		return
	}
	if !out.blurred {
		r[report.OpsPerSecond] = float64(ops) / out.wall.Seconds()
		r[report.TimePerOp] = float64(out.wall) / float64(ops)
	}
	if h.TotalCount() > 0 {
		r[report.P50] = float64(h.ValueAtQuantile(50))
		r[report.P99] = float64(h.ValueAtQuantile(99))
		r[report.Max] = float64(h.Max())
	}
}
