package sched

import (
	"time"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// RankID names one data-parallel rank of a worker, the unit that is loaded,
// booked and pinned. It has the fields Worker (uint64) and Rank (uint32) and is
// written worker/rank.
type RankID = lifecycle.RankID

// Overlap says how many leading blocks of a prompt one rank already holds in
// each cache tier. It has the fields Rank (RankID) and Device, Host and Disk
// (float64, in blocks, finite and not negative).
type Overlap = lifecycle.Overlap

// Request describes one request to be scheduled. The zero value of every field
// but ID is valid and means "nothing asked".
//
// The scheduler copies what it keeps: a Request may be changed or used again as
// soon as the call that got it has returned.
type Request struct {
	// ID names the request. It must not be empty and must be unique among the
	// requests that wait or are booked; Select does not look at it.
	ID string

	// ISL is the input sequence length in tokens, at least 0. Queueing counts it: a
	// request of 0 tokens never makes a rank busy.
	ISL int64
	// ExpectedOSL is the expected output length in tokens, 0 for unknown. The prefill
	// estimator receives it; it is reported, and has no other use.
	ExpectedOSL int64
	// Blocks holds one hash per full prompt block. Each commits to its whole
	// prefix, so that equal hashes mean equal ancestry. More of them than ISL has room
	// for are accepted, see Overlaps.
	Blocks []uint64
	// Overlaps lists the ranks that hold part of the prompt in a cache. A rank
	// that is not listed holds nothing; one may be listed only once.
	//
	// ISL, Blocks and Overlaps are not held against each other: they come from a
	// tokenizer and from an index of the engines' caches, which may count a chat template,
	// an image or a block size differently, and a request must not fail for that. Each is
	// taken as it stands: Blocks are the KV blocks that the request loads, and what is
	// cached never exceeds ISL.
	Overlaps []Overlap

	// Class names the policy class or the class family. Unknown or empty means
	// the default family.
	Class string
	// Priority is strict: a higher one goes first within its class.
	Priority uint32
	// Jump advances the request in its class by so many seconds. It must be
	// finite; a negative one counts as 0.
	Jump float64
	// Due is the time, on the scheduler's clock, by which the request must have
	// been admitted; the zero time means none. The context's deadline is watched
	// as well, on the context's own clock.
	Due time.Time
	// DoNotQueue refuses with ErrWouldQueue a request that would have to wait.
	DoNotQueue bool

	// Pin admits the request to this rank only. An explicit pin is never
	// rerouted.
	Pin *RankID
	// Prefer chooses this rank if it is eligible.
	Prefer *RankID
	// Allowed lists the workers that may be chosen; nil allows all, an empty
	// list allows none.
	Allowed []uint64
	// Excluded lists workers that must not be chosen.
	Excluded []uint64
	// tried is how many at the end of Excluded Do has put there.
	tried int
	// RequiredTaints lists taints a worker must have.
	RequiredTaints []string
	// PreferredTaints gives a weight to each taint: positive draws the request
	// towards workers that have it, negative away. Weights must be finite.
	PreferredTaints map[string]float64

	// NoPrefillTracking leaves the prefill tokens of this request out of the
	// load of its rank.
	NoPrefillTracking bool
	// ExpectedPrefill is how long the prefill is expected to take, at least 0,
	// so that its load can be taken to decay. Nil means unknown: then the
	// scheduler's estimator is asked, if there is one.
	ExpectedPrefill *time.Duration

	// OverlapCredit, PrefillScale and Temperature override the configuration
	// for this request. They must be finite and not negative.
	OverlapCredit *float64
	PrefillScale  *float64
	Temperature   *float64
}

// Worker describes one inference-engine process.
type Worker struct {
	ID uint64
	// StartRank is the first data-parallel rank this process holds, default 0.
	StartRank uint32
	// Ranks is the number of ranks, 1 to 1024; 0 is invalid. StartRank + Ranks
	// must fit in 32 bits.
	Ranks uint32
	// MaxBatchedTokens is the engine's limit of tokens per batch, which scales
	// the fractional busy threshold. 0 means the default of 10,000,000.
	MaxBatchedTokens int64
	// TotalKVBlocks is the number of KV blocks of a rank, which scales the KV busy
	// threshold; 0 means unknown.
	TotalKVBlocks int64
	// Taints are the labels that requests may require or prefer.
	Taints []string
	// Endpoint is an opaque address that placements on this worker carry.
	Endpoint string
	// Incarnation says which process this is: a name that no other process with the
	// same id has, such as the time at which it started. The first one named holds; a
	// worker announced with another one is another process, which replaces the one
	// before and starts without load. Empty means unknown: then the id must be unique
	// for each process, or a new process is taken for the old one.
	Incarnation string
}

// Placement says where a request was, or would be, put.
type Placement struct {
	Rank RankID
	// Endpoint is the worker's, as it was at the moment of the decision.
	Endpoint string
	// Attempt numbers the booking among those of its request id. It grows with
	// each booking and each transfer of the same id. 0: nothing was booked.
	Attempt uint64
	// CachedTokens are the prompt tokens expected in the rank's cache.
	CachedTokens int64
	// Overlap holds the blocks cached on the rank, per tier.
	Overlap Overlap
	// PotentialDecodeBlocks are the KV blocks active on the rank with this
	// request on it, as projected at the moment of the decision.
	PotentialDecodeBlocks int64
}

// RankLoad is the load of one rank at one moment.
type RankLoad struct {
	Rank RankID `json:"rank"`
	// PrefillTokens are the tokens whose prefill is not done, decay applied.
	PrefillTokens int64 `json:"prefill_tokens"`
	// Blocks are the active KV blocks, halves rounded up.
	Blocks int64 `json:"blocks"`
	// Requests are the live bookings.
	Requests int64 `json:"requests"`
	// TotalKVBlocks repeats what the worker announced; 0 means unknown.
	TotalKVBlocks int64 `json:"total_kv_blocks,omitempty"`
	// Peers is the part of the three that other schedulers cause, as far as they said:
	// see SetPeerLoads.
	Peers PeerLoad `json:"peers,omitzero"`
}
