package protocol

import (
	"maps"
	"slices"
	"time"
)

// peer is what is held of one peer.
type peer struct {
	name        string
	incarnation uint64
	id          uint32
	heard       time.Duration
	asked       time.Duration
	// answered is when a State was last sent.
	answered   time.Duration
	everServed bool
	// column has what the peer causes. A rank of which it said that it has no load any
	// more stays, with its version, until nothing before that is missing, so that older
	// news are known as such.
	column map[Rank]Load
	digest uint64
	// whole is the number of the last Batch up to which nothing is missing, highest the
	// highest number heard of.
	whole, highest uint64
	doubted        bool // its digest differed
	greeted        bool // a State was had
	state          collecting
	gaps           int64
}

// collecting are the pieces of a State that have come.
type collecting struct {
	number       uint64
	parts        map[uint32]struct{}
	listed       map[Rank]struct{}
	expected     uint32
	inCollection bool
}

// lacks reports whether a State is needed.
func (p *peer) lacks() bool { return !p.greeted || p.doubted || p.whole != p.highest }

// Receive takes a message.
func (c *Core) Receive(now time.Duration, m *Message) (out Output) {
	if m.From == c.config.Name {
		if m.Incarnation != c.config.Incarnation {
			c.stats.Namesakes++
		}
		return out
	}
	c.stats.Received++
	p := c.peerOf(&out, now, m)
	if p == nil {
		return out
	}
	p.heard = now
	switch m.Kind {
	case Bye:
		c.left[m.From] = m.Incarnation
		c.drop(&out, p, Left)
		return out
	case Hello, Want:
		if !p.everServed || now-p.answered >= c.config.AskEvery/2 {
			p.answered, p.everServed = now, true
			c.sendState(&out, p.name)
		}
	case Batch:
		c.apply(&out, p, m)
		if m.Number > p.highest {
			if m.Number != p.highest+1 && p.greeted {
				p.gaps++
				c.stats.Gaps++
			}
			p.highest = m.Number
		}
		if m.Number == p.whole+1 {
			p.whole++
		}
	case Beat:
		p.highest = max(p.highest, m.Number)
		if m.Number == p.whole && p.whole == p.highest {
			if wrong := p.digest != m.Digest; wrong != p.doubted {
				p.doubted = wrong
				c.stats.Mismatches++
			}
			if !p.doubted {
				p.forgetZeros()
			}
		}
	case State:
		c.applyState(&out, p, m)
	default: // the decoder lets none through
	}
	if p.lacks() {
		c.ask(&out, p, now)
	}
	c.lookReady(now)
	return out
}

// peerOf returns the peer that a message is from, nil if it is not to be heard. Another
// incarnation takes the place of the one before.
func (c *Core) peerOf(out *Output, now time.Duration, m *Message) *peer {
	p := c.peers[m.From]
	switch {
	case p != nil && m.Incarnation == p.incarnation:
		return p
	case p != nil && m.Incarnation < p.incarnation, c.hasLeft(m):
		c.stats.Stale++
		return nil
	case p != nil:
		c.drop(out, p, Restarted)
	}
	if len(c.peers) >= c.config.MostPeers {
		c.stats.Refused++
		return nil
	}
	if len(c.left) > 4*c.config.MostPeers {
		clear(c.left)
	}
	c.lastID++
	p = &peer{
		name: m.From, incarnation: m.Incarnation, id: c.lastID, column: make(map[Rank]Load),
		asked: now - c.config.AskEvery,
	}
	c.peers[m.From] = p
	out.Effects = append(out.Effects, Effect{Peer: p.id, Name: p.name, Why: Came})
	return p
}

// hasLeft reports whether the sender's incarnation, or a later one, said Bye.
func (c *Core) hasLeft(m *Message) bool {
	last, left := c.left[m.From]
	return left && m.Incarnation <= last
}

func (c *Core) drop(out *Output, p *peer, why string) {
	delete(c.peers, p.name)
	out.Effects = append(out.Effects, Effect{Peer: p.id, Name: p.name, Drop: true, Why: why})
}

func (c *Core) ask(out *Output, p *peer, now time.Duration) {
	if now-p.asked < c.config.AskEvery {
		return
	}
	p.asked = now
	c.stats.Wants++
	c.send(out, Message{Kind: Want, To: p.name})
}

// apply takes what is newer than what is held.
func (c *Core) apply(out *Output, p *peer, m *Message) {
	var news []Load
	for i := range m.Loads {
		l := m.Loads[i]
		was, found := p.column[l.Rank]
		switch {
		case l.Version > m.Number, found && l.Version <= was.Version, !found && len(p.column) >= mostRanks:
			continue
		case !found && l.Version <= p.whole && (m.Kind != State || m.Number < p.whole):
			continue // everything up to there is known: the rank has had no load since
		}
		p.put(was, l)
		news = append(news, l)
	}
	if len(news) > 0 {
		out.Effects = append(out.Effects, Effect{Peer: p.id, Name: p.name, Loads: news})
	}
}

func (p *peer) put(was, l Load) {
	p.digest ^= was.digest() ^ l.digest()
	p.column[l.Rank] = l
}

// mostRanks bounds a column.
const mostRanks = 1 << 16

// applyState takes a piece of a State; with the last of them the ranks that it does not
// list have no load, unless something later is known of them.
func (c *Core) applyState(out *Output, p *peer, m *Message) {
	c.apply(out, p, m)
	s := &p.state
	if !s.inCollection || s.number != m.Number || s.expected != m.Parts {
		if s.inCollection && m.Number < s.number {
			return // of an older one
		}
		*s = collecting{
			number: m.Number, expected: m.Parts, inCollection: true,
			parts: make(map[uint32]struct{}), listed: make(map[Rank]struct{}),
		}
	}
	if len(s.listed) > mostRanks {
		return
	}
	s.parts[m.Part] = struct{}{}
	for i := range m.Loads {
		s.listed[m.Loads[i].Rank] = struct{}{}
	}
	p.highest = max(p.highest, m.Number)
	if len(s.parts) < int(m.Parts) {
		return
	}
	var gone []Load
	for _, l := range p.column {
		if _, listed := s.listed[l.Rank]; listed || l.Version >= m.Number || l.zero() {
			continue
		}
		gone = append(gone, Load{Rank: l.Rank, Version: m.Number})
	}
	slices.SortFunc(gone, func(a, b Load) int { return compareRanks(a.Rank, b.Rank) })
	for _, l := range gone {
		was := p.column[l.Rank]
		p.put(was, l)
	}
	for from := 0; from < len(gone); from += MaxLoads {
		out.Effects = append(out.Effects, Effect{Peer: p.id, Name: p.name, Loads: gone[from:min(len(gone), from+MaxLoads)]})
	}
	p.state = collecting{}
	p.whole = max(p.whole, m.Number)
	p.greeted, p.doubted = true, false
	c.stats.States++
}

// forgetZeros forgets ranks without load up to where nothing is missing: older news of
// them are known to be old by their number.
func (p *peer) forgetZeros() {
	maps.DeleteFunc(p.column, func(_ Rank, l Load) bool { return l.zero() && l.Version <= p.whole })
}
