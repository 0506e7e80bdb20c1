package lifecycle

// Load is what a rank carries at one moment.
type Load struct {
	// Prefill gives the prefill tokens at any instant.
	Prefill Prefill
	// Blocks are the active blocks: the sum of all weights, halves rounded up.
	Blocks int64
	// Requests is the number of live bookings.
	Requests int64
}

// Load returns the rank's load, in constant time.
func (r *Rank) Load() Load {
	return Load{
		Prefill:  r.prefill.snapshot(),
		Blocks:   wholeBlocks(r.blocks.weight),
		Requests: r.requests,
	}
}

// LoadWithout returns the load that the rank will have once b is released,
// without releasing it. It takes a walk over the prompt blocks that only b
// holds and no decay has covered.
func (r *Rank) LoadWithout(b *Booking, now Now) Load {
	l := r.Load()
	if b.rank != r {
		return l
	}
	l.Requests--
	l.Blocks = wholeBlocks(r.blocks.weight - b.outputWeight - r.blocks.tailTotal(b))
	if b.inPrefill {
		clk := clock{now: now}
		l.Prefill = r.prefill.without(b, &clk)
	}
	return l
}

// LivePrefix returns how many leading blocks of a prompt are live.
func (r *Rank) LivePrefix(blocks []uint64) int {
	return r.blocks.prefix(blocks, nil)
}

// LivePrefixWithout returns how many leading blocks of a prompt will be live
// once b is released, without releasing it.
func (r *Rank) LivePrefixWithout(b *Booking, blocks []uint64) int {
	if b.rank != r {
		return r.blocks.prefix(blocks, nil)
	}
	return r.blocks.prefix(blocks, b)
}

// wholeBlocks rounds a sum of weights ≥ 0. Without a booking the sum is exactly
// zero, so an idle rank needs no case of its own.
func wholeBlocks(weight int64) int64 { return (weight + BlockUnit/2) / BlockUnit }
