package replicas

import (
	"time"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas/protocol"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Stats is what a replica knows of itself and its peers.
type Stats struct {
	Name string `json:"name"`
	// Ready: it has what its peers cause, or has waited for it long enough.
	Ready bool `json:"ready"`
	// Sent and SentBytes count messages, one to all as one; Failed those that could not
	// be sent; Malformed those received that could not be read.
	Sent      int64 `json:"sent"`
	SentBytes int64 `json:"sent_bytes"`
	Failed    int64 `json:"failed"`
	Malformed int64 `json:"malformed"`
	// Received counts messages that were read. Stale ones were of an incarnation that is
	// over, Refused of more peers than there may be, Namesakes of another replica under
	// this one's name.
	Received  int64 `json:"received"`
	Stale     int64 `json:"stale"`
	Refused   int64 `json:"refused"`
	Namesakes int64 `json:"namesakes"`
	// Gaps counts messages that were missing, Mismatches digests that differed, Wants how
	// often all was asked for, States how often it came, Died the peers dropped for
	// their silence.
	Gaps       int64 `json:"gaps"`
	Mismatches int64 `json:"mismatches"`
	Wants      int64 `json:"wants"`
	States     int64 `json:"states"`
	Died       int64 `json:"died"`
	// Lag is the transport's.
	Lag time.Duration `json:"lag"`
	// Peers are those that are there, by name. None: the replica is alone.
	Peers []PeerStats `json:"peers"`
}

// PeerStats is what is known of a peer.
type PeerStats struct {
	Name        string       `json:"name"`
	Incarnation uint64       `json:"incarnation"`
	Peer        sched.PeerID `json:"peer"` // in sched.Stats.Peers
	// Silent is how long it was not heard: it beats each 250 ms.
	Silent time.Duration `json:"silent"`
	// Whole: nothing that it said is missing.
	Whole bool `json:"whole"`
	// Ranks is on how many ranks it causes load; Gaps counts its messages that were
	// missing.
	Ranks int   `json:"ranks"`
	Gaps  int64 `json:"gaps"`
}

// Stats returns the counts and the peers. It may be called at any time.
func (r *Replica) Stats() Stats {
	r.mu.Lock()
	of, ready := r.mu.core.Stats(r.now()), r.mu.core.Ready()
	r.mu.Unlock()
	s := Stats{
		Name: r.config.Name, Ready: ready, Lag: r.config.Transport.Lag(),
		Sent: r.counts.sent.Load(), SentBytes: r.counts.bytes.Load(),
		Failed: r.counts.failed.Load(), Malformed: r.counts.malformed.Load(),
		Received: of.Received, Stale: of.Stale, Refused: of.Refused, Namesakes: of.Namesakes,
		Gaps: of.Gaps, Mismatches: of.Mismatches, Wants: of.Wants, States: of.States, Died: of.Died,
	}
	for i := range of.Peers {
		s.Peers = append(s.Peers, peerStats(&of.Peers[i]))
	}
	return s
}

func peerStats(p *protocol.PeerStats) PeerStats {
	return PeerStats{
		Name: p.Name, Incarnation: p.Incarnation, Peer: sched.PeerID(p.Peer),
		Silent: p.Silent, Whole: p.Whole, Ranks: p.Ranks, Gaps: p.Gaps,
	}
}
