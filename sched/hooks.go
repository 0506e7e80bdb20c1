package sched

import (
	"context"
	"time"
)

// OverlapRefresher looks up which ranks hold part of a prompt, given its block hashes.
// It is called on the goroutine of the caller that waited, before Schedule returns
// there; no other caller waits for it. ctx is that caller's. If it fails or panics, the
// old overlaps stand. It must not end its goroutine.
type OverlapRefresher func(ctx context.Context, blocks []uint64) ([]Overlap, error)

// PrefillWork is what a prefill estimator receives.
type PrefillWork struct {
	Rank RankID
	// Tokens are to be computed: the input less what the rank has cached.
	Tokens int64
	// ISL and ExpectedOSL are the request's.
	ISL, ExpectedOSL int64
}

// PrefillEstimator says how long a prefill will take, or false if it does not know. It
// must be quick and safe for concurrent use. It is called without locks, but may be
// called by the holder of the turn: it must not wait for the scheduler (Schedule,
// Query, Recheck, Close), nor end its goroutine. A panic counts as not knowing.
type PrefillEstimator func(PrefillWork) (time.Duration, bool)

// hook names a piece of code of the embedder's that may panic.
type hook uint8

const (
	hookEstimator hook = iota
	hookRefresher
	hookDecision
	hookObserver
	hookLogger
	hookClock
	hookDeciding
	hooks // how many there are
)

func (h hook) String() string {
	return [...]string{"prefill estimator", "overlap refresher", "decision hook", "observer", "log handler", "clock", "deciding"}[h]
}
