package kvevents_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents"
	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents/publish"
)

// world is one engine, its publisher, and an index that follows it, in a bubble.
type world struct {
	t      *testing.T
	net    network
	x      *kvevents.Index
	e      *engine
	p      *publish.Publisher
	source kvevents.Source
	ts     float64
	lives  uint64
	ring   int
	// identity is that of the next life, if publishers say theirs.
	identity []byte
	cancel   func()
	done     sync.WaitGroup
	err      error
}

// inWorld runs a story in a world whose engine repeats up to ring batches, and sees to it
// that nothing is left of it.
func inWorld(t *testing.T, ring int, story func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, x: newIndex(t, kvevents.Config{}), ring: ring}
		w.x.DialWith(w.net.dial)
		defer func() { // a story that has failed leaves the bubble as clean as one that has not
			w.stop()
			if w.cancel != nil {
				w.cancel()
			}
			w.done.Wait()
		}()
		w.source = kvevents.Source{Rank: one, Events: "tcp://e:1", Replay: "tcp://e:2"}
		w.start()
		story(t, w)
		w.stop()
		w.cancel()
		w.done.Wait()
		require.NoError(t, w.err)
		require.Empty(t, w.x.Stats(), "what is not followed is forgotten")
		require.Zero(t, w.x.Entries())
	})
}

// start begins a life of the engine.
func (w *world) start() {
	w.lives++
	w.e = newEngine(w.lives, 4, int(w.lives), 1000)
	w.p = publish.New(w.ring)
	if w.lives%2 != 0 {
		w.p.OmitTopic()
	}
	w.p.Identify(w.identity)
	w.net.set("e", w.p)
}

func (w *world) stop() {
	w.net.set("e", nil)
	w.p.Close()
}

func (w *world) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.done.Go(func() { w.err = w.x.Follow(ctx, w.source) })
	synctest.Wait()
}

// pass has time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// tell publishes events.
func (w *world) tell(heard bool, events ...any) {
	w.ts++
	if events == nil {
		events = array{}
	}
	payload := encode(w.t, array{w.ts, events, 0})
	if heard {
		w.p.Publish(payload)
	} else {
		w.p.Lose(payload)
	}
	synctest.Wait()
}

func (w *world) stats() kvevents.RankStats {
	w.t.Helper()
	all := w.x.Stats()
	require.Len(w.t, all, 1)
	return all[0]
}

func (w *world) held(prompt []uint32) int { return 4 * held(w.x, one, kvevents.Namespace{}, prompt) }

func TestFollowLearnsWhatWasAndWhatIs(t *testing.T) {
	t.Parallel()
	inWorld(t, 100, func(t *testing.T, w *world) {
		prompt := tokens(0, 64)
		w.tell(true, w.e.run(prompt[:16])...)
		w.follow()
		require.Equal(t, 16, w.held(prompt), "from the replay")
		require.Equal(t, kvevents.Live, w.stats().State)
		w.pass(seconds(10))
		require.Equal(t, 16, w.held(prompt), "the doubt from before has ended")
		w.tell(true, w.e.run(prompt)...)
		require.Equal(t, w.e.overlap(prompt), w.held(prompt))
		require.EqualValues(t, 1, w.stats().LastSequence)
	})
}

func TestFollowFillsGaps(t *testing.T) {
	t.Parallel()
	inWorld(t, 100, func(t *testing.T, w *world) {
		w.follow()
		prompt := tokens(0, 64)
		w.tell(true, w.e.run(prompt[:8])...)
		w.tell(false, w.e.run(prompt[:32])...)
		require.Equal(t, 8, w.held(prompt))
		w.tell(true, w.e.run(prompt)...)
		require.Equal(t, 64, w.held(prompt))
		require.EqualValues(t, 1, w.stats().Gaps)
		require.Zero(t, w.stats().Resets)

		w.tell(false, w.e.clear())
		w.pass(seconds(31)) // no later event shows the gap: the audit does
		require.Zero(t, w.held(prompt))
		require.Zero(t, w.stats().Resets)
	})
}

// TestRestartsAreToldFromCuts: whatever the new life's numbers are to the old one's.
func TestRestartsAreToldFromCuts(t *testing.T) {
	t.Parallel()
	for _, before := range []int{1, 3, 10} {
		for _, after := range []int{0, 1, 2, 3, 9, 10, 11, 30} {
			for _, identity := range []bool{false, true} {
				inWorld(t, 100, func(t *testing.T, w *world) {
					old, fresh := tokens(0, 64), tokens(1000, 64)
					w.follow()
					w.pass(seconds(1))
					for range before {
						w.tell(true, w.e.run(old)...)
					}
					w.pass(seconds(6))
					w.p.Cut()
					synctest.Wait()
					w.tell(true, w.e.run(old)...)
					w.pass(seconds(1))
					require.Equal(t, 64, w.held(old), "cut")
					require.Zero(t, w.stats().Resets, "a cut clears nothing")
					require.EqualValues(t, before, w.stats().LastSequence)

					w.stop()
					if identity {
						w.identity = []byte("0123456789abcdef")
					}
					w.start()
					for range after {
						w.tell(true, w.e.run(fresh)...)
					}
					w.pass(seconds(6))
					require.Zero(t, w.held(old), "restart")
					require.Equal(t, w.e.overlap(fresh), w.held(fresh))
					require.EqualValues(t, 1, w.stats().Resets)
				})
			}
		}
	}
}

// TestRestartBehindOneConnection: a proxy may keep the connection while the engine is
// another. The numbers show it, or the identity, or the audit.
func TestRestartBehindOneConnection(t *testing.T) {
	t.Parallel()
	inWorld(t, 100, func(t *testing.T, w *world) {
		old, fresh := tokens(0, 64), tokens(1000, 64)
		w.follow()
		for range 5 {
			w.tell(true, w.e.run(old)...)
		}
		w.p.Renew()
		w.e = newEngine(99, 4, 0, 1000)
		w.tell(true, w.e.run(fresh)...)
		require.Zero(t, w.held(old))
		require.Equal(t, 64, w.held(fresh))
		require.EqualValues(t, 1, w.stats().Resets)
	})
}

// TestIdentityTellsLives: publishers that say who they are need no fingerprint, even if
// all else is the same.
func TestIdentityTellsLives(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{false, true} {
		inWorld(t, 100, func(t *testing.T, w *world) {
			w.p.Identify([]byte("0123456789abcdef"))
			w.follow()
			old := tokens(0, 64)
			for range 3 {
				w.tell(true, w.e.run(old)...)
			}
			w.p.Identify([]byte("fedcba9876543210"))
			if cut {
				w.p.Cut()
				w.pass(seconds(1))
			} else {
				w.tell(true)
			}
			require.EqualValues(t, 1, w.stats().Resets)
		})
	}
}

func TestLostRanksStopToCount(t *testing.T) {
	t.Parallel()
	for _, mute := range []bool{false, true} {
		inWorld(t, 100, func(t *testing.T, w *world) {
			prompt := tokens(0, 64)
			w.follow()
			w.tell(true, w.e.run(prompt)...)
			if mute {
				w.p.Mute(true) // it takes connections and answers nothing
				w.p.Cut()
			} else {
				w.net.set("e", nil)
				w.p.Cut()
			}
			w.pass(seconds(4))
			require.Equal(t, 64, w.held(prompt), "in grace")
			w.pass(seconds(2))
			require.Zero(t, w.held(prompt), "after grace")
			require.NotEqual(t, kvevents.Live, w.stats().State)
			require.False(t, w.stats().Counts)
			require.Positive(t, w.stats().Blocks, "kept")

			w.p.Mute(false)
			w.net.set("e", w.p)
			w.pass(seconds(15))
			require.Equal(t, 64, w.held(prompt), "the same engine")
			require.Zero(t, w.stats().Resets)
			require.NoError(t, w.stats().Error)

			w.net.set("e", nil)
			w.p.Cut()
			w.pass(seconds(301))
			require.Zero(t, w.stats().Blocks, "forgotten")
			require.Error(t, w.stats().Error)
			w.net.set("e", w.p)
			w.pass(seconds(6))
			require.Equal(t, 64, w.held(prompt), "read anew")
		})
	}
}

func TestWithoutReplayEveryGapClears(t *testing.T) {
	t.Parallel()
	inWorld(t, 100, func(t *testing.T, w *world) {
		w.source.Replay = ""
		a, b := tokens(0, 32), tokens(1000, 32)
		w.tell(true, w.e.run(a)...)
		w.follow()
		require.Zero(t, w.held(a))
		w.e.clear()
		w.tell(true, w.e.run(a)...)
		require.Equal(t, 32, w.held(a))
		w.tell(false)
		w.tell(true, w.e.run(b)...)
		require.Zero(t, w.held(a))
		require.Equal(t, 32, w.held(b))
		w.p.Cut()
		w.pass(seconds(1))
		require.Zero(t, w.held(b))
		require.Equal(t, kvevents.Live, w.stats().State)
		require.EqualValues(t, 2, w.stats().Resets)
		w.pass(seconds(100))
	})
}

func TestGapsBeyondTheRing(t *testing.T) {
	t.Parallel()
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.follow()
		old, fresh := tokens(0, 32), tokens(1000, 32)
		w.tell(true, w.e.run(old)...)
		w.tell(false, w.e.clear())
		for range 3 {
			w.tell(false)
		}
		w.tell(true, w.e.run(fresh)...)
		require.Zero(t, w.held(old), "that it was cleared is not repeated")
		require.Equal(t, 32, w.held(fresh))
		require.EqualValues(t, 1, w.stats().Resets)
	})
}

func TestTooSlowForTheStream(t *testing.T) {
	t.Parallel()
	inWorld(t, 100, func(t *testing.T, w *world) {
		w.follow()
		prompt := tokens(0, 32)
		for range 3 {
			w.tell(true, w.e.run(prompt)...)
			w.tell(false)
		}
		w.tell(true)
		w.pass(seconds(1))
		require.Zero(t, w.held(prompt))
		require.ErrorContains(t, w.stats().Error, "three times")
		w.pass(seconds(30))
		require.Equal(t, 32, w.held(prompt))
	})
}

func TestSourcesThatCannotWork(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{})
	for _, s := range []kvevents.Source{
		{}, {Events: "127.0.0.1:5557"}, {Events: "tcp://nowhere"}, {Events: "tcp://a:1", Replay: "inproc://b"}, {Events: "ipc://"},
		{Events: "tcp://a:1", TotalKVBlocks: -1},
	} {
		require.Error(t, x.Follow(t.Context(), s), "%+v", s)
	}
	require.Empty(t, x.Stats())
	inWorld(t, 100, func(t *testing.T, w *world) {
		w.follow()
		require.ErrorIs(t, w.x.Follow(t.Context(), w.source), kvevents.ErrFollowed)
		w.tell(true, storedMap(nil, array{7}, count(0, 6), 6))
		w.done.Wait()
		require.ErrorContains(t, w.err, "blocks of 6 tokens")
		w.err = nil
	})
}

// TestHostilePublishers: whatever one sends costs its own rank's overlaps, and it gets no
// further than that.
func TestHostilePublishers(t *testing.T) {
	t.Parallel()
	prompt := tokens(0, 32)
	for name, tt := range map[string]struct {
		send func(w *world)
		want string
		left int // of the prompt
	}{
		"no batch":              {func(w *world) { w.p.Publish([]byte("garbage")) }, "decode", 0},
		"another rank":          {func(w *world) { w.p.Publish(encode(w.t, array{1, array{}, 7})) }, "another data-parallel rank: 7, want 0", 0},
		"too many blocks":       {func(w *world) { w.tell(true, storedMap(nil, count(100, 21), count(0, 84), 4)) }, "more blocks than", 0},
		"a frame of an exabyte": {func(w *world) { w.p.Raw([]byte{2, 0x10, 0, 0, 0, 0, 0, 0, 0}) }, "longer than", 32},
		"frames without end":    {func(w *world) { w.p.Raw([]byte{1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}) }, "more than 8 frames", 32},
		"one frame":             {func(w *world) { w.p.Raw([]byte{0, 1, 1}) }, "without a sequence number", 32},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 100, func(t *testing.T, w *world) {
				w.source.TotalKVBlocks = 10
				w.follow()
				w.tell(true, w.e.run(prompt)...)
				require.Equal(t, 32, w.held(prompt))
				tt.send(w)
				synctest.Wait()
				require.ErrorContains(t, w.stats().Error, tt.want)
				require.Equal(t, tt.left, w.held(prompt))
				w.pass(seconds(6))
			})
		})
	}
}

// TestForgottenRanksAreReadAnew: who follows a rank of a worker that was forgotten begins
// at the beginning.
func TestForgottenRanksAreReadAnew(t *testing.T) {
	t.Parallel()
	inWorld(t, 100, func(t *testing.T, w *world) {
		w.follow()
		prompt := tokens(0, 32)
		w.tell(true, w.e.run(prompt[:16])...)
		w.x.Forget(one.Worker)
		require.Zero(t, w.held(prompt))
		w.tell(true, w.e.run(prompt)...)
		w.pass(seconds(1))
		require.Equal(t, 32, w.held(prompt))

		w.x.Forget(one.Worker)
		w.pass(seconds(32)) // the engine is silent: the audit sees it
		require.Equal(t, 32, w.held(prompt))
	})
}

// TestRandomLivesOfAnEngine: caches that change at random, and everything that can go
// wrong between. Once it is quiet the index knows what the engine holds, and at no time
// that it was settled does it know more.
func TestRandomLivesOfAnEngine(t *testing.T) {
	t.Parallel()
	runs := 1000
	if testing.Short() {
		runs = 150
	}
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 3))
		ring := 1000
		if seed%4 == 0 {
			ring = 1 + r.IntN(6) // too short at times
		}
		inWorld(t, ring, func(t *testing.T, w *world) {
			w.stop()
			w.lives = seed * 100 // all forms of engines have their turn
			w.start()
			all := prompts(r, 8, 48)
			w.follow()
			story := ""
			check := func(exact bool) {
				for _, prompt := range all {
					truth, got := w.e.overlap(prompt), w.held(prompt)
					if got > truth || exact && got != truth {
						t.Fatalf("seed %d: held %d, told %d, %+v, after%s", seed, truth, got, w.stats(), story)
					}
				}
			}
			for range 30 {
				switch n := r.IntN(20); n {
				case 0:
					story += " cut"
					w.p.Cut()
				case 1:
					story += " restart"
					w.stop()
					w.start()
					for range r.IntN(30) {
						w.tell(true, w.e.run(all[r.IntN(len(all))])...)
					}
				case 2:
					story += " clear"
					w.tell(r.IntN(2) == 0, w.e.clear())
				case 3, 4:
					story += " loss"
					w.tell(false, w.e.run(all[r.IntN(len(all))])...)
				case 5:
					story += " mute"
					w.p.Mute(r.IntN(2) == 0)
				case 6:
					story += " pause"
					time.Sleep(time.Duration(r.IntN(12_000)) * time.Millisecond)
				case 7:
					story += " quiet"
					w.p.Mute(false)
					w.pass(seconds(120))
					check(ring == 1000)
				default:
					story += fmt.Sprint(" run", n)
					w.tell(true, w.e.run(all[r.IntN(len(all))])...)
				}
			}
			w.p.Mute(false)
			w.pass(seconds(120))
			check(ring == 1000)
		})
	}
}
