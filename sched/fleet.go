package sched

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Several schedulers before one pool: each receives what load the others cause on the
// ranks, and counts it as load. The transport between them is not part of this package.

// PeerID numbers the other schedulers that a scheduler receives loads of. The caller of
// SetPeerLoads chooses the numbers; a peer that restarts should get a new one.
type PeerID uint32

// PeerLoad is load that others cause on a rank.
type PeerLoad struct {
	PrefillTokens int64 `json:"prefill_tokens"`
	Blocks        int64 `json:"blocks"`
	Requests      int64 `json:"requests"`
}

func peerLoad(e shards.Elsewhere) PeerLoad {
	return PeerLoad{PrefillTokens: e.Prefill, Blocks: e.Blocks, Requests: e.Requests}
}

// CausedLoad is what one scheduler causes on one rank.
type CausedLoad struct {
	Rank RankID
	// PrefillTokens are the active ones.
	PrefillTokens, Blocks, Requests int64
	// Version is greater the later the load is.
	Version uint64
	// Fades: time alone lowers the prefill, so that OwnLoads will return the rank again.
	Fades bool
}

// Fleet is notified when the peers of a scheduler should get its load.
type Fleet interface {
	// Changed is called when the load that this scheduler causes has moved: once until
	// the next OwnLoads. It is called by the goroutine that moved it, outside all locks,
	// so it must not block; it must not call the scheduler.
	Changed()
}

// WithFleet has the changes of the scheduler's own load noted, for OwnLoads, and f
// told. Nil changes nothing.
func WithFleet(f Fleet) Option {
	return func(o *options) {
		if f != nil {
			o.fleet = f
		}
	}
}

// Bounds on what a peer says: loads above mostPeerLoad, and ranks that are not known
// here beyond so many for each peer, are cut.
const (
	mostPeerLoad     = 1 << 40
	mostUnknownRanks = 4096
)

// peers holds what the others said. Its lock comes after Scheduler.edit and before
// those of the ranks.
type peers struct {
	mu      sync.Mutex
	columns map[PeerID]map[RankID]CausedLoad // guarded by mu; nil without peers

	told sync.Mutex
	// gone are the ranks that went, with the last version of their load and the count
	// of changes after which they did: their peers must learn that it is zero. Guarded
	// by told, which is a leaf.
	gone map[RankID]goneRank
}

type goneRank struct{ version, count uint64 }

// tellFleet tells the fleet of what has changed, once until OwnLoads. REQUIRES: no locks.
func (s *Scheduler) tellFleet() {
	if s.env.Untold() && s.fleetTold.CompareAndSwap(false, true) {
		s.fleet.Changed()
	}
}

// OwnLoads appends to dst the load that this scheduler causes on the ranks on which it
// has changed since the mark, and returns the next mark. Mark 0 gives all on which it
// ever was. The marks are for one reader: the fleet of WithFleet, without which there
// are none and nothing is appended. It costs a word read for each rank.
func (s *Scheduler) OwnLoads(dst []CausedLoad, mark uint64) ([]CausedLoad, uint64) {
	if s.made() != nil || s.fleet == nil {
		return dst, mark
	}
	s.fleetTold.Store(false)
	next := s.env.NextChanges()
	dst = s.peers.appendGone(dst, mark)
	at := pool.Lazily(s.env.Now)
	slots := s.world.Load().Table.Slots()
	for i := range slots {
		shard := slots[i].Shard
		if !shard.ChangedSince(mark) {
			continue
		}
		shard.Lock()
		load, version := shard.OwnLocked()
		dead := shard.DeadLocked()
		shard.Unlock()
		if dead {
			continue // it is among those that went, now or next time
		}
		dst = append(dst, CausedLoad{
			Rank: shard.ID(), PrefillTokens: at.Active(&load.Prefill), Blocks: load.Blocks, Requests: load.Requests,
			Version: version, Fades: load.Prefill.Decays(),
		})
	}
	return dst, next
}

// noteGone notes that a rank went, if peers know of load on it. REQUIRES: the lock of
// the rank, which is dead and without bookings.
func (p *peers) noteGone(shard *shards.Shard) {
	version, count, known := shard.LastToldLocked()
	if !known {
		return
	}
	p.told.Lock()
	defer p.told.Unlock()
	if p.gone == nil {
		p.gone = make(map[RankID]goneRank)
	}
	if was, found := p.gone[shard.ID()]; !found || was.version < version {
		p.gone[shard.ID()] = goneRank{version, count}
	}
}

// appendGone appends the ranks that went since the mark, and forgets those before it.
func (p *peers) appendGone(dst []CausedLoad, mark uint64) []CausedLoad {
	p.told.Lock()
	defer p.told.Unlock()
	for rank, gone := range p.gone {
		if gone.count < mark {
			delete(p.gone, rank)
			continue
		}
		dst = append(dst, CausedLoad{Rank: rank, Version: gone.version})
	}
	return dst
}

// SetPeerLoads replaces what a peer causes on those ranks. A load whose version is not
// above the one known is old news and ignored. From then on it counts wherever load
// counts: busy ranks, costs, Explain, Loads. Where it falls, the waiters are looked at
// again, as after a release. Numbers out of range are cut, ranks that are not known are
// kept for when they come, up to 4,096 for each peer.
func (s *Scheduler) SetPeerLoads(peer PeerID, loads []CausedLoad) {
	if s.made() != nil || len(loads) == 0 {
		return
	}
	s.setPeerLoads(peer, loads)
	s.loadFell()
}

func (s *Scheduler) setPeerLoads(peer PeerID, loads []CausedLoad) {
	// The edit lock: a rank that comes meanwhile is made with the load before or after.
	s.edit.Lock()
	defer s.edit.Unlock()
	p, table := &s.peers, s.world.Load().Table
	p.mu.Lock()
	defer p.mu.Unlock()
	column := p.columns[peer]
	if column == nil {
		if p.columns == nil {
			p.columns = make(map[PeerID]map[RankID]CausedLoad)
		}
		column = make(map[RankID]CausedLoad)
		p.columns[peer] = column
	}
	most := len(table.Slots()) + mostUnknownRanks
	for i := range loads {
		load := loads[i]
		was, found := column[load.Rank]
		place := table.Slot(load.Rank)
		if found && load.Version <= was.Version || !found && place < 0 && len(column) >= most {
			continue
		}
		load.PrefillTokens, load.Blocks, load.Requests = cut(load.PrefillTokens), cut(load.Blocks), cut(load.Requests)
		column[load.Rank] = load
		if place >= 0 {
			p.placeLocked(table.Slots()[place].Shard)
		}
	}
}

func cut(n int64) int64 { return min(max(n, 0), mostPeerLoad) }

// DropPeer takes away all that a peer causes, in one step for each rank. A peer that
// is not known is no error.
func (s *Scheduler) DropPeer(peer PeerID) {
	if s.made() != nil {
		return
	}
	s.dropPeer(peer)
	s.loadFell()
}

func (s *Scheduler) dropPeer(peer PeerID) {
	s.edit.Lock()
	defer s.edit.Unlock()
	p, table := &s.peers, s.world.Load().Table
	p.mu.Lock()
	defer p.mu.Unlock()
	column := p.columns[peer]
	delete(p.columns, peer)
	for rank := range column {
		if place := table.Slot(rank); place >= 0 {
			p.placeLocked(table.Slots()[place].Shard)
		}
	}
}

// placeOn sets on a rank that is not published yet what peers cause there.
func (p *peers) placeOn(shard *shards.Shard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.columns) > 0 {
		p.placeLocked(shard)
	}
}

// placeLocked sets on a rank the sum of what the peers cause there. REQUIRES: mu.
func (p *peers) placeLocked(shard *shards.Shard) {
	sum := p.sumLocked(shard.ID())
	shard.Lock()
	defer shard.Unlock()
	if !shard.DeadLocked() {
		shard.SetElsewhereLocked(sum)
	}
}

func (p *peers) sumLocked(rank lifecycle.RankID) (sum shards.Elsewhere) {
	for _, column := range p.columns {
		load := column[rank]
		sum.Prefill = addPeer(sum.Prefill, load.PrefillTokens)
		sum.Blocks = addPeer(sum.Blocks, load.Blocks)
		sum.Requests = addPeer(sum.Requests, load.Requests)
	}
	return sum
}

// addPeer adds two numbers of which the second is at most mostPeerLoad.
func addPeer(sum, n int64) int64 { return min(sum, math.MaxInt64/4) + n }

// PeerStats is what a peer causes on all ranks that are known to it.
type PeerStats struct {
	Peer PeerID `json:"peer"`
	PeerLoad
	// Ranks is on how many ranks it said it has load.
	Ranks int `json:"ranks"`
}

// stats describes the peers, by id.
func (p *peers) stats() (stats []PeerStats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for peer, column := range p.columns {
		of := PeerStats{Peer: peer}
		for _, load := range column {
			if load.PrefillTokens|load.Blocks|load.Requests != 0 {
				of.Ranks++
			}
			of.PrefillTokens = addPeer(of.PrefillTokens, load.PrefillTokens)
			of.Blocks = addPeer(of.Blocks, load.Blocks)
			of.Requests = addPeer(of.Requests, load.Requests)
		}
		stats = append(stats, of)
	}
	slices.SortFunc(stats, func(a, b PeerStats) int { return cmp.Compare(a.Peer, b.Peer) })
	return stats
}
