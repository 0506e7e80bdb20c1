package sched

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// idStripes spreads the ids over locks of their own.
const idStripes = 32

// ids finds the record of every request that waits, is being decided or is
// booked. It is a hash table whose chains go through the records, so that a claim
// hashes the id once and allocates nothing; its locks are the last in the lock
// order.
//
// Tried before: xsync's map, which hashes for each call and allocates an entry.
// A claim and its end took twice the time.
type ids struct {
	seed    maphash.Seed
	stripes [idStripes]idStripe
}

type idStripe struct {
	mu sync.Mutex
	// buckets hold the first of each chain, count is their sum; guarded by mu. The
	// number of buckets is 0 or a power of two.
	buckets []*record
	count   int
	// attempts numbers the attempts of the stripe's ids; written by all.
	attempts atomic.Uint64
	_        [16]byte
}

// link is what a record is found by.
type link struct {
	hash uint64  // of the id; written before the record is claimed
	next *record // in the chain; guarded by the stripe's lock
}

const (
	fewBuckets = 8  // at first
	minBuckets = 64 // that a table shrinks to
)

func (t *ids) stripe(hash uint64) *idStripe { return &t.stripes[hash%idStripes] }

func (s *idStripe) bucket(hash uint64) **record {
	return &s.buckets[(hash/idStripes)&uint64(len(s.buckets)-1)]
}

// claim enters a record; it reports false if another has the id.
func (t *ids) claim(rec *record) bool {
	rec.claimed.hash = maphash.String(t.seed, rec.ID)
	s := t.stripe(rec.claimed.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= len(s.buckets) {
		s.resize(max(fewBuckets, 2*len(s.buckets)))
	}
	first := s.bucket(rec.claimed.hash)
	for other := *first; other != nil; other = other.claimed.next {
		if other.claimed.hash == rec.claimed.hash && other.ID == rec.ID {
			return false
		}
	}
	rec.claimed.next, *first = *first, rec
	s.count++
	return true
}

// unclaim frees the id of a record that is not booked any more, unless that was
// done before and the id is another's by now: a booking whose owner was not told
// yet may be ended by its id or with its worker.
func (t *ids) unclaim(rec *record) {
	s := t.stripe(rec.claimed.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return
	}
	for at := s.bucket(rec.claimed.hash); *at != nil; at = &(*at).claimed.next {
		if *at == rec {
			*at, rec.claimed.next = rec.claimed.next, nil
			s.count--
			if len(s.buckets) > minBuckets && s.count < len(s.buckets)/8 {
				s.resize(len(s.buckets) / 2)
			}
			return
		}
	}
}

// find returns the record of an id, nil if there is none.
func (t *ids) find(id string) *record {
	hash := maphash.String(t.seed, id)
	s := t.stripe(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return nil
	}
	rec := *s.bucket(hash)
	for rec != nil && (rec.claimed.hash != hash || rec.ID != id) {
		rec = rec.claimed.next
	}
	return rec
}

// len returns the number of records.
func (t *ids) len() (n int) {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		n += s.count
		s.mu.Unlock()
	}
	return n
}

// nextAttempt numbers a booking or transfer. Numbers grow for each id, as long as
// the scheduler lives, though not one by one: many ids share a counter.
func (t *ids) nextAttempt(rec *record) uint64 {
	return t.stripe(rec.claimed.hash).attempts.Add(1)
}

// resize moves the chains to another number of buckets. REQUIRES: the lock.
func (s *idStripe) resize(n int) {
	old := s.buckets
	s.buckets = make([]*record, n)
	for _, rec := range old {
		for rec != nil {
			next, first := rec.claimed.next, s.bucket(rec.claimed.hash)
			rec.claimed.next, *first = *first, rec
			rec = next
		}
	}
}
