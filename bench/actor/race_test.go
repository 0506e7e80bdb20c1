package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/internal/testkit"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func repetitions(full int) int {
	if testing.Short() {
		return full / 10
	}
	return full
}

// A caller leaves at the moment at which it is granted: it has the booking, or
// nobody has.
func TestCancellationRacesTheGrant(t *testing.T) {
	eachForm(t, func(t *testing.T, config actor.Config) {
		ctx := testkit.WithTimeout(t)
		e := start(t, config, queueing, 1)
		granted := 0
		for i := range repetitions(3000) {
			hold, err := e.Schedule(ctx, &sched.Request{ID: "hold", ISL: 1})
			require.NoError(t, err)
			waiter, leave := context.WithCancel(ctx)
			var wg sync.WaitGroup
			wg.Go(func() {
				b, err := e.Schedule(waiter, &sched.Request{ID: "waiter", ISL: 1})
				if err == nil {
					granted++
					assert.NoError(t, b.Release())
					return
				}
				assert.ErrorIs(t, err, sched.ErrCanceled)
				assert.ErrorIs(t, err, context.Canceled)
			})
			if i%2 == 0 {
				for e.Stats().Classes[0].Pending == 0 {
					runtime.Gosched()
				}
			}
			// The goroutine started last tends to run first.
			free := func() { assert.NoError(t, hold.Release()) }
			if i%4 < 2 {
				wg.Go(free)
				wg.Go(leave)
			} else {
				wg.Go(leave)
				wg.Go(free)
			}
			wg.Wait()
			require.Zero(t, e.Stats().Live)
		}
		testkit.RequireIdle(t, e)
		t.Logf("%d granted", granted)
	})
}

// With the actor held up and the channel full, a caller leaves when its context
// ends, and afterwards everything goes on.
func TestAFullChannelHoldsNobody(t *testing.T) {
	eachForm(t, func(t *testing.T, config actor.Config) {
		synctest.Test(t, func(t *testing.T) {
			ctx := testkit.WithTimeout(t)
			busy, goOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			config.Buffer = 2
			config.OnDecision = func(sched.Decision) {
				once.Do(func() {
					close(busy)
					<-goOn
				})
			}
			e := start(t, config, "", 1)
			var wg sync.WaitGroup
			schedule := func(id string) {
				wg.Go(func() {
					b, err := e.Schedule(ctx, &sched.Request{ID: id})
					if assert.NoError(t, err) {
						assert.NoError(t, b.Release())
					}
				})
			}
			schedule("first")
			<-busy
			for i := range 8 {
				schedule(fmt.Sprint(i))
			}
			synctest.Wait() // they fill the channel and wait for room
			for range 3 {
				brief, cancel := context.WithTimeout(ctx, time.Millisecond)
				_, err := e.Schedule(brief, &sched.Request{ID: "brief"})
				require.ErrorIs(t, err, sched.ErrDeadline)
				require.Error(t, e.Settle(brief))
				cancel()
			}
			close(goOn)
			wg.Wait()
			testkit.RequireIdle(t, e)
			require.EqualValues(t, 9, e.Stats().Admitted)
			require.Equal(t, map[string]int64{"deadline": 3}, e.Stats().Rejected)
		})
	})
}

// With a threshold of 0 no rank ever gets a second prefill, and everyone runs.
func TestThresholdHoldsUnderABurst(t *testing.T) {
	eachForm(t, func(t *testing.T, config actor.Config) {
		ctx := testkit.WithTimeout(t)
		e := start(t, config, queueing, 8)
		var running [9]atomic.Int64
		var wg sync.WaitGroup
		for i := range repetitions(2000) {
			wg.Go(func() {
				b, err := e.Schedule(ctx, &sched.Request{ID: fmt.Sprint(i), ISL: 100})
				if !assert.NoError(t, err) {
					return
				}
				rank := b.Placement().Rank.Worker
				assert.EqualValues(t, 1, running[rank].Add(1), "prefills on worker %d", rank)
				runtime.Gosched()
				running[rank].Add(-1)
				assert.NoError(t, b.PrefillDone())
				assert.NoError(t, b.Release())
			})
		}
		wg.Wait()
		testkit.RequireIdle(t, e)
	})
}

// Everything at once; afterwards nothing is left.
func TestStorm(t *testing.T) {
	eachForm(t, func(t *testing.T, config actor.Config) {
		ctx := testkit.WithTimeout(t)
		config.BookingTTL = 20 * time.Millisecond
		e := start(t, config, mixed, 4)
		classes := []string{"f", "never", "open", "half"}
		var callers sync.WaitGroup
		for caller := range 16 {
			callers.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(caller)))
				for i := range repetitions(400) {
					storm(ctx, t, e, rnd, fmt.Sprintf("%d-%d", caller, i), classes[rnd.IntN(len(classes))])
				}
			})
		}
		stop := make(chan struct{})
		var editor sync.WaitGroup
		editor.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				assert.NoError(t, e.SetOverloaded([]uint64{uint64(i%3 + 1)}))
				assert.NoError(t, e.RemoveWorker(4))
				assert.NoError(t, e.UpsertWorker(sched.Worker{ID: 4, Ranks: 1}))
				assert.NoError(t, e.SetProfileYAML([]byte([]string{mixed, queueing}[i%2])))
				assert.NoError(t, e.Recheck(ctx))
				time.Sleep(100 * time.Microsecond)
			}
		})
		callers.Wait()
		close(stop)
		editor.Wait()
		require.Eventually(t, func() bool { return e.Stats().Live == 0 }, time.Minute, time.Millisecond)
		testkit.RequireIdle(t, e)
	})
}

// storm makes one request and what follows from it.
func storm(ctx context.Context, t *testing.T, e *actor.Engine, rnd *rand.Rand, id, class string) {
	brief, cancel := context.WithTimeout(ctx, time.Duration(rnd.IntN(2000))*time.Microsecond)
	defer cancel()
	r := &sched.Request{ID: id, ISL: 64, Class: class, Blocks: []uint64{1, 2, rnd.Uint64() % 4, rnd.Uint64()}}
	if rnd.IntN(4) == 0 {
		r.Pin = &sched.RankID{Worker: rnd.Uint64()%4 + 1}
	}
	if rnd.IntN(4) == 0 {
		_, _ = e.Select(brief, r)
		_, _ = e.Query(brief, r)
	}
	b, err := e.Schedule(brief, r)
	if err != nil {
		var detail *sched.Error
		assert.ErrorAs(t, err, &detail)
		return
	}
	ended := func(err error) bool {
		return err == nil || errors.Is(err, sched.ErrUnchanged) || errors.Is(err, sched.ErrNoEndpoints)
	}
	assert.True(t, ended(b.AddOutputBlock()))
	_, err = b.Transfer(sched.RankID{Worker: rnd.Uint64()%4 + 1})
	assert.True(t, ended(err), err)
	assert.True(t, ended(b.PrefillDone()))
	if rnd.IntN(8) > 0 { // the others expire
		assert.True(t, ended(b.Release()))
	}
}

// Close comes while callers come and go.
func TestCloseRacesTheCallers(t *testing.T) {
	eachForm(t, func(t *testing.T, config actor.Config) {
		ctx := testkit.WithTimeout(t)
		for range repetitions(200) {
			e := start(t, config, queueing, 1)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for {
						b, err := e.Schedule(ctx, &sched.Request{ID: fmt.Sprint(i), ISL: 1})
						if err != nil {
							assert.ErrorIs(t, err, sched.ErrClosed)
							return
						}
						assert.NoError(t, b.Release())
					}
				})
			}
			wg.Go(func() {
				runtime.Gosched()
				assert.NoError(t, e.Close())
			})
			wg.Wait()
			testkit.RequireIdle(t, e)
		}
	})
}
