package workload

import "time"

// Summary describes a list of requests.
type Summary struct {
	Requests int
	// Span is the time from the first arrival to the last.
	Span time.Duration
	// Input and Output are the sums of the lengths, in tokens.
	Input, Output int64
	// LongestOutput is the length of the longest output.
	LongestOutput int64
	// BlockRefs counts prompt blocks, DistinctBlocks the different ones.
	BlockRefs, DistinctBlocks int64
	// Uncached are the prompt tokens that one cache without bound would not
	// hold when their request arrives.
	Uncached int64
}

// MeanInput is the mean input length in tokens.
func (s Summary) MeanInput() float64 { return mean(s.Input, s.Requests) }

// MeanOutput is the mean output length in tokens.
func (s Summary) MeanOutput() float64 { return mean(s.Output, s.Requests) }

// MeanUncached is the mean number of uncached prompt tokens.
func (s Summary) MeanUncached() float64 { return mean(s.Uncached, s.Requests) }

func mean(sum int64, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}

// Summarize describes requests, which are in the order of their arrival, with
// blocks of the given size.
func Summarize(requests []Request, block int64) Summary {
	s := Summary{Requests: len(requests)}
	if len(requests) == 0 {
		return s
	}
	s.Span = requests[len(requests)-1].At - requests[0].At
	seen := make(map[uint64]struct{})
	uncached := Uncached(requests, block)
	for i := range requests {
		r := &requests[i]
		s.Input += r.ISL
		s.Output += r.OSL
		s.LongestOutput = max(s.LongestOutput, r.OSL)
		s.BlockRefs += int64(len(r.Blocks))
		s.Uncached += uncached[i]
		for _, h := range r.Blocks {
			seen[h] = struct{}{}
		}
	}
	s.DistinctBlocks = int64(len(seen))
	return s
}

// Uncached returns, for each of the requests, the prompt tokens that one cache
// without bound would not hold when it arrives. A prompt's last block is not cached
// unless it is full.
func Uncached(requests []Request, block int64) []int64 {
	out := make([]int64, len(requests))
	cached := make(map[uint64]struct{})
	for i := range requests {
		full := requests[i].FullBlocks(block)
		hits := 0
		for ; hits < len(full); hits++ {
			if _, ok := cached[full[hits]]; !ok {
				break
			}
		}
		out[i] = requests[i].ISL - int64(hits)*block
		for _, h := range full[hits:] {
			cached[h] = struct{}{}
		}
	}
	return out
}
