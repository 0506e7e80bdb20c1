package protocol

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Config sets the times of the protocol. Zero values mean the defaults.
type Config struct {
	// Name is the replica's, unique in its pool; Incarnation must grow with each start
	// under the name, as the wall time does.
	Name        string
	Incarnation uint64
	// BatchEvery is the least time between two looks at the own load, and so between two
	// Batches; default 1 ms.
	BatchEvery time.Duration
	// BeatEvery is the time between two Beats; default 250 ms.
	BeatEvery time.Duration
	// FadeEvery is how often a load that time alone lowers is told anew, and how long a
	// change of nothing but blocks may wait to be told; default 50 ms.
	FadeEvery time.Duration
	// DeadAfter is the silence after which a peer is dropped; default 1.5 s.
	DeadAfter time.Duration
	// AskEvery is how often a State that is missing is asked for; default 20 ms.
	AskEvery time.Duration
	// JoinWithin is how long a newcomer waits for the States of its peers; default 1 s.
	JoinWithin time.Duration
	// MostPeers bounds the peers; default 256. Further ones are not heard.
	MostPeers int
}

func (c *Config) defaults() {
	c.BatchEvery = cmp.Or(c.BatchEvery, time.Millisecond)
	c.BeatEvery = cmp.Or(c.BeatEvery, 250*time.Millisecond)
	c.FadeEvery = cmp.Or(c.FadeEvery, 50*time.Millisecond)
	c.DeadAfter = cmp.Or(c.DeadAfter, 1500*time.Millisecond)
	c.AskEvery = cmp.Or(c.AskEvery, 20*time.Millisecond)
	c.JoinWithin = cmp.Or(c.JoinWithin, time.Second)
	c.MostPeers = cmp.Or(c.MostPeers, 256)
}

// Effect is something to be done to the own scheduler.
type Effect struct {
	// Peer is the number under which a peer's column stands: each incarnation, and each
	// return of one that was dropped, gets another.
	Peer uint32
	// Name is the peer's.
	Name string
	// Drop: the column goes, and Why says for what. Else Loads replace what it says of
	// their ranks; the first of a peer has none, and Why is Came.
	Drop  bool
	Why   string
	Loads []Load
}

// What an effect may be for.
const (
	Came      = "came"
	Died      = "not heard for too long"
	Left      = "said good-bye"
	Restarted = "started again"
	Closing   = "this replica closes"
)

// Output is what an event leads to. Effects come in order; they and the messages refer
// to nothing that the core keeps.
type Output struct {
	Send    []Message
	Effects []Effect
	// Collect: the own load is to be read now, and told by Loads.
	Collect bool
}

// Core is the state of one replica. It is not safe for concurrent use. Times are of
// any clock that does not go back.
type Core struct {
	config Config
	own    map[Rank]Load // as told; that are not zero
	digest uint64        // of own
	number uint64        // of the last Batch
	peers  map[string]*peer
	left   map[string]uint64 // incarnations that said Bye; the next must be higher
	lastID uint32
	stats  Stats

	started, lastTick, lastBeat, lastCollect, lastAsk time.Duration
	dirty, fades, ready                               bool
	fadeAt                                            time.Duration
	// untold has what was collected and waits until untoldUntil to be told.
	untold      map[Rank]Load
	untoldUntil time.Duration
}

// New returns a core that has sent nothing. It begins with Start.
func New(config Config) *Core {
	config.defaults()
	return &Core{
		config: config, own: make(map[Rank]Load), peers: make(map[string]*peer), left: make(map[string]uint64),
		untold:      make(map[Rank]Load),
		lastCollect: -config.BatchEvery,
	}
}

// Start says Hello.
func (c *Core) Start(now time.Duration) (out Output) {
	c.started, c.lastTick, c.lastBeat, c.lastAsk = now, now, now, now
	c.send(&out, Message{Kind: Hello})
	return out
}

// Changed notes that the own load has changed: it is collected at the next Tick for
// which the last time is long enough ago.
func (c *Core) Changed() { c.dirty = true }

// Loads takes the own loads on the ranks that changed, as they are now, and whether
// time alone changes some. Where nothing but blocks has changed it may wait a while, so
// that output, which grows all the time, does not flood the peers.
func (c *Core) Loads(now time.Duration, loads []Load, fades bool) (out Output) {
	c.dirty, c.lastCollect = false, now
	if c.fades = fades; fades {
		c.fadeAt = now + c.config.FadeEvery
	}
	urgent := false
	for _, l := range loads {
		l.Prefill, l.Blocks, l.Requests = bound(l.Prefill), bound(l.Blocks), bound(l.Requests)
		was := c.own[l.Rank]
		urgent = urgent || l.Prefill != was.Prefill || l.Requests != was.Requests
		if len(c.untold) == 0 {
			c.untoldUntil = now + c.config.FadeEvery
		}
		c.untold[l.Rank] = l
	}
	if urgent {
		c.tell(&out)
	}
	return out
}

// tell tells what has changed and was not told.
func (c *Core) tell(out *Output) {
	var changed []Load
	for _, l := range c.untold {
		was := c.own[l.Rank]
		l.Version = was.Version
		if l == was || l.zero() && was.zero() {
			continue
		}
		l.Version = c.number + 1 // one Batch has one number, in all its pieces
		changed = append(changed, l)
		c.digest ^= was.digest() ^ l.digest()
		if l.zero() {
			delete(c.own, l.Rank)
		} else {
			c.own[l.Rank] = l
		}
	}
	clear(c.untold)
	if len(changed) == 0 {
		return
	}
	slices.SortFunc(changed, func(a, b Load) int { return compareRanks(a.Rank, b.Rank) })
	c.number++
	if len(changed) > MaxLoads {
		// It does not fit in a Batch: tell everything.
		c.sendState(out, "")
		return
	}
	c.send(out, Message{Kind: Batch, Loads: changed})
}

func bound(n int64) int64 { return min(max(n, 0), MaxAmount) }

// Tick does what is due.
func (c *Core) Tick(now time.Duration) (out Output) {
	if now-c.lastTick > 2*c.config.BeatEvery {
		// This process stood still. What the peers said meanwhile may not have been read
		// yet, so they get the time for two Beats.
		for _, p := range c.peers {
			p.heard = max(p.heard, now-c.config.DeadAfter+2*c.config.BeatEvery)
		}
	}
	c.lastTick = now
	if c.dirty || c.fades && now >= c.fadeAt {
		out.Collect = now >= c.lastCollect+c.config.BatchEvery
	}
	if len(c.untold) > 0 && now >= c.untoldUntil {
		c.tell(&out)
	}
	for _, p := range c.sortedPeers() {
		if now-p.heard >= c.config.DeadAfter {
			c.stats.Died++
			c.drop(&out, p, Died)
		}
	}
	if now-c.lastBeat >= c.config.BeatEvery {
		c.lastBeat = now
		c.send(&out, Message{Kind: Beat, Digest: c.digest})
	}
	if now-c.lastAsk >= c.config.AskEvery {
		c.lastAsk = now
		for _, p := range c.sortedPeers() {
			if p.lacks() {
				c.ask(&out, p, now)
			}
		}
		if !c.ready {
			c.send(&out, Message{Kind: Hello})
		}
	}
	c.lookReady(now)
	return out
}

// lookReady notes whether everybody who is there was heard whole. Whoever is there
// answers a Hello, or beats, within BeatEvery; those who answer do so at once.
func (c *Core) lookReady(now time.Duration) {
	since := now - c.started
	switch {
	case c.ready:
	case since >= c.config.JoinWithin:
		c.ready = true
	case len(c.peers) == 0:
		c.ready = since >= c.config.BeatEvery+2*c.config.AskEvery
	case since >= 2*c.config.AskEvery:
		for _, p := range c.peers {
			if p.lacks() {
				return
			}
		}
		c.ready = true
	}
}

// Ready reports whether the replica has what its peers cause, or has waited for it
// long enough. Once true it stays so.
func (c *Core) Ready() bool { return c.ready }

// Next returns when Tick is due.
func (c *Core) Next() time.Duration {
	next := c.lastBeat + c.config.BeatEvery
	if c.dirty {
		next = min(next, c.lastCollect+c.config.BatchEvery)
	}
	if c.fades {
		next = min(next, max(c.fadeAt, c.lastCollect+c.config.BatchEvery))
	}
	if len(c.untold) > 0 {
		next = min(next, c.untoldUntil)
	}
	asks := !c.ready
	for _, p := range c.peers {
		asks = asks || p.lacks()
		next = min(next, p.heard+c.config.DeadAfter)
	}
	if asks {
		next = min(next, c.lastAsk+c.config.AskEvery)
	}
	return next
}

// Reconnected has everything told anew, after a time in which nothing may have arrived.
func (c *Core) Reconnected() (out Output) {
	c.sendState(&out, "")
	c.send(&out, Message{Kind: Hello})
	return out
}

// Close says Bye and drops all peers. Nothing may follow.
func (c *Core) Close() (out Output) {
	c.send(&out, Message{Kind: Bye})
	for _, p := range c.sortedPeers() {
		c.drop(&out, p, Closing)
	}
	return out
}

func (c *Core) send(out *Output, m Message) {
	m.From, m.Incarnation, m.Number = c.config.Name, c.config.Incarnation, c.number
	out.Send = append(out.Send, m)
}

// sendState tells everything, in pieces: to one, or to all if to is empty.
func (c *Core) sendState(out *Output, to string) {
	all := slices.SortedFunc(maps.Values(c.own), func(a, b Load) int { return compareRanks(a.Rank, b.Rank) })
	parts := max(1, (len(all)+statePiece-1)/statePiece)
	for part := range parts {
		loads := all[min(len(all), part*statePiece):min(len(all), (part+1)*statePiece)]
		c.send(out, Message{Kind: State, To: to, Part: uint32(part), Parts: uint32(parts), Loads: slices.Clone(loads)})
	}
}

// statePiece is how many loads a piece of a State has: some 50 kB.
const statePiece = 2048

// sortedPeers returns the peers by name, so that what follows is the same each time.
func (c *Core) sortedPeers() []*peer {
	return slices.SortedFunc(maps.Values(c.peers), func(a, b *peer) int { return cmp.Compare(a.name, b.name) })
}
