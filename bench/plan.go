package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/replay"
	"github.com/seed-3c5df8a4/turnstile/bench/simrank"
	"github.com/seed-3c5df8a4/turnstile/bench/trace"
	"github.com/seed-3c5df8a4/turnstile/bench/workload"
)

// What is chosen when a flag leaves it open.
const (
	syntheticRequests = 7000
	syntheticRate     = 60.0 // arrivals per simulated second
	syntheticBlock    = 64
	syntheticRun      = 3200 * time.Millisecond
	traceBlock        = 512
	traceRun          = 8 * time.Second
	// mostArrivals bounds the arrivals per real second, so that on two cores the
	// engines are measured and not their lack of cores.
	mostArrivals = 2500
	kvTokens     = 1 << 20
	// simulatedBatch is about what a large model on one accelerator shows.
	simulatedBatch = 64
	// reuse is the share found, as a rule, of what one boundless cache would
	// hold: prefixes lie on some rank, caches are small, and routing is a
	// compromise.
	reuse = 0.7
	// plainRate is the prefill rate for a workload without a span, from which
	// none can be derived.
	plainRate = 10_000
)

// plan is what all runs of one comparison have in common.
type plan struct {
	options   *options
	replay    replay.Config
	threshold int64

	source  string // what the workload is
	summary workload.Summary
	chosen  struct{ speed, prefillRate, threshold bool }
	bad     int     // lines passed over
	badErrs []error // about the first of them
}

// newPlan gets the workload and settles what the flags leave open.
func newPlan(ctx context.Context, o *options) (*plan, error) {
	p := &plan{options: o, threshold: o.threshold}
	block := o.block
	run := traceRun
	var requests []workload.Request
	if o.trace == "" {
		run = syntheticRun
		block = orInt(block, syntheticBlock)
		n := int(orInt(int64(o.requests), syntheticRequests))
		requests = workload.Generate(workload.Config{Requests: n, Seed: o.seed, Block: block, Rate: syntheticRate})
		p.source = fmt.Sprintf("synthetic chat, seed %d", o.seed)
	} else {
		t, err := loadTrace(ctx, o)
		if err != nil {
			return nil, err
		}
		block = orInt(block, traceBlock)
		if bound := t.Kind.Block(); bound != 0 && block != bound {
			return nil, usageError{fmt.Errorf("-block %d: must be %d with a %v trace", block, bound, t.Kind)}
		}
		requests = t.Requests
		workload.AssignClasses(requests, o.seed)
		p.source = fmt.Sprintf("%s (%v)", o.trace, t.Kind)
		p.bad, p.badErrs = t.Bad, t.Errors
	}
	p.summary = workload.Summarize(requests, block)
	p.replay = replay.Config{
		Requests:         requests,
		Workers:          o.workers,
		Ranks:            o.ranks,
		MaxBatchedTokens: o.maxBatched,
		MaxOverlaps:      o.maxOverlaps,
		Speed:            o.speed,
		Rank: simrank.Config{
			PrefillRate: o.prefillRate,
			DecodeRate:  o.decodeRate,
			DecodeSlots: o.decodeSlots,
			DecodeBatch: o.decodeBatch,
			KVBlocks:    orInt(o.kvBlocks, max(1, kvTokens/block)),
			Block:       block,
		},
	}
	if o.simulate.on && o.decodeBatch == 0 {
		p.replay.Rank.DecodeBatch = simulatedBatch
	}
	p.choose(run)
	return p, nil
}

// choose derives from the workload what the flags left open.
func (p *plan) choose(run time.Duration) {
	span := p.summary.Span.Seconds()
	computed := float64(p.summary.Input) - reuse*float64(p.summary.Input-p.summary.Uncached)
	if p.replay.Speed == 0 {
		p.chosen.speed = true
		p.replay.Speed = max(1e-3, p.length()/run.Seconds())
		if n := float64(p.summary.Requests); span > 0 {
			p.replay.Speed = min(p.replay.Speed, mostArrivals*span/n)
		}
	}
	if p.replay.Rank.PrefillRate == 0 {
		p.chosen.prefillRate = true
		p.replay.Rank.PrefillRate = plainRate
		if span > 0 {
			ranks := float64(p.options.workers * p.options.ranks)
			p.replay.Rank.PrefillRate = max(1, computed/(span*ranks*p.options.load))
		}
	}
	if !p.options.thresholdSet {
		p.chosen.threshold = true
		p.threshold = int64(computed / float64(p.summary.Requests))
	}
}

// length is about how long a run lasts, in simulated seconds: until the
// last request has come and, if it is the longest, is done.
func (p *plan) length() float64 {
	return p.summary.Span.Seconds() + float64(p.summary.LongestOutput)/p.options.decodeRate
}

func loadTrace(ctx context.Context, o *options) (*trace.Trace, error) {
	file, err := os.Open(o.trace)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return trace.Load(interruptible{ctx, file}, o.trace, trace.Options{SkipBad: o.skipBad, Sort: o.sort, Limit: o.requests})
}

// interruptible is a reader that fails once its context has ended.
type interruptible struct {
	ctx context.Context
	src io.Reader
}

// Read implements io.Reader.
func (r interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.src.Read(p)
}

func orInt(value, otherwise int64) int64 {
	if value == 0 {
		return otherwise
	}
	return value
}

// describe prints what is run, with every value that was chosen.
func (p *plan) describe(w io.Writer) {
	r := p.replay
	p.badLines(w)
	fmt.Fprintf(w, "machine   %s %s/%s, GOMAXPROCS %d\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	fmt.Fprintf(w, "workload  %s\nranks     %s\n", p.workload(), p.ranks())
	fmt.Fprintf(w, "policy    on, mixed: a rank is busy above %d prefill tokens%s; mixed: one request in four never queues\n",
		p.threshold, chosen(p.chosen.threshold, "what a request brings"))
	fmt.Fprintf(w, "speed     %.4g simulated seconds per second%s: a run lasts about %.1f s, and its tick of 1 ms is %.4g ms simulated\n",
		r.Speed, chosen(p.chosen.speed, "chosen"), p.length()/r.Speed, r.Speed)
}

// badLines tells of lines of the trace that were passed over.
func (p *plan) badLines(w io.Writer) {
	if p.bad == 0 {
		return
	}
	fmt.Fprintf(w, "bad lines passed over: %d\n", p.bad)
	for _, err := range p.badErrs {
		fmt.Fprintf(w, "  %v\n", err)
	}
	if more := p.bad - len(p.badErrs); more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}

func (p *plan) workload() string {
	s := p.summary
	return fmt.Sprintf("%s: %d requests over %.1f s, mean input %.0f and output %.0f tokens, of the input %.0f new",
		p.source, s.Requests, s.Span.Seconds(), s.MeanInput(), s.MeanOutput(), s.MeanUncached())
}

func (p *plan) ranks() string {
	r := p.replay
	slower := ""
	if b := r.Rank.DecodeBatch; b > 0 {
		slower = fmt.Sprintf(" (half of it each with %g more)", b)
	}
	return fmt.Sprintf("%d x %d: prefill %.0f tokens/s%s, decode %d slots of %g tokens/s%s, %d KV blocks of %d tokens",
		r.Workers, r.Ranks, r.Rank.PrefillRate,
		chosen(p.chosen.prefillRate, fmt.Sprintf("for a load of %g", p.options.load)),
		r.Rank.DecodeSlots, r.Rank.DecodeRate, slower, r.Rank.KVBlocks, r.Rank.Block)
}

// chosen says how a value that no flag gave came about.
func chosen(is bool, how string) string {
	if is {
		return " (" + how + ")"
	}
	return ""
}
