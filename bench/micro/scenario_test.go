package micro

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// TestScenarios runs every row for a moment. A row fails if anything is left
// behind: bookings, loads, waiters or goroutines.
func TestScenarios(t *testing.T) {
	for _, scenario := range Scenarios {
		t.Run(scenario, func(t *testing.T) {
			if scenario == "sweep" && testing.Short() {
				t.Skip("rows like the others")
			}
			specs := Rows(scenario, all())
			require.NotEmpty(t, specs)
			settings := Settings{Rounds: 1, Duration: 20 * time.Millisecond, Shrink: 100}
			if testing.Short() {
				settings.Shrink = 1000
				if scenario != "own" && scenario != "held" {
					specs = specs[:1] // they differ in size
				}
			}
			for i := range specs {
				spec := &specs[i]
				spec.least = 0
				row, err := Run(context.Background(), spec, settings, nil)
				require.NoError(t, err)
				require.Len(t, row.Verdicts, len(spec.demands))
				for _, c := range spec.contenders {
					s := row.Find(c.engine, c.variant)
					require.NotNil(t, s, "%s: %s", row.Scenario, c.name())
					require.Len(t, s.Rounds, 1)
					require.Positive(t, s.Ranks)
					for _, g := range c.groups {
						require.NotNil(t, row.Find(c.engine, g))
					}
				}
			}
		})
	}
}

// TestTable: the rows are those that are asked for, with the demands.
func TestTable(t *testing.T) {
	var got []string
	for _, scenario := range Scenarios {
		for _, spec := range Rows(scenario, all()) {
			require.Equal(t, spec.Sweep, scenario == "sweep")
			require.Positive(t, spec.Weight)
			if spec.Sweep {
				require.Empty(t, spec.demands)
				continue
			}
			row := report.Row{}
			var needs []string
			for _, d := range spec.demands {
				needs = append(needs, d(&row).Need)
			}
			got = append(got, fmt.Sprintf("%s %dx%d: %s", spec.Scenario, spec.Callers, spec.Ranks, strings.Join(needs, ", ")))
		}
	}
	require.Equal(t, []string{
		"advisory 16x4: ≥ 8 ×, ≤ 0",
		"advisory 16x16: ≥ 8 ×, ≤ 0",
		"advisory 256x4: ≥ 8 ×, ≤ 0.01 ×, ≤ 0.02 ×, ≤ 0",
		"advisory 256x16: ≥ 8 ×, ≤ 0.01 ×, ≤ 0.02 ×, ≤ 0",
		"advisory 256x2048: ≥ 30 ×, ≥ 6 ×, ≤ 0",
		"tracked 16x16: ≥ 3 ×, ≤ 0.6 ×",
		"tracked 256x16: ≥ 4 ×, ≥ 2 ×, ≤ 3",
		"tracked/fresh 256x16: ≥ 4 ×, ≥ 2 ×",
		"tracked 256x2048: ≥ 8 ×, ≥ 3 ×",
		"system-prompt 256x2048: ≥ 5 ×",
		"saturated 256x16: ≥ 1.5 ×, ≤ 0.6 ×, ≤ 0.5 ×, ≥ 0.95, first come, first served",
		"mixed 256x16: ≥ 1.3 ×, ≥ 1 ×",
		"output 256x16: ≥ 5 ×",
		"lanes 1x1024: ≤ 1.25 ×",
		"cancelled 1x1: ≤ 1.5 ×",
		"own/ranks 1x16: ≤ 3 ×",
		"own/uncontended 1x16: ≤ 6 ×, ≤ 2",
		"own/clock 1x16: ≤ 0",
		"own/booking-bytes 1x16: ≤ 400",
		"own/live 1x16: ≤ 1.5 ×",
		"own/idle 0x16: ≤ 16 KiB, ≤ 0",
		"own/idle-ring 0x16: ≤ 48 KiB, ≤ 0",
		"own/many 0x16: ≤ 16 KiB, ≤ 0",
		"own/waiting 1000000x16: ≥ 1,000,000",
		"own/remove 1x2048: ≤ 2 ×",
		"http 256x16: ",
		"held/release-lanes 4000x2048: ≤ 100 µs",
		"held/release-100 800x1024: ≤ 5.0 ms",
		"held/release-idle 100000x64: ≤ 100 µs, ≤ 64",
		"held/refused 64x16: ≤ 100 µs",
		"held/priority 100000x64: ≤ 64",
		"held/leavers 40000x64: ≤ 1.0 ms, ≤ 2 ×",
		"held/due 50000x16: ≤ 1.0 ms, ≤ 1.0 ms, ≥ 20",
		"held/expiring 1x64: ≤ 1.0 ms, ≤ 1.0 ms, ≥ 20",
		"held/close 50000x1024: ≤ 1.0 ms, ≥ 20, ≤ 1.5 ×",
		"held/ratio 16x512: ≤ 2 ×, ≤ 2 ×, ≤ 2 ×",
		"held/one-exclusion 1x2048: ≤ 5 ×",
		"held/half-allowed 1x2048: ≤ 20 µs",
		"held/half-excluded 1x2048: ≤ 20 µs",
		"held/required-taint 1x2048: ≤ 5 ×",
		"held/ISL-0 1x2048: ≤ 5 ×",
		"held/tracking-off 1x2048: ≤ 5 ×",
		"held/modelled-prefill 1x2048: ≤ 5 ×",
		"held/2^60-tokens 1x2048: ≤ 5 ×",
		"held/random 1x2048: ≤ 3 ×",
		"held/round-robin 1x2048: ≤ 3 ×",
		"held/power-of-two 1x2048: ≤ 3 ×",
		"held/shared-prompt 1x2048: ≤ 2 ×, ≤ 2 ×",
		"held/parting 1x2048: ≤ 1.0 ms, ≤ 1.0 ms",
		"held/classes 64x16: ≤ 1.5 ×",
		"held/classes-overloaded 2x2048: ≤ 1.0 ms",
		"held/upsert 1x4096: ≤ 1.0 s",
		"held/softmax 256x2048: ≤ 1 ×, ≥ 0.5",
		"held/decay 256x2048: ≤ 1 ×, ≥ 0.5",
		"scaling 1x64: ",
		"scaling 1x512: ",
		"scaling 1x2048: ≤ 5 ×, ≤ 20 µs, ≤ 5 ×, ≤ 5 ×, ≤ 2 ×, ≤ 2 ×",
		"scaling 1x16384: ≤ 5 ×, ≤ 160 µs, ≤ 5 ×, ≤ 5 ×, ≤ 2 ×, ≤ 2 ×",
	}, got)
	require.Empty(t, Rows("nothing", all()))
	require.Empty(t, Rows("own", all()[1:]), "only the turnstile engine has floors of its own")
	require.Empty(t, Rows("http", all()[1:]))
}

func TestOnly(t *testing.T) {
	spec := Rows("saturated", all())[0]
	require.True(t, spec.Only([]string{Actor, "channel"}))
	require.Len(t, spec.contenders, 2)
	require.False(t, spec.Only([]string{"nobody"}))
}

func TestDemands(t *testing.T) {
	row := &report.Row{}
	add := func(engine string, rate, allocs float64) {
		r := report.NewRound()
		r[report.OpsPerSecond], r[report.AllocsPerOp], r[report.CPUPerOp] = rate, allocs, 1e9/rate
		row.Series = append(row.Series, report.Series{Engine: engine, Rounds: []report.Round{r}})
	}
	require.Equal(t, "not run", faster(Actor, 8)(row).Mark())
	add(Turnstile, 900, 0.01)
	add(Actor, 100, 1)
	v := faster(Actor, 8)(row)
	require.Equal(t, report.Verdict{What: "operations/s against actor", Need: "≥ 8 ×", Reached: "9 ×", Known: true, Met: true}, v)
	require.False(t, faster(Actor, 10)(row).Met)
	require.True(t, cheaper(Actor, 0.2)(row).Met)
	require.True(t, none(report.AllocsPerOp, "", key{engine: Turnstile})(row).Met)
	require.False(t, none(report.AllocsPerOp, "", key{engine: Actor})(row).Met)
	// What was run and is not known cannot be told.
	v = ratio(report.P99, "p99", key{engine: Turnstile}, key{engine: Actor}, report.AtMost(1))(row)
	require.Equal(t, "not told: machine busy", v.Mark()+": "+v.Outcome())
	v = bound(report.Fairness, "fairness", key{engine: Turnstile}, report.AtLeast(0.8), report.Short)(row)
	require.Equal(t, "not told: less than a second measured", v.Mark()+": "+v.Outcome())
	require.Equal(t, "not run", faster("nobody", 8)(row).Mark())
	require.Equal(t, "x against actor (y)", ratio(report.P50, "x", key{engine: Turnstile}, key{Actor, "y"}, report.AtMost(1))(row).What)
}

// stuck never lets go of what is booked.
type stuck struct{ engine.Engine }

type stuckBooking struct{ engine.Booking }

func (stuckBooking) Release() error { return nil }

func (s stuck) Schedule(ctx context.Context, r *sched.Request) (engine.Booking, error) {
	b, err := s.Engine.Schedule(ctx, r)
	return stuckBooking{b}, err
}

func TestFaultsAreFound(t *testing.T) {
	turnstile := all()[0]
	spec := tracked([]Engine{{Name: Turnstile, Build: func(c Config) (engine.Engine, error) {
		e, err := turnstile.Build(c)
		return stuck{e}, err
	}}}, "tracked", 2, 4, 0)
	_, err := Run(context.Background(), &spec, Settings{Rounds: 1, Duration: time.Millisecond}, nil)
	require.ErrorContains(t, err, "tracked, turnstile: ")

	broken := errors.New("does not start")
	spec = tracked([]Engine{{Name: Actor, Build: func(Config) (engine.Engine, error) { return nil, broken }}, turnstile}, "tracked", 2, 4, 0)
	row, err := Run(context.Background(), &spec, Settings{Rounds: 3, Duration: time.Millisecond}, nil)
	require.ErrorIs(t, err, broken)
	require.Nil(t, row.Find(Actor, ""))
	require.Len(t, row.Find(Turnstile, "").Rounds, 3, "the others go on")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	row, err = Run(ctx, &spec, Settings{Rounds: 3, Duration: time.Millisecond}, nil)
	require.NoError(t, err, "an interrupt is no fault")
	require.Empty(t, row.Series)
}

// ticking is a clock that moves whenever it is read, so that nobody comes at the
// instant of another.
type ticking struct{ *clock.Manual }

func (c ticking) Now() time.Time {
	c.Advance(1)
	return c.Manual.Now()
}

func TestOrderIsTried(t *testing.T) {
	for _, e := range all() {
		require.NoError(t, tryOrder(e, 4, 16), e.Name)
	}
	// A class that serves who came last is found out.
	lcfs := Engine{Name: Turnstile, Build: func(c Config) (engine.Engine, error) {
		c.PolicyYAML = strings.Replace(c.PolicyYAML, "quantum: 4096", "quantum: 4096, queue_policy: lcfs", 1)
		c.Clock = ticking{clock.NewManual(time.Unix(0, 0))}
		return all()[0].Build(c)
	}}
	require.ErrorContains(t, tryOrder(lcfs, 4, 16), "caller 15 went before 0")
}

func TestPrompts(t *testing.T) {
	for _, own := range prompts(3, 2, sharedBlocks) {
		require.Len(t, own, promptsEach)
		for _, r := range own {
			require.Len(t, r.Blocks, promptBlocks)
			require.Equal(t, []uint64{1, 2, 3, 4}, r.Blocks[:sharedBlocks])
			require.Len(t, r.Overlaps, 2, "no more than there are ranks")
			require.NotEqual(t, r.Overlaps[0].Rank, r.Overlaps[1].Rank)
			for _, o := range r.Overlaps {
				require.LessOrEqual(t, o.Device+o.Host, float64(promptBlocks))
			}
		}
	}
	require.Equal(t, prompts(2, 16, 0), prompts(2, 16, 0), "the same each time")
}

func TestModel(t *testing.T) {
	m := newModel(2, 1)
	a, b := m.acquire(nil), m.acquire(nil)
	require.NotEqual(t, a, b)
	var order []int
	done := make(chan int)
	for i := range 3 {
		go func() {
			at := m.acquire(make(chan int, 1))
			done <- i
			m.release(at)
		}()
		require.Eventually(t, func() bool { return m.waiting() == int64(i+1) }, time.Minute, 100*time.Microsecond)
	}
	require.Error(t, m.empty())
	m.release(a)
	for range 3 {
		order = append(order, <-done)
	}
	m.release(b)
	require.Eventually(t, func() bool { return m.empty() == nil }, time.Minute, 100*time.Microsecond)
	require.Equal(t, []int{0, 1, 2}, order)
	require.Equal(t, 2, len(slices.Compact([]int{m.pick(), m.pick()})), "equals take turns")
}

func TestFairness(t *testing.T) {
	require.True(t, math.IsNaN(fairness(nil)))
	require.True(t, math.IsNaN(fairness([]int64{0, 0})))
	require.Equal(t, 0.5, fairness([]int64{4, 2, 3}))

	spec := &Spec{fair: true}
	round := func(wall time.Duration, counts ...int64) *outcome {
		return &outcome{
			total: report.NewRound(), groups: []report.Round{report.NewRound(), report.NewRound()},
			counts: counts, group: []int{0, 0, 1}, wall: wall,
		}
	}
	var ta tally
	out := round(fairWindow/2, 10, 4, 8)
	ta.add(spec, out)
	require.True(t, math.IsNaN(out.total[report.Fairness]), "a second has not passed")
	out = round(fairWindow/2, 0, 4, 12)
	ta.add(spec, out)
	require.Equal(t, 0.4, out.total[report.Fairness])
	require.Equal(t, 0.8, out.groups[0][report.Fairness])
	require.Equal(t, 1.0, out.groups[1][report.Fairness])
	out = round(fairWindow, 1, 1, 1)
	ta.add(spec, out)
	require.Equal(t, 1.0, out.total[report.Fairness], "starts anew")
}
