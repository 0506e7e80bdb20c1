package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// options are the flags, checked. A zero where a flag allows it means that the
// plan chooses the value.
type options struct {
	engines []namedEngine
	modes   []mode

	workers, ranks          int
	requests                int
	seed                    uint64
	speed                   float64
	load                    float64
	prefillRate, decodeRate float64
	decodeSlots             int
	decodeBatch             float64
	kvBlocks, block         int64
	maxOverlaps             int
	maxBatched              int64
	threshold               int64
	thresholdSet            bool

	trace         string
	skipBad, sort bool
	actorIndex    bool
	harness       bool
	verdict       bool

	replicas int

	simulate simulateOptions
	micro    microOptions
}

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// parseFlags reads the command line. flag.ErrHelp means that help was given.
func parseFlags(args []string, engines []namedEngine, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard) // what is wrong is told once, by the caller
	f.Usage = func() {}
	engineNames := f.String("engines", "", "`names` of the engines to run, separated by commas: "+strings.Join(namesOf(engines), ", ")+" (default all)")
	modeNames := f.String("modes", "off", "`names` of the modes to replay in, separated by commas: off, on, mixed; in the last two small differences in timing decide who waits, so compare several seeds")
	f.IntVar(&o.workers, "workers", 16, "number of workers")
	ranks := intList{1}
	f.Var(&ranks, "ranks", "ranks of each worker; with -scenario, only the rows with these `numbers` of ranks")
	f.IntVar(&o.requests, "requests", 0, "requests to send; 0 is 7000, or all of a trace")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the synthetic workload, and of the classes of a trace's requests")
	f.Float64Var(&o.speed, "speed", 0, "simulated seconds per second; 0 makes a run last 3.2 s, with a trace 8 s, or as long as 2500 arrivals per second take")
	f.Float64Var(&o.load, "load", 0.85, "share of the ranks' prefill capacity that the workload takes if 70 % of what could be reused is; decides -prefill-rate")
	f.Float64Var(&o.prefillRate, "prefill-rate", 0, "uncached prompt tokens per simulated second and rank; 0 follows from -load")
	f.Float64Var(&o.decodeRate, "decode-rate", 50, "output tokens per simulated second of a request that decodes alone")
	f.Float64Var(&o.decodeBatch, "decode-batch", 0, "further requests with which each decodes half as fast; 0 is 64 with -simulate, else that it makes no difference")
	f.IntVar(&o.decodeSlots, "decode-slots", 64, "requests that one rank decodes at once")
	f.Int64Var(&o.kvBlocks, "kv-blocks", 0, "KV blocks of each rank, evicted least recently used first; 0 is as many as hold 1,048,576 tokens")
	f.Int64Var(&o.block, "block", 0, "block size in tokens; 0 is 64, with a trace 512")
	f.IntVar(&o.maxOverlaps, "max-overlaps", 8, "ranks named in a request as holding part of its prompt, the best first")
	f.Int64Var(&o.threshold, "threshold", 0, "prefill tokens above which a rank is busy, in modes on and mixed (default the mean of the prompt tokens to compute if 70 % of what could be reused is)")
	f.StringVar(&o.trace, "trace", "", "replay this `file`, a Mooncake JSONL or Azure LLM CSV trace, instead of the synthetic workload")
	f.BoolVar(&o.skipBad, "skip-bad", false, "pass over bad lines of the trace, counting them, instead of failing at the first")
	f.BoolVar(&o.sort, "sort", false, "sort a trace that is not in the order of time, instead of failing where time goes back")
	f.BoolVar(&o.actorIndex, "actor-index", true, "let the actor engines select through the same indexes as the sharded one")
	f.Int64Var(&o.maxBatched, "max-batched", 8192, "tokens per batch that each worker announces; busy thresholds that are a fraction go by it")
	f.IntVar(&o.replicas, "replicas", 0, "measure so many replicas that count each other's load over NATS: when bookings are visible, what messages cost, how often two take one rank")
	o.simulate.register(f)
	o.micro.register(f)
	f.BoolVar(&o.verdict, "verdict", true, "before the replay, the three closed loops that say what each engine can do")
	f.BoolVar(&o.harness, "harness", true, "also measure the CPU of the replay itself, on an engine that decides next to nothing")

	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(stderr)
			fmt.Fprint(stderr, usage)
			f.PrintDefaults()
			return nil, err
		}
		return nil, usageError{err}
	}
	set := map[string]bool{}
	f.Visit(func(f *flag.Flag) { set[f.Name] = true })
	o.thresholdSet = set["threshold"]

	var errs []error
	var err error
	if set["replicas"] {
		return o, o.checkReplicas(set, f.NArg())
	}
	errs = append(errs, o.simulate.check(set)...)
	if !o.simulate.on && o.micro.wanted(set) {
		if errs = append(errs, o.micro.check(set, ranks, *engineNames)...); f.NArg() > 0 {
			errs = append(errs, fmt.Errorf("%q: flags only", f.Arg(0)))
		}
		if len(errs) > 0 {
			return nil, usageError{errors.Join(errs...)}
		}
		return o, nil
	}
	if !o.simulate.on {
		errs = append(errs, o.micro.stray(set)...)
	}
	if len(ranks) != 1 {
		errs = append(errs, fmt.Errorf("-ranks %v: must be one number without -scenario", &ranks))
	}
	o.ranks = ranks[0]
	if o.engines, err = pick("engines", *engineNames, engines, namesOf(engines)); err != nil {
		errs = append(errs, err)
	}
	if o.modes, err = pick("modes", *modeNames, modes, modesOf(modes)); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.check(set)...)
	if f.NArg() > 0 {
		errs = append(errs, fmt.Errorf("%q: flags only; a trace is given with -trace", f.Arg(0)))
	}
	if len(errs) > 0 {
		return nil, usageError{errors.Join(errs...)}
	}
	return o, nil
}

// check tests each value by its rule and returns all faults.
func (o *options) check(set map[string]bool) []error {
	var errs []error
	rule := func(ok bool, name string, value any, rule string) {
		if !ok {
			errs = append(errs, fmt.Errorf("-%s %v: must be %s", name, value, rule))
		}
	}
	rule(o.workers >= 1 && o.workers <= 4096, "workers", o.workers, "1 to 4096")
	rule(o.ranks >= 1 && o.ranks <= 1024, "ranks", o.ranks, "1 to 1024")
	if o.workers <= 4096 && o.ranks <= 1024 {
		rule(o.workers*o.ranks <= 16384, "ranks", o.ranks, "such that workers times ranks is at most 16384")
	}
	rule(o.requests >= 0 && o.requests <= 1_000_000, "requests", o.requests, "0 to 1000000")
	rule(o.speed >= 0 && finite(o.speed), "speed", o.speed, "0 or above, and finite")
	rule(o.load >= 0.01 && o.load <= 10, "load", o.load, "0.01 to 10")
	rule(o.prefillRate == 0 || o.prefillRate >= 1 && finite(o.prefillRate), "prefill-rate", o.prefillRate, "0, or 1 or above, and finite")
	rule(o.decodeRate >= 0.01 && finite(o.decodeRate), "decode-rate", o.decodeRate, "0.01 or above, and finite")
	rule(o.decodeBatch >= 0 && finite(o.decodeBatch), "decode-batch", o.decodeBatch, "0 or above, and finite")
	rule(o.decodeSlots >= 1, "decode-slots", o.decodeSlots, "1 or above")
	rule(o.kvBlocks >= 0, "kv-blocks", o.kvBlocks, "0 or above")
	rule(o.block >= 0 && o.block <= 1<<20, "block", o.block, "0 to 1048576")
	rule(o.maxBatched >= 1, "max-batched", o.maxBatched, "1 or above")
	rule(o.maxOverlaps >= 0, "max-overlaps", o.maxOverlaps, "0 or above")
	rule(o.threshold >= 0, "threshold", o.threshold, "0 or above")
	if set["load"] && o.prefillRate != 0 {
		errs = append(errs, errors.New("-load: must not be given with -prefill-rate, which it decides"))
	}
	if o.trace == "" {
		for _, name := range []string{"skip-bad", "sort"} {
			if set[name] {
				errs = append(errs, fmt.Errorf("-%s: must be given with -trace only", name))
			}
		}
		if set["trace"] {
			errs = append(errs, errors.New("-trace: must name a file"))
		}
	}
	return errs
}

func finite(x float64) bool { return !math.IsInf(x, 0) && !math.IsNaN(x) }

// pick returns the values whose names are listed, in the order of the list; an
// empty list is all of them.
func pick[T any](flagName, list string, values []T, names []string) ([]T, error) {
	if list == "" {
		return values, nil
	}
	var out []T
	var picked []string
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		i := slices.Index(names, name)
		if i < 0 {
			return nil, fmt.Errorf("-%s %q: must be among %s", flagName, name, strings.Join(names, ", "))
		}
		if slices.Contains(picked, name) {
			return nil, fmt.Errorf("-%s %q: must be named once", flagName, name)
		}
		picked = append(picked, name)
		out = append(out, values[i])
	}
	return out, nil
}

func namesOf(engines []namedEngine) []string {
	out := make([]string, len(engines))
	for i, e := range engines {
		out[i] = e.name
	}
	return out
}

func modesOf(modes []mode) []string {
	out := make([]string, len(modes))
	for i, m := range modes {
		out[i] = m.name
	}
	return out
}
