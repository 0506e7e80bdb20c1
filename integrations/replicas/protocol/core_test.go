package protocol

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every order, loss and repetition of what two or three replicas say while they change
// what they cause, one of them starts again, and the time for asking passes: what is
// held never goes back to older news (the world checks), and once messages arrive again
// all is exact.
func TestExploreLossOrderAndRepetition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ replicas, depth, short int }{{2, 5, 4}, {3, 5, 4}} {
		depth := c.depth
		if testing.Short() {
			depth = c.short
		}
		runs := 0
		var path []int
		for {
			runs++
			branches := explore(t, c.replicas, depth, path)
			// The next path, as an odometer whose wheels have as many digits as there
			// were choices.
			path = path[:0]
			for _, b := range branches {
				path = append(path, b.taken)
			}
			at := len(branches) - 1
			for at >= 0 && branches[at].taken+1 == branches[at].of {
				at--
			}
			if at < 0 {
				break
			}
			path = append(path[:at], branches[at].taken+1)
		}
		t.Logf("%d replicas: %d runs", c.replicas, runs)
		require.Greater(t, runs, 100)
	}
}

type branch struct{ taken, of int }

func explore(t *testing.T, replicas, depth int, path []int) (branches []branch) {
	w := newWorld(replicas)
	w.rest(time.Millisecond) // greeted; what is explored comes after
	rank := Rank{Worker: 1}
	left := []int64{5, 0, 7} // what A causes one after the other
	restarted := false
	for step := range depth {
		type choice func()
		var choices []choice
		if len(left) > 0 {
			choices = append(choices, func() {
				w.set(0, rank, left[0])
				left = left[1:]
				w.now += time.Millisecond
				w.tick(0)
			})
		}
		if !restarted {
			choices = append(choices, func() {
				restarted = true
				w.start(0)
			})
		}
		choices = append(choices, func() { // time passes: beats, and what is asked for
			w.now += 250 * time.Millisecond
			for i := range w.replicas {
				w.tick(i)
			}
		})
		for at := range min(len(w.flying), 3) {
			choices = append(choices,
				func() { w.deliver(w.take(at)) },
				func() { w.take(at) },
				func() { w.deliver(w.flying[at]) })
		}
		taken := 0
		if step < len(path) {
			taken = path[step]
		}
		branches = append(branches, branch{taken, len(choices)})
		choices[taken]()
	}
	w.restBy(600*time.Millisecond, 20*time.Millisecond)
	if err := w.differs(); err != nil {
		t.Fatalf("path %v: %v", branches, err)
	}
	return branches
}

// Long runs over a network that loses, repeats and reorders, with replicas that start
// again, freeze and die.
func TestFaultyNetworkHeals(t *testing.T) {
	t.Parallel()
	seeds := 60
	if testing.Short() {
		seeds = 12
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		w := newWorld(2 + rnd.IntN(3))
		for range 600 {
			w.now += time.Duration(rnd.IntN(5)) * time.Millisecond
			i := rnd.IntN(len(w.replicas))
			switch n := rnd.IntN(100); {
			case n < 40 && !w.replicas[i].dead:
				w.set(i, Rank{Worker: uint64(rnd.IntN(6))}, rnd.Int64N(3))
			case n == 40:
				w.start(i)
			case n == 41 && i > 0:
				w.replicas[i].dead = true
			case n == 42:
				w.now += time.Duration(rnd.IntN(2000)) * time.Millisecond // all stood still
			}
			for i := range w.replicas {
				if rnd.IntN(3) > 0 {
					w.tick(i)
				}
			}
			for range rnd.IntN(8) {
				if len(w.flying) == 0 {
					break
				}
				at := rnd.IntN(len(w.flying))
				switch n := rnd.IntN(100); {
				case n < 15:
					w.take(at)
				case n < 25:
					w.deliver(w.flying[at])
				default:
					w.deliver(w.take(at))
				}
			}
		}
		w.rest(2200 * time.Millisecond)
		require.NoError(t, w.differs(), "seed %d", seed)
		for _, r := range w.replicas {
			require.True(t, r.dead || r.core.Ready())
		}
	}
}

func TestNewcomerHasAll(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	for i := range 5000 { // more than one piece of a State, and than a Batch
		w.set(0, Rank{Worker: uint64(i)}, 1)
	}
	w.rest(time.Second)
	require.NoError(t, w.differs())
	w.replicas = append(w.replicas, &replica{name: "C"})
	begun := w.now
	w.start(2)
	for !w.replicas[2].core.Ready() {
		w.rest(time.Millisecond)
	}
	require.NoError(t, w.differs())
	require.LessOrEqual(t, w.now-begun, 45*time.Millisecond)
	require.Zero(t, w.replicas[2].core.Stats(w.now).Gaps)
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	alone := newWorld(1)
	alone.rest(285 * time.Millisecond)
	require.False(t, alone.replicas[0].core.Ready(), "a peer may beat yet")
	alone.rest(20 * time.Millisecond)
	require.True(t, alone.replicas[0].core.Ready())

	// A peer that is heard but never answers: one second.
	c := New(Config{Name: "me", Incarnation: 1})
	c.Start(0)
	for now := time.Duration(0); now < time.Second; now += 10 * time.Millisecond {
		c.Receive(now, &Message{Kind: Beat, From: "mute", Incarnation: 1, Number: 5})
		c.Tick(now)
		require.False(t, c.Ready())
	}
	c.Tick(time.Second)
	require.True(t, c.Ready())
}

// The dead and those who said Bye go in one step, and late words of theirs change
// nothing; one who was only silent comes back.
func TestPeersThatGo(t *testing.T) {
	t.Parallel()
	w := newWorld(3)
	for i := range w.replicas {
		w.set(i, Rank{Worker: uint64(i)}, 10)
	}
	w.rest(100 * time.Millisecond)
	require.NoError(t, w.differs())
	w.did(1, w.replicas[1].core.Close())
	require.Empty(t, w.replicas[1].columns)
	late := flight{0, (&Message{Kind: Beat, From: "B", Incarnation: 2, Number: 1}).Append(nil)}
	w.replicas[1].dead = true
	w.rest(time.Millisecond)
	require.NoError(t, w.differs(), "at once")
	w.deliver(late)
	require.NoError(t, w.differs())
	require.EqualValues(t, 1, w.replicas[0].core.Stats(w.now).Stale)
	w.start(1)
	w.rest(100 * time.Millisecond)
	require.NoError(t, w.differs(), "another incarnation is another")

	w.replicas[2].dead = true // silent
	w.rest(1400 * time.Millisecond)
	require.Error(t, w.differs())
	w.rest(300 * time.Millisecond)
	require.NoError(t, w.differs())
	require.EqualValues(t, 1, w.replicas[0].core.Stats(w.now).Died)
	w.replicas[2].dead = false
	w.rest(300 * time.Millisecond)
	require.NoError(t, w.differs())
}

// A peer that says what cannot be harms its own column and nothing else.
func TestHostilePeer(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	w.set(0, Rank{Worker: 1}, 10)
	w.set(1, Rank{Worker: 1}, 20)
	w.rest(100 * time.Millisecond)
	rnd := rand.New(rand.NewPCG(1, 2))
	huge := []uint64{0, 1, 2, math.MaxInt64, math.MaxUint64 - 1, math.MaxUint64}
	one := func() uint64 { return huge[rnd.IntN(len(huge))] }
	for i := range 3000 {
		m := Message{
			Kind: Kind(1 + rnd.IntN(int(kinds)-1)), From: fmt.Sprint("bad", rnd.IntN(400)), Incarnation: one(),
			Number: one(), Digest: one(), Parts: uint32(rnd.IntN(3)),
		}
		for range rnd.IntN(20) {
			m.Loads = append(m.Loads, Load{
				Rank: Rank{one(), uint32(one())}, Prefill: int64(one() >> 1), Blocks: int64(one() >> 1), Version: one(),
			})
		}
		w.deliver(flight{i % 2, m.Append(nil)})
		if i%100 == 0 {
			w.rest(2 * time.Millisecond)
		}
	}
	w.rest(4 * time.Second) // the strangers are dead
	require.NoError(t, w.differs())
	require.Len(t, w.replicas[0].core.Stats(w.now).Peers, 1)
	require.Positive(t, w.replicas[0].core.Stats(w.now).Refused)
}

// Changes within a millisecond are one Batch; what has not changed is not told; a load
// that fades is collected again by itself.
func TestBatching(t *testing.T) {
	t.Parallel()
	c := New(Config{Name: "me", Incarnation: 1})
	c.Start(0)
	c.Changed()
	require.True(t, c.Tick(0).Collect, "the first at once")
	load := Load{Rank: Rank{Worker: 1}, Prefill: 5}
	require.Len(t, c.Loads(0, []Load{load}, false).Send, 1)
	c.Changed()
	require.False(t, c.Tick(time.Millisecond/2).Collect)
	require.Equal(t, time.Millisecond, c.Next())
	require.True(t, c.Tick(time.Millisecond).Collect)
	require.Empty(t, c.Loads(time.Millisecond, []Load{load, {Rank: Rank{Worker: 2}}}, true).Send, "nothing new")
	require.False(t, c.Tick(50*time.Millisecond).Collect)
	require.True(t, c.Tick(51*time.Millisecond).Collect)
}

// Blocks alone are told at most each 50 ms, with all else when that is told.
func TestBlocksAloneWait(t *testing.T) {
	t.Parallel()
	c := New(Config{Name: "me", Incarnation: 1})
	c.Start(0)
	load := Load{Rank: Rank{Worker: 1}, Blocks: 1, Requests: 1}
	require.Len(t, c.Loads(0, []Load{load}, false).Send, 1)
	other := Load{Rank: Rank{Worker: 2}, Blocks: 1, Requests: 1}
	load.Blocks = 2
	require.Empty(t, c.Loads(10*time.Millisecond, []Load{load}, false).Send)
	load.Blocks = 3
	require.Empty(t, c.Loads(11*time.Millisecond, []Load{load}, false).Send)
	out := c.Loads(12*time.Millisecond, []Load{other}, false)
	require.Len(t, out.Send, 1)
	require.Len(t, out.Send[0].Loads, 2)
	require.EqualValues(t, 3, out.Send[0].Loads[0].Blocks)
	load.Blocks = 4
	require.Empty(t, c.Loads(20*time.Millisecond, []Load{load}, false).Send)
	c.lookReady(time.Second)
	require.Equal(t, 70*time.Millisecond, c.Next())
	require.Empty(t, batches(c.Tick(69*time.Millisecond)))
	require.Len(t, batches(c.Tick(70*time.Millisecond)), 1)
	load.Blocks = 5
	require.Empty(t, c.Loads(80*time.Millisecond, []Load{load}, false).Send)
	load.Blocks = 4 // as told
	require.Empty(t, c.Loads(81*time.Millisecond, []Load{load}, false).Send)
	require.Empty(t, batches(c.Tick(130*time.Millisecond)))
}

func batches(out Output) (batches []Message) {
	for _, m := range out.Send {
		if m.Kind == Batch {
			batches = append(batches, m)
		}
	}
	return batches
}

// A replica that stood still does not take for dead whom it has not read yet.
func TestOneThatStoodStill(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	w.set(0, Rank{Worker: 1}, 5)
	w.rest(100 * time.Millisecond)
	w.now += 10 * time.Second
	w.tick(1)
	require.NoError(t, w.differs(), "its words come yet")
	w.rest(time.Second)
	require.NoError(t, w.differs())
	w.now += 10 * time.Second
	w.replicas[0].dead = true
	w.rest(600 * time.Millisecond)
	require.NoError(t, w.differs(), "they did not come")
}

// A replica of the same name elsewhere is told of, and not heard.
func TestNamesake(t *testing.T) {
	t.Parallel()
	c := New(Config{Name: "me", Incarnation: 1})
	c.Start(0)
	out := c.Receive(0, &Message{Kind: Batch, From: "me", Incarnation: 2, Number: 1, Loads: []Load{{Prefill: 1, Version: 1}}})
	require.Empty(t, out.Effects)
	require.EqualValues(t, 1, c.Stats(0).Namesakes)
}

// Old news of a rank that has had no load since, which is forgotten, are known as old.
func TestLateNewsOfForgottenRank(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	w.rest(50 * time.Millisecond)
	w.set(0, Rank{Worker: 1}, 5)
	w.tick(0)
	late := w.flying[0]
	w.rest(5 * time.Millisecond)
	w.set(0, Rank{Worker: 1}, 0)
	w.rest(300 * time.Millisecond) // with a Beat
	require.Empty(t, w.replicas[1].core.peers["A"].column, "forgotten")
	w.deliver(late)
	require.NoError(t, w.differs())
}
