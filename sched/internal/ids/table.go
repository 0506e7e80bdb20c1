// Package ids finds what has an id: the record of every request that waits, is being
// decided or is booked. An id is claimed by one record at a time.
//
// A Table is a hash table whose chains go through the records, so that a claim hashes
// the id once and allocates nothing. It is spread over stripes with a lock each; they
// are the last in the lock order.
//
// Tried before: xsync's map, which hashes for each call and allocates an entry. A
// claim and its end took twice the time.
package ids

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// stripes is the number of locks over which the ids are spread.
const stripes = 32

// Table finds values by their ids. Make one with New.
type Table[V any] struct {
	seed    maphash.Seed
	idOf    func(V) string
	stripes [stripes]stripe[V]
}

type stripe[V any] struct {
	mu sync.Mutex
	// buckets hold the first of each chain, count is their sum; guarded by mu. The
	// number of buckets is 0 or a power of two.
	buckets []*Entry[V]
	count   int
	// attempts numbers the attempts of the stripe's ids; written by all.
	attempts atomic.Uint64
	_        [16]byte
}

// Entry is what a value is found by. It is part of the value.
type Entry[V any] struct {
	hash  uint64    // of the id; written before the entry is in the table
	value V         // likewise
	next  *Entry[V] // in the chain; guarded by the stripe's lock
}

const (
	fewBuckets = 8  // at first
	minBuckets = 64 // that a stripe shrinks to
)

// New returns an empty table. idOf returns the id under which a value was claimed.
func New[V any](idOf func(V) string) *Table[V] {
	return &Table[V]{seed: maphash.MakeSeed(), idOf: idOf}
}

func (t *Table[V]) stripe(hash uint64) *stripe[V] { return &t.stripes[hash%stripes] }

func (s *stripe[V]) bucket(hash uint64) **Entry[V] {
	return &s.buckets[(hash/stripes)&uint64(len(s.buckets)-1)]
}

// Claim enters a value by its entry; it reports false if another has the id.
func (t *Table[V]) Claim(v V, e *Entry[V]) bool {
	id := t.idOf(v)
	e.value, e.hash = v, maphash.String(t.seed, id)
	s := t.stripe(e.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= len(s.buckets) {
		s.resize(max(fewBuckets, 2*len(s.buckets)))
	}
	first := s.bucket(e.hash)
	for other := *first; other != nil; other = other.next {
		if other.hash == e.hash && t.idOf(other.value) == id {
			return false
		}
	}
	e.next, *first = *first, e
	s.count++
	return true
}

// Free frees the id of an entry, unless that was done before and the id is another's
// by now.
func (t *Table[V]) Free(e *Entry[V]) {
	s := t.stripe(e.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return
	}
	for at := s.bucket(e.hash); *at != nil; at = &(*at).next {
		if *at == e {
			*at, e.next = e.next, nil
			s.count--
			if len(s.buckets) > minBuckets && s.count < len(s.buckets)/8 {
				s.resize(len(s.buckets) / 2)
			}
			return
		}
	}
}

// Find returns the value that has claimed an id, the zero value if none has.
func (t *Table[V]) Find(id string) (v V) {
	hash := maphash.String(t.seed, id)
	s := t.stripe(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return v
	}
	for e := *s.bucket(hash); e != nil; e = e.next {
		if e.hash == hash && t.idOf(e.value) == id {
			return e.value
		}
	}
	return v
}

// Len returns the number of ids that are claimed.
func (t *Table[V]) Len() (n int) {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		n += s.count
		s.mu.Unlock()
	}
	return n
}

// NextAttempt numbers an attempt of an entry that was claimed. Numbers grow for each
// id, as long as the table lives, though not one by one: many ids share a counter.
func (t *Table[V]) NextAttempt(e *Entry[V]) uint64 {
	return t.stripe(e.hash).attempts.Add(1)
}

// resize moves the chains to another number of buckets. REQUIRES: the lock.
func (s *stripe[V]) resize(n int) {
	old := s.buckets
	s.buckets = make([]*Entry[V], n)
	for _, e := range old {
		for e != nil {
			next, first := e.next, s.bucket(e.hash)
			e.next, *first = *first, e
			e = next
		}
	}
}
