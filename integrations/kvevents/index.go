package kvevents

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Config says how an Index hashes and how long it trusts what it knows.
type Config struct {
	// BlockSize is the tokens of a block, at least 1: that of sched.Config. Engines may
	// have a multiple of it.
	BlockSize int
	// Seed is the key of the hashes. 0 takes a random one, so that no client can craft
	// prompts that share hashes; indexes that exchange hashes need the same.
	Seed uint64
	// Grace is how long a rank whose engine cannot be heard still counts with what is
	// known of it, 0 for 5 s.
	Grace time.Duration
	// Forget is how long it is kept then, in case the engine is found to be the same, 0
	// for 5 min.
	Forget time.Duration
	// Audit is the silence after which an engine is asked whether something was missed, 0
	// for 30 s.
	Audit time.Duration
	// HostTiers has blocks count that an engine moved to memory or disk of its host. Not all
	// engines tell when such a block is dropped.
	HostTiers bool
}

// Index knows which rank holds which blocks, from what the engines say. It is safe for
// concurrent use.
//
// Guarantees. A look-up sees each block as it was at some moment while it looked, and
// never half of a Clear: a rank that is cleared, forgotten or lost meanwhile is left out.
// What one rank's engine says changes nothing for another.
//
// How. The blocks of all ranks stand in one table for each tier, by content hash; each
// rank has under a lock of its own the names that its engine gives them. A look-up walks
// the prompt once, for all ranks at a time. It takes no lock but that of the shard of the
// block it looks at. Each rank has a word with its generation: a look-up takes these words
// first and gives an answer for a rank only if its word is still the same. Clear moves the
// word on before it touches a block.
//
// Cost. About 50 bytes for a block on a rank, less for what ranks share; 0.1 µs for each
// block of a prompt.
type Index struct {
	config Config
	hash   hasher
	tables [tiers]*table // by tier; host and disk only if they count
	dial   dialer

	// ranks by slot, nil for none. Written under mu as a whole, read by look-ups.
	ranks atomic.Pointer[[]*rank]
	looks sync.Pool // of *look

	// LOCK ORDER: mu and a rank's lock are never held together; a shard's lock comes last.
	mu struct {
		sync.Mutex
		byID     map[sched.RankID]*rank
		followed map[sched.RankID]bool
	}
}

// New returns an empty index.
func New(config Config) (*Index, error) {
	var faults []error
	if config.BlockSize < 1 {
		faults = append(faults, fmt.Errorf("kvevents: block size %d: must be at least 1", config.BlockSize))
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		unset time.Duration
	}{
		{"grace", &config.Grace, 5 * time.Second},
		{"forget", &config.Forget, 5 * time.Minute},
		{"audit", &config.Audit, 30 * time.Second},
	} {
		if *d.value < 0 {
			faults = append(faults, fmt.Errorf("kvevents: %s %v: must not be negative", d.name, *d.value))
		}
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	for config.Seed == 0 {
		var seed [8]byte
		_, _ = rand.Read(seed[:]) // never fails
		config.Seed = binary.LittleEndian.Uint64(seed[:])
	}
	x := &Index{config: config, hash: newHasher(config.Seed, config.BlockSize), dial: dialNet}
	for t := range x.tables {
		if t == int(device) || config.HostTiers {
			x.tables[t] = newTable()
		}
	}
	x.ranks.Store(new([]*rank))
	x.looks.New = func() any { return new(look) }
	x.mu.byID = make(map[sched.RankID]*rank)
	x.mu.followed = make(map[sched.RankID]bool)
	return x, nil
}

// Refresh is Overlaps as sched.WithOverlapRefresher takes it.
func (x *Index) Refresh(_ context.Context, blocks []uint64) ([]sched.Overlap, error) {
	return x.Overlaps(nil, blocks), nil
}

// Apply takes in a batch that came another way than by Follow. The rank is as if it were
// followed and live. Batches of one rank must come in their order. An error means that
// nothing of this rank can be known: it holds nothing then.
func (x *Index) Apply(id sched.RankID, b *Batch) error {
	if b.Rank >= 0 && b.Rank != int64(id.Rank) {
		return fmt.Errorf("kvevents: batch of rank %d: given to rank %v", b.Rank, id)
	}
	for {
		r := x.rank(id)
		err := r.apply(b)
		if !errors.Is(err, errGone) {
			return err
		}
	}
}

// Clear forgets all blocks of a rank.
func (x *Index) Clear(id sched.RankID) {
	x.mu.Lock()
	r := x.mu.byID[id]
	x.mu.Unlock()
	if r != nil {
		r.clear()
	}
}

// Forget forgets all ranks of a worker: it was removed, or another process has come in
// its place. A follower of one of them begins anew.
func (x *Index) Forget(worker uint64) {
	var gone []*rank
	x.mu.Lock()
	for id, r := range x.mu.byID {
		if id.Worker == worker {
			gone = append(gone, r)
			delete(x.mu.byID, id)
		}
	}
	x.mu.Unlock()
	for _, r := range gone {
		x.drop(r)
	}
}

// rank returns the rank of an id, a new one that is live if there is none.
func (x *Index) rank(id sched.RankID) *rank {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r := x.mu.byID[id]; r != nil {
		return r
	}
	ranks := append([]*rank(nil), *x.ranks.Load()...)
	slot := len(ranks)
	for i, r := range ranks {
		if r == nil {
			slot = i
			break
		}
	}
	if slot == len(ranks) {
		ranks = append(ranks, nil)
	}
	r := newRank(x, id, uint32(slot))
	ranks[slot] = r
	x.mu.byID[id] = r
	x.ranks.Store(&ranks)
	return r
}

// drop ends a rank that is not in byID any more. Its slot is given to another only when
// no block has its bit.
func (x *Index) drop(r *rank) {
	r.end()
	x.mu.Lock()
	defer x.mu.Unlock()
	ranks := append([]*rank(nil), *x.ranks.Load()...)
	ranks[r.slot] = nil
	for len(ranks) > 0 && ranks[len(ranks)-1] == nil {
		ranks = ranks[:len(ranks)-1]
	}
	x.ranks.Store(&ranks)
}
