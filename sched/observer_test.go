package sched_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/internal/invariants"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// diary writes down what an observer is told.
type diary struct {
	start time.Time
	lines []string
}

func (d *diary) observe(e sched.Event) {
	line := fmt.Sprintf("%v %s %s class=%s", e.Time.Sub(d.start), e.Request, e.Kind, e.Class)
	if e.Query {
		line += " query"
	}
	if e.Placement != (sched.Placement{}) {
		line += fmt.Sprintf(" on %v", e.Placement.Rank)
	}
	line += fmt.Sprintf(" waited %v", e.Waited())
	if !e.Granted.IsZero() && e.Kind != sched.EventGranted {
		line += fmt.Sprintf(" held %v", e.Time.Sub(e.Granted))
	}
	if e.Err != nil {
		var detailed *sched.Error
		if errors.As(e.Err, &detailed) {
			line += fmt.Sprintf(" error=%v", detailed.Code)
		} else {
			line += fmt.Sprintf(" cause=%v", e.Err)
		}
	}
	d.lines = append(d.lines, line)
}

// The whole story of some requests, with its times.
func TestObserverIsToldEachStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{start: time.Now()}
		s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), BookingTTL: time.Hour}, sched.WithObserver(d.observe))
		addWorkers(t, s, 2)
		one, two := rank(1), rank(2)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10, Pin: &one})
		_ = schedule(t, s, sched.Request{ID: "silent", ISL: 10, Pin: &two})
		for _, r := range []sched.Request{
			{ID: "waits", ISL: 10, Pin: &one}, {ID: "late", ISL: 10, Pin: &one, Due: time.Now().Add(3 * time.Second)},
		} {
			go func() {
				if b, err := s.Schedule(t.Context(), &r); err == nil {
					assert.Equal(t, 4*time.Second, b.Waited())
				}
			}()
			synctest.Wait()
		}
		ctx, leave := context.WithCancel(t.Context())
		go func() { _, _ = s.Query(ctx, &sched.Request{ID: "leaves", ISL: 10, Pin: &one}) }()
		synctest.Wait()
		time.Sleep(time.Second)
		leave()
		synctest.Wait()
		_, err := s.Schedule(t.Context(), &sched.Request{ID: "", ISL: 10})
		require.ErrorIs(t, err, sched.ErrInvalid)
		_, err = s.Schedule(t.Context(), &sched.Request{ID: "refused", ISL: 10, Pin: &one, DoNotQueue: true})
		require.ErrorIs(t, err, sched.ErrWouldQueue)
		time.Sleep(3 * time.Second)
		require.NoError(t, hold.PrefillDone())
		synctest.Wait()
		moved, err := hold.Transfer(two)
		require.NoError(t, err)
		require.Zero(t, hold.Waited())
		require.NoError(t, s.AddOutputBlock("hold", moved.Attempt))
		require.NoError(t, hold.Release())
		require.ErrorIs(t, hold.Release(), sched.ErrUnchanged)
		require.NoError(t, s.RemoveWorker(1))
		synctest.Wait()
		time.Sleep(2 * time.Hour)
		_, err = s.Query(t.Context(), &sched.Request{ID: "asks", ISL: 10})
		require.NoError(t, err)
		require.NoError(t, s.Settle(t.Context()))
		want := strings.TrimSpace(`
0s hold granted class=f on 1/0 waited 0s
0s silent granted class=f on 2/0 waited 0s
0s waits queued class=f waited 0s
0s late queued class=f waited 0s
0s leaves queued class=f query waited 0s
1s leaves rejected class=f query waited 1s error=canceled
1s  rejected class= waited 0s error=invalid
1s refused rejected class=f waited 0s error=would-queue
3s late rejected class=f waited 3s error=deadline
4s hold prefill-done class=f on 1/0 waited 0s held 4s
4s waits granted class=f on 1/0 waited 4s
4s hold transferred class=f on 2/0 waited 0s held 4s
4s hold released class=f on 2/0 waited 0s held 4s
4s waits dropped class=f on 1/0 waited 4s held 0s cause=worker-removed
1h0m0s silent expired class=f on 2/0 waited 0s held 1h0m0s cause=expired
2h0m4s asks granted class=f query on 2/0 waited 0s`)
		require.Equal(t, want, strings.Join(d.lines, "\n"))
		require.Zero(t, s.Stats().EventsDropped)
	})
}

// An observer that is stuck holds up nobody: what finds no room is dropped and
// counted, and Close does not wait for it.
func TestStuckObserverHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck, told := make(chan struct{}), 0
		s := newScheduler(t, sched.Config{EventBuffer: 10}, sched.WithObserver(func(sched.Event) {
			<-stuck
			told++
		}))
		addWorkers(t, s, 1)
		for i := range 50 {
			require.NoError(t, schedule(t, s, sched.Request{ID: fmt.Sprint(i), ISL: 10}).Release())
		}
		synctest.Wait()
		require.EqualValues(t, 90, s.Stats().EventsDropped)
		require.NoError(t, s.Close())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.Shutdown(ctx), sched.ErrDeadline, "events are still to be told")
		close(stuck)
		require.NoError(t, s.Shutdown(t.Context()))
		require.Equal(t, 10, told)
		// The bubble ends only if no goroutine is left.
	})
}

// An observer that panics or ends its goroutine loses that event for itself, and
// nothing else.
func TestObserverThatBreaks(t *testing.T) {
	t.Parallel()
	var second []string
	var mu sync.Mutex // the observers' goroutine may be another after each event
	s := newScheduler(t, sched.Config{}, sched.WithObserver(nil),
		sched.WithObserver(func(e sched.Event) {
			if e.Kind == sched.EventGranted {
				panic("no grants, please")
			}
			runtime.Goexit()
		}),
		sched.WithObserver(func(e sched.Event) {
			mu.Lock()
			defer mu.Unlock()
			second = append(second, e.Kind.String())
		}))
	addWorkers(t, s, 1)
	for range 3 {
		require.NoError(t, schedule(t, s, sched.Request{ID: "r", ISL: 10}).Release())
	}
	requireIdle(t, s)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"granted", "granted", "granted"}, second, "an observer that ends the goroutine takes the event along")
	require.EqualValues(t, 3, s.Stats().HookPanics)
}

// An observer may call the scheduler, as long as it likes.
func TestObserverCallsTheScheduler(t *testing.T) {
	t.Parallel()
	var s *sched.Scheduler
	var mu sync.Mutex
	again := 0
	s = newScheduler(t, sched.Config{}, sched.WithObserver(func(e sched.Event) {
		if e.Kind != sched.EventReleased || again == 5 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		again++
		if b, err := s.Schedule(context.Background(), &sched.Request{ID: fmt.Sprint("again", again)}); err == nil {
			_ = b.Release()
		}
	}))
	addWorkers(t, s, 1)
	require.NoError(t, schedule(t, s, sched.Request{ID: "first"}).Release())
	requireIdle(t, s)
	require.EqualValues(t, 6, s.Stats().Admitted)
}

// Whatever happens at the same time, the events of each request are a story: it
// may be queued, then it is rejected, or granted and ended once.
func TestEventsOfEachRequestAreInOrder(t *testing.T) {
	t.Parallel()
	const callers, rounds = 16, 60
	stories := make(map[string][]sched.EventKind) // the observers' goroutine's
	s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), EventBuffer: 1 << 20},
		sched.WithObserver(func(e sched.Event) { stories[e.Request] = append(stories[e.Request], e.Kind) }))
	addWorkers(t, s, 4)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(c)))
			for i := range rounds {
				ctx, cancel := context.WithCancel(context.Background())
				if rnd.IntN(4) == 0 {
					go cancel()
				}
				b, err := s.Schedule(ctx, &sched.Request{ID: fmt.Sprint(c, "-", i), ISL: 10})
				if err == nil {
					_ = b.PrefillDone()
					_, _ = b.Transfer(rank(1 + rnd.Uint64N(4)))
					_ = b.Release()
				}
				cancel()
			}
		})
	}
	for i := range rounds {
		_ = s.RemoveWorker(4)
		_ = s.UpsertWorker(sched.Worker{ID: 4, Ranks: 1})
		if i%10 == 0 {
			runtime.Gosched()
		}
	}
	all.Wait()
	requireIdle(t, s)
	require.Zero(t, s.Stats().EventsDropped)
	ended := 0
	for id, kinds := range stories {
		story := kinds
		if kinds[0] == sched.EventQueued {
			kinds = kinds[1:]
		}
		require.NotEmpty(t, kinds, "%s: %v", id, story)
		if kinds[0] == sched.EventRejected {
			require.Len(t, kinds, 1, "%s: %v", id, story)
			continue
		}
		ended++
		require.Equal(t, sched.EventGranted, kinds[0], "%s: %v", id, story)
		require.True(t, kinds[len(kinds)-1].Ended(), "%s: %v", id, story)
		for _, k := range kinds[1 : len(kinds)-1] {
			require.Contains(t, []sched.EventKind{sched.EventPrefillDone, sched.EventTransferred}, k, "%s: %v", id, story)
		}
	}
	require.Len(t, stories, callers*rounds)
	require.EqualValues(t, s.Stats().Admitted, ended)
}

// What is pushed while the goroutine is about to end is told, though nobody comes by
// after that: the virtual clock would jump to the end of the context.
func TestNoEventIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := make(chan sched.Event, 4)
		s := newScheduler(t, sched.Config{}, sched.WithObserver(func(e sched.Event) { told <- e }))
		addWorkers(t, s, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for round := range hammerRounds() {
			var wg sync.WaitGroup
			for _, id := range []string{"a", "b"} {
				wg.Go(func() {
					b, err := s.Schedule(ctx, &sched.Request{ID: id})
					if assert.NoError(t, err) {
						assert.NoError(t, b.Release())
					}
				})
				for range round % 8 {
					runtime.Gosched()
				}
			}
			wg.Wait()
			for n := range 4 {
				select {
				case <-told:
				case <-ctx.Done():
					t.Fatalf("round %d: %d of 4 events told", round, n)
				}
			}
		}
		requireIdle(t, s)
	})
}

func TestEventKinds(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for k := sched.EventQueued; k <= sched.EventLeaked; k++ {
		require.NotEqual(t, "unknown", k.String())
		seen[k.String()] = true
	}
	require.Len(t, seen, 9)
	require.Equal(t, "unknown", sched.EventKind(0).String())
	require.Equal(t, "unknown", sched.EventKind(77).String())
	require.False(t, sched.EventGranted.Ended())
}

// Not parallel: AllocsPerRun counts for the whole process.
func TestObserverAllocationBudget(t *testing.T) {
	if invariants.Enabled {
		t.Skip("sync.Pool drops at random under the race detector")
	}
	for _, tt := range []struct {
		name   string
		opts   []sched.Option
		allocs float64
	}{
		// The record and its place in the id map; with an observer its life as well.
		{"logger", []sched.Option{sched.WithLogger(discarding())}, 2},
		{"observer", []sched.Option{sched.WithObserver(func(sched.Event) {})}, 3},
	} {
		s := newScheduler(t, sched.Config{}, tt.opts...)
		addWorkers(t, s, 16)
		r := sched.Request{ID: "r", ISL: 100}
		assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
			b, _ := s.Schedule(context.Background(), &r)
			_ = b.Release()
		}), tt.allocs+2, tt.name) // and what starting the goroutine takes, twice
		requireIdle(t, s)
	}
}

func BenchmarkObserved(b *testing.B) {
	for name, opts := range map[string][]sched.Option{
		"nobody": nil, "observer": {sched.WithObserver(func(sched.Event) {})}, "hook": {sched.WithDecisionHook(func(sched.Decision) {})},
	} {
		b.Run(name, func(b *testing.B) {
			s := newScheduler(b, sched.Config{}, opts...)
			addWorkers(b, s, 16)
			b.ReportAllocs()
			for b.Loop() {
				booking, err := s.Schedule(context.Background(), &sched.Request{ID: "r", ISL: 384})
				if err != nil {
					b.Fatal(err)
				}
				_ = booking.Release()
			}
			b.ReportMetric(float64(s.Stats().EventsDropped)/float64(b.N), "dropped/op")
			requireIdle(b, s)
		})
	}
}
