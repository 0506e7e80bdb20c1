package embedded_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
	"github.com/seed-3c5df8a4/turnstile/integrations/replicas/embedded"
	"github.com/seed-3c5df8a4/turnstile/internal/testkit"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ranks = 16

// link is the way between two nodes. Either may open a connection by it, so it has an
// address for each.
type link struct {
	mu     sync.Mutex
	doors  [2]net.Listener // of the lower node and the higher
	target [2]string       // where these lead: the route of the other
	conns  map[net.Conn]struct{}
	delay  time.Duration
	// swallow: what comes from the lower node, and from the higher, goes nowhere.
	swallow [2]bool
	closed  bool
	running sync.WaitGroup
}

func newLink(t *testing.T) *link {
	l := &link{conns: map[net.Conn]struct{}{}}
	for from := range l.doors {
		door, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		l.doors[from] = door
		l.running.Go(func() {
			for {
				in, err := door.Accept()
				if err != nil {
					return
				}
				l.running.Go(func() { l.carry(from, in) })
			}
		})
	}
	return l
}

func (l *link) carry(from int, in net.Conn) {
	defer func() { _ = in.Close() }()
	l.mu.Lock()
	target := l.target[from]
	l.mu.Unlock()
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.conns[in], l.conns[out] = struct{}{}, struct{}{}
	l.mu.Unlock()
	l.running.Go(func() { l.pump(1-from, out, in) })
	l.pump(from, in, out)
}

func (l *link) pump(from int, in, out net.Conn) {
	defer func() { _, _ = in.Close(), out.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := in.Read(buffer)
		if err != nil {
			return
		}
		l.mu.Lock()
		swallow, delay := l.swallow[from], l.delay
		l.mu.Unlock()
		if delay > 0 {
			time.Sleep(delay)
		}
		if swallow {
			continue
		}
		if _, err := out.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// set sets the link's faults.
func (l *link) set(delay time.Duration, low, high bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay, l.swallow = delay, [2]bool{low, high}
}

// drop closes the connections.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	for _, door := range l.doors {
		_ = door.Close()
	}
	l.drop()
	l.running.Wait()
}

// slow is a transport whose reader can be held.
type slow struct {
	*embedded.Node
	in   chan []byte
	gate sync.RWMutex
}

func newSlow(node *embedded.Node) *slow {
	s := &slow{Node: node, in: make(chan []byte)}
	go func() {
		defer close(s.in)
		for m := range node.Receive() {
			s.gate.RLock()
			s.gate.RUnlock() //nolint:staticcheck // passed when it is open
			s.in <- m
		}
	}()
	return s
}

func (s *slow) Receive() <-chan []byte { return s.in }

func (s *slow) Close() error {
	go func() {
		for range s.in { // who closes does not read any more
		}
	}()
	return s.Node.Close()
}

// cluster is some gateways with a link between each two.
type cluster struct {
	t        *testing.T
	links    map[[2]int]*link
	gateways []*gateway
}

type gateway struct {
	*replicas.Replica
	transport *slow
	s         *sched.Scheduler
	stop      chan struct{}
	load      sync.WaitGroup
}

func newCluster(t *testing.T, n int) *cluster {
	c := &cluster{t: t, links: map[[2]int]*link{}, gateways: make([]*gateway, n)}
	for i := range n {
		for j := range i {
			c.links[[2]int{j, i}] = newLink(t)
		}
	}
	t.Cleanup(func() {
		for _, l := range c.links {
			l.close()
		}
	})
	for i := range n {
		c.start(i)
	}
	return c
}

func (c *cluster) link(i, j int) *link { return c.links[[2]int{min(i, j), max(i, j)}] }

// start starts a gateway, with load on it.
func (c *cluster) start(i int) {
	name := string(rune('a' + i))
	config := embedded.Config{
		Name: name, Pool: "test", Secret: "secret",
		Advertise: "127.0.0.1:1", // where nobody listens: by the links or not at all
	}
	for j := range c.gateways {
		if j != i {
			l := c.link(i, j)
			config.Seeds = append(config.Seeds, l.doors[side(i, j)].Addr().String())
		}
	}
	node, err := embedded.Open(config)
	require.NoError(c.t, err)
	for j := range c.gateways {
		if j != i {
			l := c.link(i, j)
			l.mu.Lock()
			l.target[side(j, i)] = node.RouteAddr()
			l.mu.Unlock()
		}
	}
	g := &gateway{transport: newSlow(node), stop: make(chan struct{})}
	g.Replica, err = replicas.New(replicas.Config{Name: name, Transport: g.transport, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(c.t, err)
	g.s = newScheduler(c.t, sched.WithFleet(g.Replica))
	require.NoError(c.t, g.Join(c.t.Context(), g.s))
	c.gateways[i] = g
	g.load.Go(func() { g.work(c.t) })
}

// side is 0 if the first of two is the lower.
func side(i, j int) int {
	if i < j {
		return 0
	}
	return 1
}

func newScheduler(t *testing.T, opts ...sched.Option) *sched.Scheduler {
	return testkit.Scheduler(t, sched.Config{Policy: testkit.Policy(t, testkit.Queueing)}, ranks, opts...)
}

// work books and releases until it is told to stop, and then releases all.
func (g *gateway) work(t *testing.T) {
	var held []*sched.Booking
	for i := 0; ; i++ {
		select {
		case <-g.stop:
			for _, b := range held {
				_ = b.Release()
			}
			return
		case <-time.After(time.Duration(500+rand.IntN(1000)) * time.Microsecond):
		}
		if len(held) == 0 || len(held) < 4 && rand.IntN(2) == 0 {
			b, err := g.s.Schedule(t.Context(), &sched.Request{ID: fmt.Sprint(i), ISL: 100, Blocks: []uint64{1, 2, 3}, DoNotQueue: true})
			switch {
			case err == nil:
				held = append(held, b)
			case !errors.Is(err, sched.ErrWouldQueue) && t.Context().Err() == nil:
				t.Error("a request fails:", err)
			}
			continue
		}
		_ = held[0].Release()
		held = held[1:]
	}
}

func (g *gateway) quit() {
	close(g.stop)
	g.load.Wait()
}

// kill ends a gateway without a good-bye: its server goes, and then it.
func (c *cluster) kill(i int) {
	g := c.gateways[i]
	_ = g.transport.Close()
	g.quit()
	require.ErrorIs(c.t, g.Close(), replicas.ErrClosed)
}

// restart ends a gateway in order and starts it again.
func (c *cluster) restart(i int) {
	g := c.gateways[i]
	g.quit()
	require.NoError(c.t, g.Close())
	c.start(i)
}

// patience is how long anything may take. What is expected is far shorter, and logged.
const patience = 20 * time.Second

func (c *cluster) until(what string, reached func() bool) {
	c.t.Helper()
	begun := time.Now()
	for !reached() {
		if time.Since(begun) > patience {
			for _, g := range c.gateways {
				c.t.Logf("%+v", g.Stats())
			}
			c.t.Fatalf("not reached: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	c.t.Logf("%s: after %v", what, time.Since(begun).Round(time.Millisecond))
}

// sees reports whether one gateway holds all that another says.
func (c *cluster) sees(i, j int) bool {
	for _, p := range c.gateways[i].Stats().Peers {
		if p.Name == c.gateways[j].Stats().Name {
			return p.Whole
		}
	}
	return false
}

func (c *cluster) allSeeAll() bool {
	for i := range c.gateways {
		for j := range c.gateways {
			if i != j && !c.sees(i, j) {
				return false
			}
		}
	}
	return true
}

// end stops the load; then every view must come to exactly zero.
func (c *cluster) end() {
	for _, g := range c.gateways {
		g.quit()
	}
	c.until("every view is exactly zero", func() bool {
		for _, g := range c.gateways {
			for _, l := range g.s.Loads() {
				if l.PrefillTokens|l.Blocks|l.Requests|l.Peers.PrefillTokens|l.Peers.Blocks|l.Peers.Requests != 0 {
					return false
				}
			}
		}
		return c.allSeeAll()
	})
	for _, g := range c.gateways {
		require.NoError(c.t, g.Close())
	}
}

// Three servers clustered over links that delay, break, swallow everything and one way.
func TestLinksThatFail(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.until("all see all", c.allSeeAll)
	ab, ac, bc := c.link(0, 1), c.link(0, 2), c.link(1, 2)
	ab.set(5*time.Millisecond, false, false)
	time.Sleep(300 * time.Millisecond)
	c.until("with one slow link", c.allSeeAll)
	ab.set(0, false, false)
	ab.drop()
	time.Sleep(200 * time.Millisecond)
	c.until("after a connection broke", c.allSeeAll)

	ac.set(0, true, true)
	c.until("a and c have dropped each other", func() bool { return !c.sees(0, 2) && !c.sees(2, 0) })
	require.True(t, c.sees(1, 0) || c.sees(1, 2), "b is not concerned")
	ac.set(0, false, false)
	c.until("after the black hole", c.allSeeAll)

	bc.set(0, true, false)
	c.until("c does not hear b", func() bool { return !c.sees(2, 1) })
	bc.set(0, false, false)
	c.until("after the way was cut in one direction", c.allSeeAll)
	c.end()
}

// Kill, start again under the same name, freeze one reader, and start all again one by
// one, under load.
func TestReplicasThatFail(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.until("all see all", c.allSeeAll)
	c.kill(2)
	c.until("the killed one is gone", func() bool {
		return len(c.gateways[0].Stats().Peers) == 1 && len(c.gateways[1].Stats().Peers) == 1
	})
	c.start(2)
	c.until("it is back", c.allSeeAll)
	c.kill(1)
	c.start(1) // before it was taken for dead
	c.until("killed and started again at once", c.allSeeAll)

	frozen := c.gateways[0].transport
	frozen.gate.Lock()
	c.until("who does not read is alone", func() bool { return len(c.gateways[0].Stats().Peers) == 0 })
	require.True(t, c.sees(1, 2), "the others are not concerned")
	frozen.gate.Unlock()
	c.until("it reads again", c.allSeeAll)

	for i := range c.gateways {
		c.restart(i)
	}
	c.until("all started again", c.allSeeAll)
	c.end()
}

// Nodes of one host find each other by a directory, whoever comes first, and leave
// nothing there but the secret.
func TestDirectory(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t, gateways: make([]*gateway, 3)}
	dir := t.TempDir() + "/pool"
	var opening sync.WaitGroup
	nodes := make([]*embedded.Node, len(c.gateways))
	for i := range nodes {
		opening.Go(func() {
			var err error
			nodes[i], err = embedded.Open(embedded.Config{Name: string(rune('a' + i)), Dir: dir})
			if err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	require.False(t, t.Failed())
	for i, node := range nodes {
		g := &gateway{transport: newSlow(node), stop: make(chan struct{})}
		var err error
		g.Replica, err = replicas.New(replicas.Config{Name: string(rune('a' + i)), Transport: g.transport, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		g.s = newScheduler(t, sched.WithFleet(g.Replica))
		require.NoError(t, g.Join(t.Context(), g.s))
		c.gateways[i] = g
		g.load.Go(func() { g.work(t) })
	}
	c.until("all see all", c.allSeeAll)
	c.until("the lag is known", func() bool { return c.gateways[0].Stats().Lag > 0 })
	c.end()
	left, err := readNames(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"secret"}, left)
}
