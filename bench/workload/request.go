// Package workload holds the requests that a replay sends: their form, a seeded
// generator of them, and what there is to say about a list of them.
package workload

import "time"

// The policy classes a request may name. Live requests are to be admitted
// whatever the load; batch requests can wait.
const (
	ClassLive  = "live"
	ClassBatch = "batch"
)

// liveShare: one conversation (or one request of a trace) in so many is live.
const liveShare = 4

// Request is one request, generated or read from a trace.
type Request struct {
	// At is when it arrives, from the start of the workload.
	At time.Duration
	// ISL and OSL are the input and output lengths in tokens.
	ISL, OSL int64
	// Blocks holds one hash per prompt block. Each commits to its whole prefix.
	// A trace may end with one for a block that the prompt fills only in part.
	Blocks []uint64
	// Conversation numbers the conversation it is a turn of, from 1; 0 is
	// unknown.
	Conversation int64
	// Class is the policy class it asks for.
	Class string
}

// FullBlocks returns the hashes of the blocks that the prompt fills.
func (r *Request) FullBlocks(block int64) []uint64 {
	return r.Blocks[:min(int64(len(r.Blocks)), r.ISL/block)]
}

// AssignClasses gives a class to each request that has none, by its place and
// the seed alone, in the same shares as the generator.
func AssignClasses(requests []Request, seed uint64) {
	for i := range requests {
		if requests[i].Class == "" {
			requests[i].Class = classOf(mix(seed, uint64(i)))
		}
	}
}

func classOf(draw uint64) string {
	if draw%liveShare == 0 {
		return ClassLive
	}
	return ClassBatch
}

// mix hashes two words into one (the finaliser of SplitMix64 over their sum).
func mix(a, b uint64) uint64 {
	z := a*0x9e3779b97f4a7c15 + b + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
