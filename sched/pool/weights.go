package pool

import (
	"math"

	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// IndexWeights returns the weights of a load in the KV cost, all 0 if they are not
// whole: then the order by cost need not be the order by key.
func IndexWeights(p selector.Params) shards.Weights {
	request := float64(p.BlockSize) * p.RequestWeight
	if p.PrefillScale != math.Trunc(p.PrefillScale) || request != math.Trunc(request) ||
		max(p.PrefillScale, float64(p.BlockSize), request) > maxWeight {
		return shards.Weights{}
	}
	return shards.Weights{Prefill: int64(p.PrefillScale), Block: p.BlockSize, Request: int64(request)}
}

// maxWeight keeps weighted sums exact.
const maxWeight = 1 << 20

// maxExact bounds the numbers whose products with a block size are still exact
// as float64.
const maxExact = 1 << 31

// costOf returns what a rank without overlap costs that has the key.
func (l *Look) costOf(d shards.Dimension, key int64) float64 {
	weights := l.World.Index.Weights()
	switch {
	case !shards.Known(key):
		return math.Inf(1)
	case d == shards.ByRequests:
		return float64(key)
	case d == shards.ByCost:
		key += weights.Prefill * l.Request.ISL
	}
	return float64(key + weights.Block*int64(len(l.Request.Blocks)-l.indexed.common))
}
