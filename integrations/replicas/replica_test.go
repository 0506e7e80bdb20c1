package replicas_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
	"github.com/seed-3c5df8a4/turnstile/internal/testkit"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway is a replica with its scheduler.
type gateway struct {
	*replicas.Replica
	s *sched.Scheduler
}

func open(t testing.TB, transport replicas.Transport, name string, ranks int) *gateway {
	t.Helper()
	r, err := replicas.New(replicas.Config{Name: name, Transport: transport, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	s := scheduler(t, ranks, sched.WithFleet(r))
	require.NoError(t, r.Join(t.Context(), s))
	return &gateway{r, s}
}

// scheduler returns one before so many ranks, each of which is busy with any prefill.
func scheduler(t testing.TB, ranks int, opts ...sched.Option) *sched.Scheduler {
	t.Helper()
	return testkit.Scheduler(t, sched.Config{Policy: testkit.Policy(t, testkit.Queueing)}, ranks, opts...)
}

func (g *gateway) book(t testing.TB, id string, worker uint64) *sched.Booking {
	t.Helper()
	b, err := g.s.Schedule(t.Context(), &sched.Request{ID: id, ISL: 64, Pin: &sched.RankID{Worker: worker}, DoNotQueue: true})
	require.NoError(t, err)
	return b
}

// elsewhere is the number of requests that a scheduler counts for others.
func (g *gateway) elsewhere() (requests int64) {
	for _, l := range g.s.Loads() {
		requests += l.Peers.Requests
	}
	return requests
}

func TestReplicasSeeEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var network replicas.Network
		a := open(t, network.Join("a"), "a", 3)
		b := open(t, network.Join("b"), "b", 3)
		require.True(t, b.Stats().Ready)
		booking := a.book(t, "1", 2)
		time.Sleep(2 * time.Millisecond)
		require.EqualValues(t, 64, b.s.Loads()[1].Peers.PrefillTokens)
		e, err := b.s.Explain(&sched.Request{ISL: 10})
		require.NoError(t, err)
		require.True(t, e.Ranks[1].Busy[0].Busy)

		// One that comes has all before it is there.
		c := open(t, network.Join("c"), "c", 3)
		require.EqualValues(t, 1, c.elsewhere())
		require.Len(t, c.Stats().Peers, 2)

		// A request that waits at a peer runs when the rank is free.
		held := []*sched.Booking{c.book(t, "2", 1), c.book(t, "3", 3)}
		time.Sleep(2 * time.Millisecond)
		admitted := make(chan *sched.Booking)
		go func() {
			b, err := b.s.Schedule(context.Background(), &sched.Request{ID: "4", ISL: 10})
			if err != nil {
				t.Error(err)
			}
			admitted <- b
		}()
		synctest.Wait()
		require.EqualValues(t, 1, b.s.Stats().Waiting)
		require.NoError(t, booking.PrefillDone())
		waited := <-admitted
		require.EqualValues(t, 2, waited.Placement().Rank.Worker)

		for _, b := range append(held, booking, waited) {
			require.NoError(t, b.Release())
		}
		time.Sleep(2 * time.Millisecond)
		for _, g := range []*gateway{a, b, c} {
			require.Zero(t, g.elsewhere())
		}
		booking = a.book(t, "5", 1)
		time.Sleep(2 * time.Millisecond)
		require.EqualValues(t, 1, b.elsewhere())
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		time.Sleep(time.Millisecond)
		require.Zero(t, b.elsewhere(), "said good-bye")
		require.NoError(t, booking.Release())
		require.NoError(t, b.Close())
		require.NoError(t, c.Close())
	})
}

// A replica that is cut off is dropped after 1.5 s, goes on alone, and is back when the
// way is; one that starts again replaces the one before.
func TestReplicaThatIsCutOffOrStartsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		cut := false
		network := replicas.Network{Route: func(_, _ string) (time.Duration, bool) {
			mu.Lock()
			defer mu.Unlock()
			return time.Millisecond, cut
		}}
		a := open(t, network.Join("a"), "a", 2)
		b := open(t, network.Join("b"), "b", 2)
		one := a.book(t, "1", 1)
		time.Sleep(3 * time.Millisecond)
		require.EqualValues(t, 1, b.elsewhere())
		set := func(v bool) { mu.Lock(); cut = v; mu.Unlock() }
		set(true)
		time.Sleep(1200 * time.Millisecond)
		require.EqualValues(t, 1, b.elsewhere())
		time.Sleep(400 * time.Millisecond)
		require.Zero(t, b.elsewhere())
		require.Empty(t, b.Stats().Peers)
		require.EqualValues(t, 1, b.Stats().Died)
		require.NoError(t, b.book(t, "2", 1).Release(), "alone")
		set(false)
		time.Sleep(300 * time.Millisecond)
		require.EqualValues(t, 1, b.elsewhere(), "all of it is back after a beat")

		again := open(t, network.Join("a"), "a", 2) // the one before has not died yet
		again.book(t, "9", 2)
		time.Sleep(3 * time.Millisecond)
		require.EqualValues(t, 1, b.elsewhere())
		require.EqualValues(t, 1, b.s.Loads()[1].Peers.Requests)
		require.Positive(t, again.Stats().Namesakes)
		require.NoError(t, one.Release())
		for _, g := range []*gateway{a, b, again} {
			require.NoError(t, g.Close())
		}
	})
}

// Over a network that delays, loses and reorders, with replicas that start again, all
// views are exactly zero when all is released.
func TestReplicasEndWithZero(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			faults := rand.New(rand.NewPCG(seed, 8)) // under the network's lock
			quiet := false
			network := replicas.Network{}
			var mu sync.Mutex
			network.Route = func(_, _ string) (time.Duration, bool) {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(faults.IntN(5000)) * time.Microsecond, !quiet && faults.IntN(10) == 0
			}
			names := []string{"a", "b", "c"}
			gateways := make([]*gateway, len(names))
			for i, name := range names {
				gateways[i] = open(t, network.Join(name), name, 8)
			}
			bookings := make([][]*sched.Booking, len(names))
			for i := range 2000 {
				at := rnd.IntN(len(names))
				g := gateways[at]
				switch n := rnd.IntN(1000); {
				case n < 400:
					b, err := g.s.Schedule(t.Context(), &sched.Request{ID: fmt.Sprint(i), ISL: 1 + rnd.Int64N(50), DoNotQueue: true})
					if err == nil {
						bookings[at] = append(bookings[at], b)
					} else {
						require.ErrorIs(t, err, sched.ErrWouldQueue)
					}
				case n < 900 && len(bookings[at]) > 0:
					last := len(bookings[at]) - 1
					require.NoError(t, bookings[at][last].Release())
					bookings[at] = bookings[at][:last]
				case n == 999:
					require.NoError(t, g.Close())
					gateways[at], bookings[at] = open(t, network.Join(names[at]), names[at], 8), nil
				default:
					time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
				}
			}
			for i := range bookings {
				for _, b := range bookings[i] {
					require.NoError(t, b.Release())
				}
			}
			mu.Lock()
			quiet = true
			mu.Unlock()
			time.Sleep(time.Second)
			for _, g := range gateways {
				for _, l := range g.s.Loads() {
					require.Zero(t, l.PrefillTokens|l.Blocks|l.Requests|l.Peers.Requests, "%s: %+v", g.Stats().Name, l)
				}
				require.Len(t, g.Stats().Peers, 2)
			}
			for _, g := range gateways {
				require.NoError(t, g.Close())
			}
		})
	}
}

func TestReplicaConfig(t *testing.T) {
	t.Parallel()
	_, err := replicas.New(replicas.Config{DeadAfter: time.Millisecond})
	require.ErrorContains(t, err, "name")
	require.ErrorContains(t, err, "transport")
	require.ErrorContains(t, err, "DeadAfter")

	var network replicas.Network
	r, err := replicas.New(replicas.Config{Name: "a", Transport: network.Join("a"), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	r.Changed() // before Join: only noted
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := scheduler(t, 1, sched.WithFleet(r))
	require.ErrorIs(t, r.Join(ctx, s), context.Canceled)
	require.Error(t, r.Join(t.Context(), s))
	require.NoError(t, r.Close())
}

// Nonsense from the network is counted, and a transport that ends leaves the replica
// alone.
func TestReplicaOnABadTransport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var network replicas.Network
		bad, transport := network.Join("bad"), network.Join("a")
		a := open(t, transport, "a", 1)
		require.NoError(t, bad.Broadcast([]byte("nonsense")))
		require.NoError(t, bad.Send("a", nil)) // the connection is back
		time.Sleep(time.Millisecond)
		require.EqualValues(t, 1, a.Stats().Malformed)
		require.NoError(t, bad.Close())
		require.NoError(t, transport.Close())
		require.ErrorIs(t, transport.Close(), replicas.ErrClosed)
		time.Sleep(time.Second)
		require.Positive(t, a.Stats().Failed)
		require.NoError(t, a.book(t, "1", 1).Release())
		require.ErrorIs(t, a.Close(), replicas.ErrClosed)
	})
}
