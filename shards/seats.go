package shards

import (
	"sync"
	"sync/atomic"
)

// seat is the number of a rank in the sets of holders, from 1, with its age among
// all seats ever given; 0 for none. It is written under the rank's lock, at most
// once until the rank is dead, and read by all.
type seat struct{ word atomic.Uint64 }

// seatBits is how many bits of the word are the number.
const seatBits = 24

func (s *seat) load() int32 { return int32(s.word.Load() & (1<<seatBits - 1)) }

// loadBefore returns the number if the seat was given by the time at which so many
// had been given, else 0.
func (s *seat) loadBefore(given uint64) int32 {
	word := s.word.Load()
	if word>>seatBits > given {
		return 0
	}
	return int32(word & (1<<seatBits - 1))
}

// seats number the ranks that hold prompt blocks, densely, so that a set of them
// is a bitmap. A rank keeps its seat until it is dead and holds nothing. Then
// another may get it, which a reader can mistake for the former in a set that it
// found before: so a reader knows how many seats had been given when it began, and
// takes a rank that got its own later for one that holds nothing, as it did then.
type seats struct {
	// list has the ranks by number: written under mu, read by all.
	list atomic.Pointer[[]atomic.Pointer[Shard]]
	// given counts: written under mu, read by all.
	given atomic.Uint64
	mu    struct {
		sync.Mutex
		free []int32
		last int32
	}
}

// of returns a rank's number, which it is given if it has none. REQUIRES: the
// rank's lock.
func (t *seats) of(s *Shard) int32 {
	if number := s.seat.load(); number != 0 {
		return number
	}
	return t.take(s)
}

func (t *seats) take(s *Shard) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var number int32
	if n := len(t.mu.free); n > 0 {
		number, t.mu.free = t.mu.free[n-1], t.mu.free[:n-1]
	} else {
		t.mu.last++
		number = t.mu.last
	}
	list := t.list.Load()
	if list == nil || int(number) >= len(*list) {
		grown := make([]atomic.Pointer[Shard], 2*number+62)
		if list != nil {
			for i := range *list {
				grown[i].Store((*list)[i].Load())
			}
		}
		list = &grown
		t.list.Store(list)
	}
	(*list)[number].Store(s)
	s.seat.word.Store(t.given.Add(1)<<seatBits | uint64(number))
	return number
}

// give takes back the number, if any, of a rank that is dead and holds nothing.
// REQUIRES: the rank's lock.
func (t *seats) give(s *Shard) {
	number := s.seat.load()
	if number == 0 {
		return
	}
	s.seat.word.Store(0)
	t.mu.Lock()
	defer t.mu.Unlock()
	(*t.list.Load())[number].Store(nil)
	t.mu.free = append(t.mu.free, number)
}
