package selector

import (
	"errors"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

var (
	// ErrNonFinite is matched by every [*CostError].
	ErrNonFinite = errors.New("selector: non-finite cost")
	// ErrNoCandidates is returned for an [Input] without candidates, or none that may
	// be chosen. A custom selector returns an error that matches it if it wants none of
	// them.
	ErrNoCandidates = errors.New("selector: no candidates")
)

// RankID names one data-parallel rank of a worker. It has the fields Worker (uint64)
// and Rank (uint32), is written worker/rank, and is the same type as sched.RankID.
type RankID = lifecycle.RankID

// CostError says that the cost of a candidate is NaN or infinite. No choice is
// made then, not even among the others.
type CostError struct {
	Rank RankID
	Cost float64
}

// Error returns the text of the error.
func (e *CostError) Error() string {
	return fmt.Sprintf("%v: %v on rank %v", ErrNonFinite, e.Cost, e.Rank)
}

// Unwrap returns [ErrNonFinite].
func (e *CostError) Unwrap() error { return ErrNonFinite }

// Ties says which rank is chosen among the best when there are several.
type Ties uint8

const (
	// TiesRandom gives each of them the same chance. It is the default.
	TiesRandom Ties = iota
	// TiesLowest takes the lowest worker, then the lowest rank.
	TiesLowest
)

// Rand is a source of random bits, for example [math/rand/v2.Rand]. It is used
// by one Pick at a time.
type Rand interface {
	// Uint64 returns 64 uniform bits.
	Uint64() uint64
}

// Role says which part of a request a pool computes.
type Role uint8

const (
	// RoleBoth computes prompts and output. It is the default.
	RoleBoth Role = iota
	// RoleDecode computes output alone: the prompt was computed elsewhere, and what
	// of it is cached here need not be brought.
	RoleDecode
)

// Params are the weights of the cost and the way to choose by it. Zero values are taken
// as they stand; the code that fills them in applies the defaults.
type Params struct {
	// BlockSize (B) is the number of tokens in a block, at least 1.
	BlockSize int64
	// OverlapCredit (c) scales the credit for device blocks. Finite, not
	// negative; the usual value is 1.
	OverlapCredit float64
	// PrefillScale (s) scales the prompt work left after the credit. Finite, not
	// negative; the usual value is 1.
	PrefillScale float64
	// CreditDecay (k) lets the device credit fall on a rank that has more prompt
	// work than the least loaded: at 1, by half for each excess as large as the
	// request. Finite, not negative; 0, the usual value, is no decay.
	CreditDecay float64
	// RequestWeight (a) is the cost of an active request, in blocks. Finite, not
	// negative; the usual value is 0.
	RequestWeight float64
	// Temperature (τ) softens the choice by cost. Finite; at 0, the usual value,
	// and below the least cost wins.
	Temperature float64
	// Ties is used at temperature 0.
	Ties Ties
	// Role is what the pool computes.
	Role Role
	// Tiers weighs cached blocks by where they lie.
	Tiers TierWeights
}

// Candidate is what a selector knows of one rank: its load as projected for the
// request, and what the request would find cached there.
type Candidate struct {
	Rank RankID

	// ActivePrefill is the prompt work not yet done, in tokens.
	ActivePrefill int64
	// ActiveBlocks is the number of blocks held now.
	ActiveBlocks int64
	// Requests is the number of requests booked.
	Requests int64
	// PotentialBlocks is ActiveBlocks and the blocks the request would add.
	PotentialBlocks int64

	// Device, Host and Disk are the leading prompt blocks cached in each tier.
	// Finite, not negative.
	Device, Host, Disk float64
	// TaintWeight is the sum of the weights of those preferred taints that the
	// worker has; 0 if it has none.
	TaintWeight float64

	// Version changes with the load of the rank. It has no order.
	Version uint64
}

// Input is one question to a selector. Its owner may use it again; a selector
// keeps nothing of it and changes nothing in it but Scratch. What a selector does
// not need, as it may declare by [Declarer], is left zero.
type Input struct {
	Params Params
	// ISL is the input sequence length, in tokens, at least 0.
	ISL int64
	// TrackPrefill says whether the request counts as prompt work.
	TrackPrefill bool
	// Candidates are the ranks that may be chosen, at least one, each once, in
	// the order of worker, then rank.
	Candidates []Candidate
	// LeastPrefill is the least ActivePrefill of the eligible ranks, in tokens.
	LeastPrefill int64
	// Workers are the candidates' workers, each at the place of its candidate.
	Workers []Worker
	// Request is what is known of the request.
	Request Facts
	// Rand is not asked when there is nothing to draw.
	Rand Rand
	// Scratch is room for a selector to work in, which may make it longer: it comes
	// back with the next question. [KV] at a temperature above 0 makes it as long as
	// the candidates.
	Scratch []float64
}

// Pick is the answer of a selector.
type Pick struct {
	// Index is the place of the choice in [Input.Candidates].
	Index int
	// Cost is what the choice was made by: tokens for [KV], active requests for
	// [LeastLoaded] and [PowerOfTwo], 0 for the others.
	Cost float64
	// RunnerUp is the least cost among the others that were compared, +Inf if
	// there were none. It is read of the selectors of this package only, as are
	// Exact and Mark.
	RunnerUp float64
	// Exact says that the choice may have depended on every bit that was read: it
	// stands only while the version of the chosen rank does.
	Exact bool
	// Mark is for the own use of a [Tracker], to know in Booked what it saw in
	// Pick.
	Mark uint64

	seen *RankID
}

// Selector chooses a rank. It is safe for concurrent use. It may be called by the
// holder of the scheduler's turn: it must not wait for the scheduler, nor end its
// goroutine. It may also be a [Declarer] and a [Scorer].
type Selector interface {
	// Pick chooses one of the candidates and changes no state that others see. The
	// cost it gives must be finite.
	Pick(in *Input) (Pick, error)
}

// Confirmer is a [Selector] whose choice can outlive a change of the chosen
// rank. The scheduler asks it only of the selectors of this package, because it
// does so under the rank's lock; for any other the version of that rank must be
// the same.
type Confirmer interface {
	// Confirm says whether p, made from in, still stands, given the numbers of
	// the chosen rank read afresh.
	Confirm(in *Input, p Pick, fresh Candidate) bool
}

// Tracker is a [Selector] with state that bookings move. Like a [Confirmer] it
// is asked under the rank's lock, and only of the selectors of this package;
// any other keeps its state itself, in Pick.
type Tracker interface {
	// Booked takes note that rank is being booked. If the state has moved since p
	// was made it changes nothing and returns false: pick again. With force, for
	// a rank that was settled without Pick, p is not looked at and the result is
	// true.
	Booked(in *Input, p Pick, rank RankID, force bool) bool
}

// Builtin reports whether s is one of the selectors of this package.
func Builtin(s Selector) bool {
	switch s.(type) {
	case kv, leastLoaded, powerOfTwo, random, *roundRobin:
		return true
	default:
		return false
	}
}

// Load says by which part of a rank's own load a selector chooses among ranks
// that differ in nothing else.
type Load uint8

const (
	// LoadOther means: by another, or it is not known.
	LoadOther Load = iota
	// LoadCost means: by the load's part of the KV cost.
	LoadCost
	// LoadRequests means: by the active requests.
	LoadRequests
	// LoadNone means: by none; any rank is as good, or the next in turn.
	LoadNone
	// LoadTwo means: by the active requests of two that are drawn.
	LoadTwo
)

// LoadOf says by which load s chooses.
func LoadOf(s Selector) Load {
	switch s.(type) {
	case kv:
		return LoadCost
	case leastLoaded:
		return LoadRequests
	case random, *roundRobin:
		return LoadNone
	case powerOfTwo:
		return LoadTwo
	default:
		return LoadOther
	}
}
