package protocol

import (
	"cmp"
	"time"
)

// Stats counts what a core has met.
type Stats struct {
	// Received counts messages of others. Stale ones were of an incarnation that is
	// over, Refused of more peers than there may be, Namesakes of another replica that
	// has the name of this one, which is a fault of configuration.
	Received, Stale, Refused, Namesakes int64
	// Gaps counts numbers that were missing, Mismatches digests that differed, Wants the
	// States asked for, States those had, Died the peers dropped for their silence.
	Gaps, Mismatches, Wants, States, Died int64
	// Peers are those that are held, by name.
	Peers []PeerStats
}

// PeerStats is one peer as it is held.
type PeerStats struct {
	Name        string
	Incarnation uint64
	// Peer is the number of its column.
	Peer uint32
	// Silent is how long it was not heard. Whole: what is held of it is all it said.
	Silent time.Duration
	Whole  bool
	// Ranks is on how many ranks it has load; Gaps counts its missing numbers.
	Ranks int
	Gaps  int64
}

// Stats returns the counts and the peers.
func (c *Core) Stats(now time.Duration) Stats {
	s := c.stats
	for _, p := range c.sortedPeers() {
		of := PeerStats{
			Name: p.name, Incarnation: p.incarnation, Peer: p.id, Silent: now - p.heard, Whole: !p.lacks(), Gaps: p.gaps,
		}
		for _, l := range p.column {
			if !l.zero() {
				of.Ranks++
			}
		}
		s.Peers = append(s.Peers, of)
	}
	return s
}

func compareRanks(a, b Rank) int {
	return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Rank, b.Rank))
}
