package model

import (
	"math"
	"slices"
	"strconv"
)

// Weights of blocks count in 1/65,536, so that sums are exact.
const whole = 1 << 16

// block is a live prompt block of a rank, found by its path.
type block struct {
	holders int
	weight  int64
}

// blocks are the decode blocks of a rank.
type blocks struct {
	prompt map[string]*block
	// output holds the weights of each booking's output blocks.
	output map[*booking][]int64
}

func newBlocks() blocks {
	return blocks{prompt: map[string]*block{}, output: map[*booking][]int64{}}
}

// clone returns a copy that shares nothing.
func (s *blocks) clone() blocks {
	c := newBlocks()
	for path, b := range s.prompt {
		copied := *b
		c.prompt[path] = &copied
	}
	for b, weights := range s.output {
		c.output[b] = slices.Clone(weights)
	}
	return c
}

// pathsOf names each block of a prompt by itself and all before it.
func pathsOf(prompt []uint64) []string {
	path, paths := "", []string{}
	for _, b := range prompt {
		path += "/" + strconv.FormatUint(b, 10)
		paths = append(paths, path)
	}
	return paths
}

// add makes the blocks of a booking live; output holds what it brings along.
func (s *blocks) add(b *booking, output []int64) {
	for _, p := range pathsOf(b.request.Blocks) {
		if s.prompt[p] == nil {
			s.prompt[p] = &block{weight: whole}
		}
		s.prompt[p].holders++
	}
	s.output[b] = output
}

// drop takes the blocks of a booking off and returns its output blocks.
func (s *blocks) drop(b *booking) []int64 {
	for _, p := range pathsOf(b.request.Blocks) {
		if s.prompt[p].holders--; s.prompt[p].holders == 0 {
			delete(s.prompt, p)
		}
	}
	output := s.output[b]
	delete(s.output, b)
	return output
}

// decay adds an output block and gives it, all of the booking's output blocks
// and those prompt blocks that only it holds a weight.
func (s *blocks) decay(b *booking, fraction float64) {
	weight := int64(math.Round(fraction * whole))
	s.output[b] = append(s.output[b], 0)
	for i := range s.output[b] {
		s.output[b][i] = weight
	}
	for _, p := range pathsOf(b.request.Blocks) {
		if s.prompt[p].holders == 1 {
			s.prompt[p].weight = weight
		}
	}
}

// requests counts the bookings.
func (s *blocks) requests() int64 { return int64(len(s.output)) }

// active sums the weights, halves rounded up.
func (s *blocks) active() int64 {
	sum := int64(0)
	for _, b := range s.prompt {
		sum += b.weight
	}
	for _, output := range s.output {
		for _, weight := range output {
			sum += weight
		}
	}
	return (sum + whole/2) / whole
}

// additional counts the blocks of a prompt beyond its longest live prefix.
func (s *blocks) additional(prompt []uint64) int64 {
	live := 0
	for _, p := range pathsOf(prompt) {
		if s.prompt[p] == nil {
			break
		}
		live++
	}
	return int64(len(prompt) - live)
}
