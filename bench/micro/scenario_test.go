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
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
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
				if scenario != "own" {
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
		"advisory 256x2048: ≥ 30 ×, ≥ 8 ×, ≤ 0",
		"tracked 16x16: ≥ 3 ×, ≤ 0.6 ×",
		"tracked 256x16: ≥ 3 ×, ≤ 0.6 ×",
		"tracked 256x2048: ≥ 8 ×, ≥ 3 ×",
		"system-prompt 256x2048: ≥ 5 ×",
		"saturated 256x16: ≥ 1.4 ×, ≤ 0.5 ×, ≥ 0.8, first come, first served",
		"mixed 256x16: ≥ 2 ×, ≥ 1 ×",
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
	}, got)
	require.Empty(t, Rows("nothing", all()))
	require.Empty(t, Rows("own", all()[1:]), "only the sharded engine has floors of its own")
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
	add(Sharded, 900, 0.01)
	add(Actor, 100, 1)
	v := faster(Actor, 8)(row)
	require.Equal(t, report.Verdict{What: "operations/s against actor", Need: "≥ 8 ×", Reached: "9 ×", Known: true, Met: true}, v)
	require.False(t, faster(Actor, 10)(row).Met)
	require.True(t, cheaper(Actor, 0.2)(row).Met)
	require.True(t, none(report.AllocsPerOp, "", key{engine: Sharded})(row).Met)
	require.False(t, none(report.AllocsPerOp, "", key{engine: Actor})(row).Met)
	// What was run and is not known cannot be told.
	v = ratio(report.P99, "p99", key{engine: Sharded}, key{engine: Actor}, report.AtMost(1))(row)
	require.Equal(t, "not told: machine busy", v.Mark()+": "+v.Outcome())
	v = bound(report.Fairness, "fairness", key{engine: Sharded}, report.AtLeast(0.8), report.Short)(row)
	require.Equal(t, "not told: less than a second measured", v.Mark()+": "+v.Outcome())
	require.Equal(t, "not run", faster("nobody", 8)(row).Mark())
	require.Equal(t, "x against actor (y)", ratio(report.P50, "x", key{engine: Sharded}, key{Actor, "y"}, report.AtMost(1))(row).What)
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
	sharded := all()[0]
	spec := tracked([]Engine{{Name: Sharded, Build: func(c Config) (engine.Engine, error) {
		e, err := sharded.Build(c)
		return stuck{e}, err
	}}}, "tracked", 2, 4, 0)
	_, err := Run(context.Background(), &spec, Settings{Rounds: 1, Duration: time.Millisecond}, nil)
	require.ErrorContains(t, err, "tracked, sharded: ")

	broken := errors.New("does not start")
	spec = tracked([]Engine{{Name: Actor, Build: func(Config) (engine.Engine, error) { return nil, broken }}, sharded}, "tracked", 2, 4, 0)
	row, err := Run(context.Background(), &spec, Settings{Rounds: 3, Duration: time.Millisecond}, nil)
	require.ErrorIs(t, err, broken)
	require.Nil(t, row.Find(Actor, ""))
	require.Len(t, row.Find(Sharded, "").Rounds, 3, "the others go on")

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
	lcfs := Engine{Name: Sharded, Build: func(c Config) (engine.Engine, error) {
		file, err := policy.Parse([]byte(strings.Replace(c.PolicyYAML, "quantum: 4096", "quantum: 4096, queue_policy: lcfs", 1)))
		require.NoError(t, err)
		ticking := ticking{clock.NewManual(time.Unix(0, 0))}
		return engine.NewSharded(sched.Config{BlockSize: c.BlockSize, Policy: file}, sched.WithClock(ticking))
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
