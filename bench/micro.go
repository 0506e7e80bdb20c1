package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/micro"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
)

const usage = `Compares turnstile with an actor: three closed loops, and the replay of a workload:
	go run ./bench [flags] [-json FILE] [-html FILE]
Compares them in many small closed loops, against what is required:
	go run ./bench -quick
	go run ./bench -scenario NAME[,NAME...]|all [-rounds N] [-duration D] [-callers N,...] [-ranks N,...] [-engines NAME,...]
		[-json FILE] [-html FILE] [-cpuprofile FILE]
Compares selectors and class settings in virtual time:
	go run ./bench -simulate [-trace FILE] [-settings NAME,...] [-policy FILE]... [-json FILE] [-html FILE]
Measures schedulers in several processes that count each other's load:
	go run ./bench -replicas N [-html FILE]
`

const (
	fullRound  = time.Second
	quickRound = 25 * time.Millisecond
	fullSweep  = 200 * time.Millisecond
	quickSweep = 20 * time.Millisecond
	// quickTotal is when -quick is to be done, however busy the machine is; then
	// rows have fewer rounds.
	quickTotal = 54 * time.Second
	// fewRounds are too few to conclude from.
	fewRounds   = 5
	usualRounds = 7
	// announced is how long a run must take for that to be said before.
	announced = time.Minute
	// memoryLimit is what the runtime collects garbage for; rows whose populations
	// need more are made smaller unless they are asked for by name.
	memoryLimit = 900 << 20
)

// microOptions are the flags of the comparison in closed loops.
type microOptions struct {
	on bool

	scenarios      []string
	engines        []string // nil: all
	quick          bool
	rounds         int
	duration       time.Duration
	limit          time.Duration
	callers, ranks []int // nil: all rows
	json, html     string
	profile        string

	scenarioNames string
	callerList    intList
}

// microFlags are those that mean something in this comparison alone. Only the
// first two ask for it.
var microFlags = []string{"scenario", "quick", "rounds", "duration", "callers", "cpuprofile", "limit"}

// sharedFlags are those that mean something in all.
var sharedFlags = []string{"engines", "ranks", "json", "html"}

func (m *microOptions) register(f *flag.FlagSet) {
	f.StringVar(&m.scenarioNames, "scenario", "", "compare in closed loops: `names` among "+strings.Join(micro.Scenarios, ", ")+", separated by commas, or all")
	f.BoolVar(&m.quick, "quick", false, "with -scenario, rounds so short that a row takes a second; alone, all scenarios but "+strings.Join(longScenarios, ", ")+", within a minute")
	f.IntVar(&m.rounds, "rounds", usualRounds, "rounds of each engine in each row")
	f.DurationVar(&m.duration, "duration", 0, "length of a round; 0 is 1 s, with -quick 25 ms")
	f.DurationVar(&m.limit, "limit", 10*time.Second, "time after which a row of held gives up what it measures or sets up")
	f.Var(&m.callerList, "callers", "only the rows with these `numbers` of callers")
	f.StringVar(&m.json, "json", "", "write the figures to this `file`, one JSON object a line")
	f.StringVar(&m.html, "html", "", "write the report to this `file`, one page with pictures that needs no network")
	f.StringVar(&m.profile, "cpuprofile", "", "write a CPU profile of all rounds to this `file`")
}

// wanted reports whether any flag asks for this comparison.
func (m *microOptions) wanted(set map[string]bool) bool {
	m.on = set["scenario"] || set["quick"]
	return m.on
}

// longScenarios are left out where all are to take a minute: http demands nothing,
// sweep is there for the pictures, and the others set up large pools.
var longScenarios = []string{"http", "held", "scaling", "sweep"}

// stray are the faults of flags that mean nothing without -scenario or -quick.
func (m *microOptions) stray(set map[string]bool) []error {
	var errs []error
	for _, name := range microFlags[2:] {
		if set[name] {
			errs = append(errs, fmt.Errorf("-%s: must be given with -scenario or -quick", name))
		}
	}
	return errs
}

// check settles the options and returns all faults.
func (m *microOptions) check(set map[string]bool, ranks intList, engineNames string) []error {
	var errs []error
	for name := range set {
		if !slices.Contains(microFlags, name) && !slices.Contains(sharedFlags, name) {
			errs = append(errs, fmt.Errorf("-%s: must not be given with -scenario or -quick", name))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	var err error
	if names := m.scenarioNames; names != "all" {
		if m.scenarios, err = pickScenarios(names); err != nil {
			errs = append(errs, err)
		}
	} else {
		m.scenarios = micro.Scenarios
	}
	if set["scenario"] && m.scenarioNames == "" {
		errs = append(errs, errors.New("-scenario: must name one"))
	}
	if m.scenarioNames == "" {
		m.scenarios = slices.DeleteFunc(slices.Clone(m.scenarios), func(s string) bool { return slices.Contains(longScenarios, s) })
	}
	if m.limit < time.Millisecond {
		errs = append(errs, fmt.Errorf("-limit %v: must be 1ms or above", m.limit))
	}
	if engineNames != "" {
		names := slices.Clone(micro.Others)
		for _, e := range microEngines() {
			names = append(names, e.Name)
		}
		if m.engines, err = pick("engines", engineNames, names, names); err != nil {
			errs = append(errs, err)
		}
	}
	if m.rounds < 1 || m.rounds > 1000 {
		errs = append(errs, fmt.Errorf("-rounds %d: must be 1 to 1000", m.rounds))
	}
	if m.duration < 0 || m.duration > time.Minute {
		errs = append(errs, fmt.Errorf("-duration %v: must be 0 to 1m", m.duration))
	}
	m.callers = m.callerList
	if set["ranks"] {
		m.ranks = ranks
	}
	return errs
}

// pickScenarios checks a list of scenarios and of single rows of scenarios, such as
// held/leavers.
func pickScenarios(list string) ([]string, error) {
	names := micro.Scenarios
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		scenario, _, ok := strings.Cut(name, "/")
		if !ok || slices.Contains(names, name) {
			continue
		}
		for _, spec := range micro.Rows(scenario, microEngines()) {
			if spec.Scenario == name {
				names = append(slices.Clone(names), name)
				break
			}
		}
	}
	return pick("scenario", list, names, names)
}

// microEngines are the engines compared; the actors differ in what of the index
// they may use.
func microEngines() []micro.Engine {
	of := func(name string, index bool) func(micro.Config) (engine.Engine, error) {
		return func(c micro.Config) (engine.Engine, error) {
			for _, e := range engines {
				if e.name == name {
					return e.build(setup{
						BlockSize: c.BlockSize, PolicyYAML: []byte(c.PolicyYAML), ActorIndex: index,
						Tune: c.Tune, Clock: c.Clock, OnDecision: c.OnDecision,
					})
				}
			}
			return nil, fmt.Errorf("there is no engine %q", name)
		}
	}
	return []micro.Engine{
		{Name: micro.Turnstile, Build: of("turnstile", true)},
		{Name: micro.Actor, Build: of("actor", false)},
		{Name: micro.ActorDirect, Build: of("actor-direct", false)},
		{Name: micro.ActorIndex, Build: of("actor", true)},
	}
}

// settings are those of a row.
func (m *microOptions) settings(sweep bool) micro.Settings {
	s := micro.Settings{Rounds: m.rounds, Duration: m.duration, Quick: m.quick, Limit: m.limit, Modest: m.scenarioNames == "all"}
	if s.Duration > 0 {
		return s
	}
	switch {
	case sweep && m.quick:
		s.Duration = quickSweep
	case sweep:
		s.Duration = fullSweep
	case m.quick:
		s.Duration = quickRound
	default:
		s.Duration = fullRound
	}
	return s
}

// specs are the rows to run.
func (m *microOptions) specs() []micro.Spec {
	var out []micro.Spec
	for _, name := range m.scenarios {
		scenario, _, single := strings.Cut(name, "/")
		for _, spec := range micro.Rows(scenario, microEngines()) {
			if single && spec.Scenario != name {
				continue
			}
			if m.callers != nil && !slices.Contains(m.callers, spec.Callers) || m.ranks != nil && !slices.Contains(m.ranks, spec.Ranks) {
				continue
			}
			if m.engines == nil || spec.Only(m.engines) {
				out = append(out, spec)
			}
		}
	}
	return out
}

// runMicro is the comparison in closed loops.
func runMicro(ctx context.Context, m *microOptions, stdout, stderr io.Writer, terminal bool) int {
	specs := m.specs()
	if len(specs) == 0 {
		fmt.Fprintln(stderr, "bench: no row has these callers, ranks and engines")
		return exitUsage
	}
	files, err := m.create()
	defer func() { _ = files.close() }() // what was written is closed before
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFault
	}
	began := time.Now()
	c := report.Comparison{Machine: machine(), Began: began, Rounds: m.rounds, About: []string{whatTheyAre}}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	fmt.Fprintf(stdout, "machine   %s\nrounds    %d each, engines taking turns; medians, ratios of medians\n\n", c.Machine, m.rounds)
	if m.rounds < fewRounds {
		fmt.Fprintf(stdout, "note      fewer than %d rounds show nothing reliably\n\n", fewRounds)
	}
	left := make([]time.Duration, len(specs)+1) // from each row on
	for i := len(specs) - 1; i >= 0; i-- {
		left[i] = left[i+1] + time.Duration(specs[i].Seconds(m.settings(specs[i].Sweep))*float64(time.Second))
	}
	if m.quick && m.duration == 0 && m.scenarioNames == "" {
		left[0] = min(left[0], quickTotal)
	}
	if left[0] > announced {
		fmt.Fprintf(stdout, "takes     about %.0f minutes; what was done until an interrupt is kept\n\n", math.Ceil(left[0].Minutes()))
	}
	if err := files.partly(&c); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFault
	}
	var faults []error
	bar := newBar(stderr, terminal, left[0])
	for i := range specs {
		if ctx.Err() != nil {
			break
		}
		from := time.Now()
		settings := m.settings(specs[i].Sweep)
		if m.quick && m.duration == 0 {
			settings.Budget = share(specs[i:], quickTotal-time.Since(began))
		}
		row, err := micro.Run(ctx, &specs[i], settings, bar.step)
		bar.clear()
		bar.left(left[i+1])
		if err != nil {
			faults = append(faults, err)
			row.Notes = append(row.Notes, "FAULT "+err.Error())
		}
		row.Took = time.Since(from)
		c.Rows = append(c.Rows, row)
		c.Took = time.Since(began)
		if err := errors.Join(row.WriteText(stdout), files.add(&row), files.partly(&c)); err != nil {
			fmt.Fprintf(stderr, "bench: %v\n", err)
			return exitFault
		}
	}
	c.Took, c.Partial = time.Since(began), ctx.Err() != nil
	if err := errors.Join(c.WriteSummary(stdout), files.finish(&c)); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFault
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench: interrupted; the rows show what was done until then")
		return exitInterrupted
	case len(faults) > 0:
		fmt.Fprintf(stderr, "bench: %d faults: %v\n", len(faults), errors.Join(faults...))
		return exitFault
	}
	return 0
}

// share is what the first of the rows may take of the time that is left.
func share(specs []micro.Spec, left time.Duration) time.Duration {
	sum := 0.0
	for i := range specs {
		sum += specs[i].Weight
	}
	return max(time.Millisecond, time.Duration(float64(left)*specs[0].Weight/sum))
}

// machine describes what this runs on.
func machine() string {
	parts := []string{fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)}
	if cpu := cpuModel(); cpu != "" {
		parts = append(parts, cpu)
	}
	parts = append(parts, fmt.Sprintf("%d cores, GOMAXPROCS %d", runtime.NumCPU(), micro.Processors))
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				parts = append(parts, "commit "+s.Value[:min(12, len(s.Value))])
			}
		}
	}
	return strings.Join(parts, ", ")
}

// cpuModel is the processor's name where the system tells, else empty.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// intList is a flag of numbers separated by commas.
type intList []int

// String implements flag.Value.
func (l *intList) String() string {
	if l == nil {
		return ""
	}
	parts := make([]string, len(*l))
	for i, n := range *l {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ",")
}

// Set implements flag.Value.
func (l *intList) Set(s string) error {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return errors.New("not whole numbers separated by commas")
		}
		out = append(out, n)
	}
	*l = out
	return nil
}
