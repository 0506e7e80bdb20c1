// Package wide adds up counts of which a single one may be as large as int64 goes.
package wide

import (
	"math"
	"math/bits"
)

// Sum is a sum of counts. Its 128 bits keep it exact, so that it comes back to exactly
// zero. The zero value is zero, and sums can be compared.
type Sum struct{ hi, lo uint64 }

// Of returns the sum of a single count n ≥ 0.
func Of(n int64) Sum { return Sum{lo: uint64(n)} }

// Add adds n ≥ 0.
func (s *Sum) Add(n int64) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(n), 0)
	s.hi += carry
}

// Sub takes away n ≥ 0, which was added before.
func (s *Sum) Sub(n int64) {
	var borrow uint64
	s.lo, borrow = bits.Sub64(s.lo, uint64(n), 0)
	s.hi -= borrow
}

// Clamped returns the sum, at most math.MaxInt64.
func (s Sum) Clamped() int64 {
	if s.hi > 0 || s.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(s.lo)
}
