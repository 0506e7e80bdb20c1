package micro

import (
	"context"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// Engine is one of the engines compared.
type Engine struct {
	Name  string
	Build func(Config) (engine.Engine, error)
}

// Config is what an engine is built from.
type Config struct {
	BlockSize  int64
	PolicyYAML string
	// Tune, unless nil, changes what else the configuration says.
	Tune func(*sched.Config)
	// Clock and OnDecision are the time and the decision hook; nil is the system's
	// and none.
	Clock      clock.Clock
	OnDecision func(sched.Decision)
}

// The names of the engines, by which the rows' demands find them.
const (
	Turnstile   = "turnstile"
	Actor       = "actor"
	ActorDirect = "actor-direct"
	ActorIndex  = "actor-index"
)

// Settings say how much is measured.
type Settings struct {
	Rounds   int
	Duration time.Duration // of a round
	// Quick shortens what does not follow from the duration.
	Quick bool
	// Budget, unless 0, is the time after which a row begins no further round.
	Budget time.Duration
	// Modest keeps populations so small that a gigabyte is enough for them.
	Modest bool
	// Limit is the time after which a row that may take very long gives up; 0 is
	// ten seconds.
	Limit time.Duration
	// Shrink divides the sizes of the populations that a row is about, so that
	// tests can run it in no time; 0 and 1 leave them.
	Shrink int
}

// scaled is n, or less where tests want less.
func (s Settings) scaled(n int) int {
	if s.Shrink > 1 {
		return max(1, n/s.Shrink)
	}
	return n
}

func (s Settings) limit() time.Duration {
	if s.Limit > 0 {
		return s.Limit
	}
	return 10 * time.Second
}

// Spec is a row that can be run.
type Spec struct {
	Scenario, About string
	Callers, Ranks  int
	Sweep           bool
	// least is the shortest a round may be, and once says that one round tells
	// all there is to tell.
	least time.Duration
	once  bool
	// most bounds the rounds and longest the duration of each; 0 does not.
	most    int
	longest time.Duration
	// setup is about how many seconds a round takes beside its contenders' duration.
	setup float64
	// Weight is about how many seconds the row takes with -quick.
	Weight float64
	// show has the distribution of waits and the callers' progress kept, fair
	// the fairness over one second worked out.
	show, fair bool

	contenders []contender
	demands    []demand
	// remark, unless nil, says in notes what follows from the figures.
	remark func(*report.Row) []string
}

// contender is an engine in a row, or something that does a part of its job.
type contender struct {
	engine, variant string
	callers, ranks  int // 0: the row's
	// groups are the variants under which groups of callers are told of.
	groups []string
	run    func(context.Context, Settings) (*outcome, error)
	// done, unless nil, ends what rounds have left for the next.
	done func() error
}

// demand is what a row must reach.
type demand func(*report.Row) report.Verdict

// key names a series of a row.
type key struct{ engine, variant string }

// ratio demands of the median of a metric, divided by that of another series.
func ratio(m report.Metric, what string, of, against key, limit report.Limit) demand {
	return func(r *report.Row) report.Verdict {
		name := what + " against " + against.engine
		if against.variant != "" {
			name += " (" + against.variant + ")"
		}
		return told(limit.Judge(name, median(r, of, m)/median(r, against, m), report.Times), r, m, of, against)
	}
}

// bound demands of the median of a metric.
func bound(m report.Metric, what string, of key, limit report.Limit, format func(float64) string) demand {
	return func(r *report.Row) report.Verdict {
		return told(limit.Judge(what, median(r, of, m), format), r, m, of)
	}
}

// none demands that a count is 0, but for what the runtime does now and then.
func none(m report.Metric, what string, of key) demand {
	return func(r *report.Row) report.Verdict {
		reached := median(r, of, m)
		if reached < 0.05 {
			reached = 0
		}
		return told(report.AtMost(0).Judge(what, reached, report.Short), r, m, of)
	}
}

// told says, of a verdict that is not known although all that it takes was run,
// why it cannot be told.
func told(v report.Verdict, r *report.Row, m report.Metric, needs ...key) report.Verdict {
	if v.Known {
		return v
	}
	for _, k := range needs {
		if r.Find(k.engine, k.variant) == nil {
			return v
		}
	}
	v.Untold = "machine busy"
	if m == report.Fairness {
		v.Untold = "less than a second measured"
	}
	return v
}

func median(r *report.Row, k key, m report.Metric) float64 {
	s := r.Find(k.engine, k.variant)
	if s == nil {
		s = &report.Series{}
	}
	return s.Median(m)
}

// Demands that many rows make.
func faster(against string, times float64) demand {
	return ratio(report.OpsPerSecond, "operations/s", key{engine: Turnstile}, key{engine: against}, report.AtLeast(times))
}

func cheaper(against string, share float64) demand {
	return ratio(report.CPUPerOp, "CPU per operation", key{engine: Turnstile}, key{engine: against}, report.AtMost(share))
}

// Scenarios are the names that can be asked for, in the order in which they run.
var Scenarios = []string{"advisory", "tracked", "system-prompt", "saturated", "mixed", "output", "lanes", "cancelled", "own", "http", "held", "scaling", "sweep"}

// Rows returns the rows of a scenario.
func Rows(scenario string, engines []Engine) []Spec {
	rows := rowsOf(scenario, engines)
	for i := range rows {
		r := &rows[i]
		switch r.Weight = max(r.Weight, 1); {
		case r.Scenario == "advisory" && r.Ranks > 1000:
			r.Weight = 3
		case r.Ranks > 1000 && len(r.contenders) > 1:
			r.Weight = max(r.Weight, 5)
		}
	}
	return rows
}

func rowsOf(scenario string, engines []Engine) []Spec {
	switch scenario {
	case "advisory":
		return advisoryRows(engines)
	case "tracked":
		return trackedRows(engines)
	case "system-prompt":
		return []Spec{tracked(engines, "system-prompt", 256, 2048, sharedBlocks, faster(Actor, 5))}
	case "saturated":
		return []Spec{saturated(engines, 256, 16)}
	case "mixed":
		return []Spec{mixed(engines, 256, 16)}
	case "output":
		return []Spec{output(engines, 256, 16)}
	case "lanes":
		return []Spec{lanes(engines)}
	case "cancelled":
		return []Spec{cancelled(engines)}
	case "own":
		return ownRows(engines)
	case "http":
		return httpRow(engines)
	case "held":
		return heldRows(engines)
	case "scaling":
		return scalingRows(engines)
	case "sweep":
		return sweepRows(engines)
	}
	return nil
}

// Bare leaves the demands out, where a row is only to show its figures.
func (s Spec) Bare() Spec {
	s.demands = nil
	return s
}

// Seconds is about how long the row takes.
func (s *Spec) Seconds(settings Settings) float64 {
	rounds := settings.Rounds
	if s.most > 0 {
		rounds = min(rounds, s.most)
	}
	if s.once {
		rounds = 1
	}
	duration := max(settings.Duration, s.least)
	if s.longest > 0 {
		duration = min(duration, s.longest)
	}
	loops := float64(rounds*len(s.contenders)) * (1.25*duration.Seconds() + 0.05)
	if settings.Quick {
		return loops
	}
	return loops + s.setup*float64(rounds)
}

// Others are the names of what the engines are compared with beside each other:
// floors, and things that do a part of the job.
var Others = []string{"mutex", "semaphore", "channel", "floor"}

// Only leaves those contenders that have one of the names, and reports whether
// there are any.
func (s *Spec) Only(names []string) bool {
	s.contenders = slices.DeleteFunc(s.contenders, func(c contender) bool { return !slices.Contains(names, c.engine) })
	return len(s.contenders) > 0
}
