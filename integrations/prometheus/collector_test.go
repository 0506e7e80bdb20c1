package turnstileprom_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	turnstileprom "github.com/seed-3c5df8a4/turnstile/integrations/prometheus"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// still is a source that stands still.
type still struct {
	stats sched.Stats
	loads []sched.RankLoad
}

func (s *still) Stats() sched.Stats { return s.stats }

func (s *still) Loads() []sched.RankLoad { return s.loads }

// Snapshot has the ranks alone: worker 7 is set aside.
func (s *still) Snapshot(int) (snapshot sched.Snapshot) {
	for i := range s.loads {
		r := sched.RankState{RankLoad: s.loads[i], Endpoint: fmt.Sprintf("http://gpu-%d", s.loads[i].Rank.Worker)}
		for _, aside := range s.stats.Aside {
			if aside.Worker == r.Rank.Worker {
				r.AsideUntil, r.Overloaded = aside.Until, true
			}
		}
		snapshot.Ranks = append(snapshot.Ranks, r)
	}
	return snapshot
}

func busy() *still {
	load := func(worker uint64, rank uint32, prefill, blocks, requests, total int64) sched.RankLoad {
		return sched.RankLoad{
			Rank: sched.RankID{Worker: worker, Rank: rank}, PrefillTokens: prefill, Blocks: blocks, Requests: requests, TotalKVBlocks: total,
		}
	}
	return &still{
		stats: sched.Stats{
			Classes: []sched.ClassStats{
				{Name: "chat", Pending: 3, Tokens: 4000, Cached: 1000, Deficit: 17, Admitted: 80, Rejected: map[string]int64{"queue-full": 7}, Waits: sched.Histogram{
					Bounds: []float64{0.001, 0.002, 0.004}, Counts: []int64{1, 0, 2, 4}, Sum: 9.5,
				}},
				{Name: "batch", Admitted: 20},
			},
			Waiting: 3, Live: 6, Admitted: 100, Queries: 5,
			Rejected: map[string]int64{"queue-full": 7, "canceled": 2},
			Expired:  1, Leaked: 2, Dropped: 3, HintOverflows: 4, Epochs: 50, Retries: 6,
			EpochSizes:     sched.Histogram{Bounds: []float64{1, 2}, Counts: []int64{30, 15, 5}, Sum: 99},
			SelectionTimes: sched.Histogram{Bounds: []float64{0.00000025}, Counts: []int64{1, 1}, Sum: 0.000001},
			EventsDropped:  8, HookPanics: 9,
			Aside: []sched.AsideWorker{{Worker: 7, Until: time.UnixMilli(1_700_000_000_500)}},
		},
		loads: []sched.RankLoad{
			load(1, 0, 100, 10, 1, 1000), load(1, 1, 200, 20, 2, 1000), load(7, 0, 400, 40, 3, 0),
		},
	}
}

// The whole of what is exported, at each detail.
func TestExported(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file   string
		config turnstileprom.Config
	}{
		{"per_rank.txt", turnstileprom.Config{}},
		{"per_worker.txt", turnstileprom.Config{Detail: turnstileprom.PerWorker, Scheduler: "llama"}},
		{"total.txt", turnstileprom.Config{Detail: turnstileprom.Total, ConstLabels: prometheus.Labels{"zone": "a"}}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			want, err := os.Open("testdata/" + tt.file)
			require.NoError(t, err)
			defer want.Close()
			c := turnstileprom.New(busy(), tt.config)
			require.NoError(t, testutil.CollectAndCompare(c, want))
		})
	}
}

// Names, units and help follow the conventions.
func TestConventions(t *testing.T) {
	t.Parallel()
	problems, err := testutil.CollectAndLint(turnstileprom.New(busy(), turnstileprom.Config{Scheduler: "llama"}))
	require.NoError(t, err)
	require.Empty(t, problems)
}

// Two schedulers in one process are told apart by their label; without it the
// second is refused.
func TestSeveralSchedulers(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"llama", "qwen"} {
		require.NoError(t, registry.Register(turnstileprom.New(busy(), turnstileprom.Config{Scheduler: name})))
	}
	require.Error(t, registry.Register(turnstileprom.New(busy(), turnstileprom.Config{Scheduler: "qwen"})))
	n, err := testutil.GatherAndCount(registry, "turnstile_workers", "turnstile_prefill_tokens")
	require.NoError(t, err)
	require.Equal(t, 2*(1+3), n)
	require.Error(t, prometheus.NewRegistry().Register(
		turnstileprom.New(busy(), turnstileprom.Config{ConstLabels: prometheus.Labels{"class": "mine"}})))
}

// A label set that the caller goes on using is not kept.
func TestConstLabelsAreCopied(t *testing.T) {
	t.Parallel()
	labels := prometheus.Labels{"zone": "a"}
	turnstileprom.New(busy(), turnstileprom.Config{Scheduler: "llama", ConstLabels: labels})
	require.Equal(t, prometheus.Labels{"zone": "a"}, labels)
}

// A scheduler that has just been made, without workers, exports all but ranks.
func TestNewScheduler(t *testing.T) {
	t.Parallel()
	s, err := sched.New(sched.Config{BlockSize: 16})
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(turnstileprom.New(s, turnstileprom.Config{Detail: turnstileprom.Total}))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP turnstile_active_requests Live bookings.
# TYPE turnstile_active_requests gauge
turnstile_active_requests 0
# HELP turnstile_admissions_total Requests booked.
# TYPE turnstile_admissions_total counter
turnstile_admissions_total 0
# HELP turnstile_workers Workers in the table.
# TYPE turnstile_workers gauge
turnstile_workers 0
`), "turnstile_active_requests", "turnstile_admissions_total", "turnstile_workers", "turnstile_selection_seconds"))
}

// Every reason that the scheduler counts is exported.
func TestEveryRejectionIsExported(t *testing.T) {
	t.Parallel()
	s, err := sched.New(sched.Config{BlockSize: 16})
	require.NoError(t, err)
	refuse := func(r *sched.Request) {
		_, err := s.Schedule(t.Context(), r)
		require.Error(t, err)
	}
	refuse(&sched.Request{})
	refuse(&sched.Request{ID: "r"})
	require.NoError(t, s.Close())
	refuse(&sched.Request{ID: "r"})
	total := 0.0
	families := gather(t, turnstileprom.New(s, turnstileprom.Config{}))
	for _, m := range families["turnstile_rejections_total"].GetMetric() {
		total += m.GetCounter().GetValue()
	}
	require.InDelta(t, 3, total, 0)
}

// TestWorkersByState: the worst state of a worker counts, and all states are always
// there, so that an alert sees that none is open.
func TestWorkersByState(t *testing.T) {
	t.Parallel()
	s, err := sched.New(sched.Config{BlockSize: 16})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	c := turnstileprom.New(s, turnstileprom.Config{})
	states := func() map[string]float64 {
		in := map[string]float64{}
		for _, m := range gather(t, c)["turnstile_workers_by_state"].GetMetric() {
			in[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
		return in
	}
	require.Equal(t, map[string]float64{"open": 0, "overloaded": 0, "aside": 0, "draining": 0, "unavailable": 0}, states())
	for id := range uint64(6) {
		require.NoError(t, s.UpsertWorker(sched.Worker{ID: id + 1, Ranks: 2, Endpoint: fmt.Sprint("gpu-\xff", id+1), Incarnation: "boot-\xff"}))
	}
	require.NoError(t, s.SetAvailable([]uint64{1, 2, 3, 4, 5}))
	require.NoError(t, s.DrainWorker(2))
	require.NoError(t, s.SetAside(3, time.Hour))
	require.NoError(t, s.SetOverloaded([]uint64{2, 4}))
	require.Equal(t, map[string]float64{"open": 2, "overloaded": 1, "aside": 1, "draining": 1, "unavailable": 1}, states())
	require.NoError(t, s.SetAvailable(nil))
	require.NoError(t, s.SetAvailable([]uint64{6}))
	require.NoError(t, s.SetAside(6, time.Hour))
	require.Zero(t, states()["open"], "all dead is not healthy")
	require.Len(t, gather(t, c)["turnstile_worker_info"].GetMetric(), 6)
}
