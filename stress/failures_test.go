package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/internal/testkit"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// What went wrong in schedulers in the field, each as a test. FAILURES.md lists
// them all; those that are stories in steps are scripts.

func schedulerWith(t *testing.T, workers int, config sched.Config, opts ...sched.Option) *sched.Scheduler {
	t.Helper()
	s := testkit.Scheduler(t, config, workers, opts...)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// 4. Equal workers: ties do not always go to the first.
func TestFailure04TiesAreSpread(t *testing.T) {
	s := schedulerWith(t, 4, sched.Config{})
	counts := make(map[uint64]int)
	for range 400 {
		p, err := s.Select(t.Context(), &sched.Request{ISL: 10})
		require.NoError(t, err)
		counts[p.Rank.Worker]++
	}
	require.Len(t, counts, 4)
	for id, n := range counts {
		require.Greater(t, n, 40, "worker %d", id)
	}
}

// 9. A slow look-up holds up its own caller and nobody else, and ends with it.
func TestFailure09SlowLookupHoldsUpNobodyElse(t *testing.T) {
	manual := clock.NewManual(time.Unix(1000, 0))
	looking := make(chan struct{}, 1)
	s := schedulerWith(t, 2, sched.Config{Profile: testkit.Profile(t, testkit.Queueing), RefreshAfter: time.Second},
		sched.WithClock(manual),
		sched.WithOverlapRefresher(func(ctx context.Context, _ []uint64) ([]sched.Overlap, error) {
			looking <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}))
	hold, err := s.Schedule(t.Context(), &sched.Request{ID: "hold", ISL: 10, Pin: &sched.RankID{Worker: 1}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(testkit.WithTimeout(t))
	looked := make(chan error, 1)
	go func() {
		_, err := s.Schedule(ctx, &sched.Request{ID: "slow", ISL: 10, Blocks: []uint64{1}, Pin: &sched.RankID{Worker: 1}})
		looked <- err
	}()
	testkit.UntilQueued(t, s, 1)
	manual.Advance(2 * time.Second)
	require.NoError(t, hold.Release())
	<-looking
	// Admission, waiting, release and cancellation go on beside it.
	b, err := s.Schedule(t.Context(), &sched.Request{ID: "other", ISL: 10, Pin: &sched.RankID{Worker: 2}})
	require.NoError(t, err)
	next := make(chan *sched.Booking, 1)
	go func() {
		b, err := s.Schedule(testkit.WithTimeout(t), &sched.Request{ID: "next", ISL: 10, Pin: &sched.RankID{Worker: 2}})
		assert.NoError(t, err)
		next <- b
	}()
	testkit.UntilQueued(t, s, 1)
	require.NoError(t, b.Release())
	require.NoError(t, (<-next).Release())
	cancel()
	require.ErrorIs(t, <-looked, sched.ErrCanceled)
	testkit.RequireIdle(t, s)
}

// 12. Callers that abort at any moment leave no phantom load.
func TestFailure12AbortsLeaveNoLoad(t *testing.T) {
	for _, profile := range []*policy.Profile{nil, testkit.Profile(t, testkit.Queueing)} {
		s := schedulerWith(t, 2, sched.Config{Profile: profile})
		var wg sync.WaitGroup
		for c := range 8 {
			wg.Go(func() {
				for i := range 1000 / 8 {
					ctx, cancel := context.WithCancel(testkit.WithTimeout(t))
					go cancel()
					_ = s.Do(ctx, &sched.Request{ID: fmt.Sprintf("%d.%d", c, i), ISL: 10}, func(ctx context.Context, _ *sched.Booking) error {
						<-ctx.Done()
						return ctx.Err()
					})
				}
			})
		}
		wg.Wait()
		testkit.RequireIdle(t, s)
	}
}

// 16. Loads are symmetric: after everything has ended all are zero, whatever was
// done between. The storms check it in every lull; this is it without hurry.
func TestFailure16AllEndedIsZero(t *testing.T) {
	s := schedulerWith(t, 4, sched.Config{})
	rnd := rand.New(rand.NewPCG(16, 0))
	var live []*sched.Booking
	for i := range 5000 {
		if len(live) > 0 && rnd.IntN(2) == 0 {
			at := rnd.IntN(len(live))
			b := live[at]
			live = append(live[:at], live[at+1:]...)
			_ = b.AddOutputBlockWithDecay(rnd.Float64())
			_, _ = b.Transfer(sched.RankID{Worker: 1 + rnd.Uint64N(4)})
			require.NoError(t, b.Release())
			continue
		}
		r := &sched.Request{ID: fmt.Sprint(i), ISL: rnd.Int64N(100)}
		for n := range rnd.Uint64N(5) {
			r.Blocks = append(r.Blocks, n)
		}
		b, err := s.Schedule(t.Context(), r)
		require.NoError(t, err)
		live = append(live, b)
	}
	for _, b := range live {
		require.NoError(t, b.Release())
	}
	testkit.RequireIdle(t, s)
}

// 18, 19. A limit of ten, and ten failures of each kind: the limit is free again.
func TestFailure18EveryWayOutReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedulerWith(t, 10, sched.Config{Profile: testkit.Profile(t, testkit.Queueing)})
		boom := errors.New("boom")
		ways := map[string]func(context.Context, context.CancelFunc) error{
			"error":   func(context.Context, context.CancelFunc) error { return boom },
			"panic":   func(context.Context, context.CancelFunc) error { panic(boom) },
			"goexit":  func(context.Context, context.CancelFunc) error { runtime.Goexit(); return nil },
			"cancel":  func(ctx context.Context, cancel context.CancelFunc) error { cancel(); return ctx.Err() },
			"timeout": func(ctx context.Context, _ context.CancelFunc) error { <-ctx.Done(); return ctx.Err() },
			"nowhere": func(context.Context, context.CancelFunc) error { return sched.RetryElsewhere(boom) },
		}
		for name, way := range ways {
			var ran atomic.Int64
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					defer func() { _ = recover() }()
					ctx, cancel := context.WithTimeout(testkit.WithTimeout(t), 20*time.Millisecond)
					defer cancel()
					r := &sched.Request{ID: fmt.Sprintf("%s-%d", name, i), ISL: 10, Pin: &sched.RankID{Worker: uint64(i + 1)}}
					_ = s.Do(ctx, r, func(ctx context.Context, _ *sched.Booking) error {
						ran.Add(1)
						return way(ctx, cancel)
					})
				})
			}
			wg.Wait()
			require.EqualValues(t, 10, ran.Load(), name)
			testkit.RequireIdle(t, s)
		}
	})
}

// 19. Panics anywhere in the embedder's code leave nothing behind.
func TestFailure19PanicsLeaveNothing(t *testing.T) {
	manual := clock.NewManual(time.Unix(1000, 0))
	s := schedulerWith(t, 1, sched.Config{Profile: testkit.Profile(t, testkit.Queueing), RefreshAfter: time.Second, Selector: panicky{}},
		sched.WithClock(manual),
		sched.WithDecisionHook(func(sched.Decision) { panic("hook") }),
		sched.WithPrefillEstimator(func(sched.PrefillWork) (time.Duration, bool) { panic("estimator") }),
		sched.WithOverlapRefresher(func(context.Context, []uint64) ([]sched.Overlap, error) { panic("refresher") }))
	_, err := s.Schedule(t.Context(), &sched.Request{ID: "picked", ISL: 10})
	require.ErrorIs(t, err, sched.ErrSelector)
	pin := &sched.RankID{Worker: 1}
	hold, err := s.Schedule(t.Context(), &sched.Request{ID: "hold", ISL: 10, Pin: pin})
	require.NoError(t, err)
	waited := make(chan *sched.Booking, 1)
	go func() {
		b, err := s.Schedule(testkit.WithTimeout(t), &sched.Request{ID: "waits", ISL: 10, Blocks: []uint64{1}, Pin: pin})
		assert.NoError(t, err)
		waited <- b
	}()
	go func() { // and fails in the turn
		_, err := s.Schedule(testkit.WithTimeout(t), &sched.Request{ID: "fails", ISL: 10})
		assert.ErrorIs(t, err, sched.ErrSelector)
		waited <- nil
	}()
	testkit.UntilQueued(t, s, 2)
	manual.Advance(2 * time.Second)
	require.NoError(t, hold.Release())
	for range 2 {
		if b := <-waited; b != nil {
			require.NoError(t, b.Release())
		}
	}
	testkit.RequireIdle(t, s)
}

type panicky struct{}

func (panicky) Pick(*selector.Input) (selector.Pick, error) { panic("selector") }

// 20. Who can be chosen can be booked, and its load is seen: one table serves both.
func TestFailure20NewWorkersAreWholeAtOnce(t *testing.T) {
	s := schedulerWith(t, 0, sched.Config{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for id := uint64(1); ; id = id%8 + 1 {
			select {
			case <-stop:
				return
			default:
			}
			_ = s.UpsertWorker(sched.Worker{ID: id, Ranks: 1, Endpoint: fmt.Sprintf("host-%d", id)})
			runtime.Gosched()
			_ = s.RemoveWorker(id%8 + 1)
		}
	})
	for i := range 5000 {
		b, err := s.Schedule(t.Context(), &sched.Request{ID: fmt.Sprint(i), ISL: 10})
		if err != nil {
			require.ErrorIs(t, err, sched.ErrNoEndpoints)
			runtime.Gosched()
			continue
		}
		p := b.Placement()
		require.Equal(t, fmt.Sprintf("host-%d", p.Rank.Worker), p.Endpoint)
		if err := b.Release(); err != nil {
			require.ErrorIs(t, err, sched.ErrUnchanged)
			<-b.Done() // only because its worker went
		}
	}
	close(stop)
	wg.Wait()
	testkit.RequireIdle(t, s)
}

// 24. Selection and counting are one step: equal workers differ by one at most.
func TestFailure24ConcurrentPicksSpread(t *testing.T) {
	s := schedulerWith(t, 7, sched.Config{Selector: selector.LeastLoaded()})
	for round := range 50 {
		bookings := make([]*sched.Booking, 24)
		var wg sync.WaitGroup
		for i := range bookings {
			wg.Go(func() {
				var err error
				bookings[i], err = s.Schedule(testkit.WithTimeout(t), &sched.Request{ID: fmt.Sprintf("%d.%d", round, i), ISL: 10})
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		least, most := int64(1<<62), int64(0)
		for _, l := range s.Loads() {
			least, most = min(least, l.Requests), max(most, l.Requests)
		}
		require.LessOrEqual(t, most-least, int64(1))
		for _, b := range bookings {
			require.NoError(t, b.Release())
		}
	}
}

// 25. A burst of 1,000 against 100 slots: 100 run, each has a worker, and nobody
// is told that there is none.
func TestFailure25BurstAgainstALimit(t *testing.T) {
	s := schedulerWith(t, 100, sched.Config{Profile: testkit.Profile(t, testkit.Queueing)})
	ctx, cancel := context.WithCancel(testkit.WithTimeout(t))
	var running, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			err := s.Do(ctx, &sched.Request{ID: fmt.Sprint(i), ISL: 10}, func(_ context.Context, b *sched.Booking) error {
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				_, err := b.Worker()
				runtime.Gosched()
				running.Add(-1)
				return err
			})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	cancel()
	require.LessOrEqual(t, most.Load(), int64(100))
	testkit.RequireIdle(t, s)
}

// 28. A cancel that races with the grant: it is booked and told, or neither.
func TestFailure28CancelRacesWithTheGrant(t *testing.T) {
	s := schedulerWith(t, 1, sched.Config{Profile: testkit.Profile(t, testkit.Queueing)})
	granted, cancelled := 0, 0
	for i := range 2000 {
		hold, err := s.Schedule(t.Context(), &sched.Request{ID: "hold", ISL: 10})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(testkit.WithTimeout(t))
		done := make(chan error, 1)
		go func() {
			b, err := s.Schedule(ctx, &sched.Request{ID: "r", ISL: 10})
			if err == nil {
				err = b.Release()
			}
			done <- err
		}()
		for testkit.InLine(s) == 0 {
			runtime.Gosched()
		}
		both := []func(){cancel, func() { assert.NoError(t, hold.Release()) }}
		var other sync.WaitGroup
		other.Go(both[i%2])
		both[1-i%2]()
		other.Wait() // the id is free when Release has returned
		if err := <-done; err == nil {
			granted++
		} else {
			require.ErrorIs(t, err, sched.ErrCanceled)
			cancelled++
		}
		require.Eventually(t, func() bool { return s.Stats().Live == 0 }, time.Minute, 10*time.Microsecond)
	}
	t.Logf("%d granted, %d cancelled", granted, cancelled)
	testkit.RequireIdle(t, s)
}

// 29. Submissions race with the end: all are answered.
func TestFailure29ShutdownAnswersEveryone(t *testing.T) {
	for round := range 100 {
		s := schedulerWith(t, 1, sched.Config{Profile: testkit.Profile(t, testkit.Queueing)})
		hold, err := s.Schedule(t.Context(), &sched.Request{ID: "hold", ISL: 10})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				_, err := s.Schedule(testkit.WithTimeout(t), &sched.Request{ID: fmt.Sprint(i), ISL: 10})
				assert.ErrorIs(t, err, sched.ErrClosed)
			})
		}
		if round%2 == 0 {
			require.NoError(t, s.Close())
		} else {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if err := s.Shutdown(ctx); err != nil { // nil if nobody had come yet
				require.ErrorIs(t, err, sched.ErrDeadline)
			}
			cancel()
		}
		wg.Wait()
		require.NoError(t, hold.Release())
		testkit.RequireIdle(t, s)
	}
}

// 30. A context that has ended is the same error before, in and after the queue.
func TestFailure30ContextErrorsAreTheSame(t *testing.T) {
	s := schedulerWith(t, 1, sched.Config{Profile: testkit.Profile(t, testkit.Queueing)})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	check := func(stage string, ctx context.Context, want, cause error) {
		_, err := s.Schedule(ctx, &sched.Request{ID: "r", ISL: 10})
		require.ErrorIs(t, err, want, stage)
		require.ErrorIs(t, err, cause, stage)
	}
	check("at the door", ended, sched.ErrCanceled, context.Canceled)
	check("at the door", late, sched.ErrDeadline, context.DeadlineExceeded)
	hold, err := s.Schedule(t.Context(), &sched.Request{ID: "hold", ISL: 10})
	require.NoError(t, err)
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	check("in the queue", soon, sched.ErrDeadline, context.DeadlineExceeded)
	leaves, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	check("in the queue", leaves, sched.ErrCanceled, context.Canceled)
	require.NoError(t, hold.Release())
	testkit.RequireIdle(t, s)
}

// 31. Names that clients make up are not kept: classes, ids, lanes, blocks.
func TestFailure31NamesOfClientsAreNotKept(t *testing.T) {
	s := schedulerWith(t, 2, sched.Config{Profile: testkit.Profile(t, testkit.Queueing)})
	ctx := testkit.WithTimeout(t)
	use := func(from, to int) {
		for i := from; i < to; i++ {
			hold, err := s.Schedule(t.Context(), &sched.Request{ID: fmt.Sprint("hold", i), ISL: 10, Pin: &sched.RankID{Worker: 1}})
			require.NoError(t, err)
			got := make(chan *sched.Booking, 1)
			r := &sched.Request{
				ID: fmt.Sprint("r", i), Class: fmt.Sprint("client-", i), ISL: 10, Blocks: []uint64{uint64(i)},
				Allowed: []uint64{1, uint64(1000 + i)}, // a lane of its own
			}
			go func() {
				b, err := s.Schedule(ctx, r)
				assert.NoError(t, err)
				got <- b
			}()
			for testkit.InLine(s) == 0 {
				runtime.Gosched()
			}
			require.NoError(t, hold.Release())
			require.NoError(t, (<-got).Release())
		}
	}
	n := 20_000
	if testing.Short() {
		n = 4000
	}
	use(0, n/10)
	before := testkit.HeapInUse()
	use(n/10, n)
	after := testkit.HeapInUse()
	require.Len(t, s.Stats().Classes, 1)
	require.Less(t, after, before+before/10+1<<20)
	testkit.RequireIdle(t, s)
}

// 32. Reading while classes and workers change, under -race.
func TestFailure32ReadersSeeWholeProfiles(t *testing.T) {
	s := schedulerWith(t, 2, sched.Config{Profile: testkit.Profile(t, testkit.Queueing)})
	profiles := []*policy.Profile{
		testkit.Profile(t, testkit.Queueing),
		testkit.Profile(t, testkit.Queueing+"  - {name: g, quantum: 10, prefill_busy_threshold: 5}\n"),
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				n := len(s.Stats().Classes)
				assert.True(t, n == 1 || n == 2, n)
				_, _ = s.Select(t.Context(), &sched.Request{ISL: 10, Class: "g"})
				s.Loads()
			}
		})
	}
	for i := range 1000 {
		require.NoError(t, s.SetProfile(profiles[i%2]))
		require.NoError(t, s.UpsertWorker(sched.Worker{ID: 3, Ranks: 1 + uint32(i%2)}))
	}
	close(stop)
	wg.Wait()
}

// The table of FAILURES.md is complete, and what it names exists.
func TestFailuresAreAllListed(t *testing.T) {
	text, err := os.ReadFile("FAILURES.md")
	require.NoError(t, err)
	var sources strings.Builder
	for _, pattern := range []string{"*_test.go", "storm/*_test.go", "../sched/*_test.go"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			source, err := os.ReadFile(name)
			require.NoError(t, err)
			sources.Write(source)
		}
	}
	for n := 1; n <= 34; n++ {
		require.True(t, strings.Contains(string(text), fmt.Sprintf("\n| %d |", n)), n)
	}
	for _, name := range regexp.MustCompile(`Test[A-Z]\w+`).FindAllString(string(text), -1) {
		require.True(t, strings.Contains(sources.String(), "func "+name+"("), name)
	}
	for _, name := range regexp.MustCompile(`failure_\w+`).FindAllString(string(text), -1) {
		require.FileExists(t, "testdata/scripts/"+name+".txt")
	}
}
