package measure

import "math/rand/v2"

// Sampler times one decision of many. A nil Sampler times none, and reads no clock.
type Sampler struct {
	every uint64
	now   func() int64
	Times *Histogram // in ns
}

// NewSampler returns a sampler that times one decision of so many, at random.
func NewSampler(every int, now func() int64, b Buckets) *Sampler {
	return &Sampler{every: uint64(every), now: now, Times: b.Histogram()}
}

// NotSampled is what Begin returns for a decision that is not timed.
const NotSampled = -1 << 63

// Begin returns when a decision begins, if it is one to be timed.
func (m *Sampler) Begin() int64 {
	if m == nil {
		return NotSampled
	}
	return m.begin()
}

func (m *Sampler) begin() int64 {
	if rand.Uint64N(m.every) != 0 {
		return NotSampled
	}
	return m.now()
}

// End records how long a decision took, given what Begin returned.
func (m *Sampler) End(began int64) {
	if began != NotSampled {
		m.Times.Record(m.now() - began)
	}
}
