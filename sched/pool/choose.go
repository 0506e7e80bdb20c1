package pool

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Reason says why no rank was chosen.
type Reason uint8

// The reasons.
const (
	// NoEndpoints: no rank is eligible, overload aside.
	NoEndpoints Reason = iota + 1
	// Overloaded: all eligible ranks are overloaded.
	Overloaded
	// PinnedOverloaded: the pinned rank is overloaded.
	PinnedOverloaded
	// NonFinite: a cost was not finite.
	NonFinite
	// SelectorFailed: a selector of the embedder's returned an error, no rank or a cost
	// that is not finite, or panicked.
	SelectorFailed
)

// Failure says why no rank was chosen.
type Failure struct {
	Reason Reason
	// Rank is the pinned rank or the one that cannot be compared, if HasRank.
	Rank    lifecycle.RankID
	HasRank bool
	Rule    string
	Cause   error
}

// Choice is the rank chosen for a request.
type Choice struct {
	// Candidate is its place among the candidates of the look.
	Candidate int
	// Forced: pinned or preferred, without asking the selector.
	Forced bool
	pick   selector.Pick
}

// Choose picks a rank among the candidates.
func (l *Look) Choose(rnd selector.Rand) (Choice, *Failure) {
	choice, failed := l.choose(rnd)
	l.letOthersLook()
	return choice, failed
}

func (l *Look) choose(rnd selector.Rand) (Choice, *Failure) {
	if len(l.candidates) == 0 {
		return Choice{}, l.noCandidate()
	}
	r := l.Request
	in := &l.input
	in.Params, in.ISL, in.TrackPrefill = r.Params, r.ISL, r.Tracked
	in.Candidates, in.LeastPrefill, in.Rand = l.candidates, l.least(), rnd
	if l.indexed.used {
		in.Candidates, in.LeastPrefill = l.candidates[:l.indexed.choice], min(in.LeastPrefill, l.indexed.least)
	}
	if r.Constraints.Pinned {
		l.Complete(0)
		return Choice{Forced: true}, nil
	}
	if r.HasPrefer {
		if at := l.Find(r.Prefer); at >= 0 {
			l.Complete(at)
			return Choice{Candidate: at, Forced: true}, nil
		}
	}
	var pick selector.Pick
	var err error
	switch {
	case l.indexed.used && l.indexed.inTurn:
		pick = l.indexed.turn
	case l.World.builtin:
		pick, err = l.World.Selector.Pick(in)
	default:
		pick, err = l.pickSafely(l.World.Selector, l.lend())
	}
	if err != nil {
		return Choice{}, l.selectorFailure(err)
	}
	if l.indexed.used && !l.indexed.drawn {
		if pick.Cost > l.indexed.others {
			// The ranks found have become dearer since than others may be.
			l.takeAgain()
			return l.choose(rnd)
		}
		if l.witnessIsBetter(in, pick) {
			l.takeAgain()
			return l.choose(rnd)
		}
		if pick.Cost == pick.RunnerUp {
			pick = l.settleTie(in, pick)
		}
		pick.RunnerUp = min(pick.RunnerUp, l.indexed.others)
	}
	l.Complete(pick.Index)
	return Choice{Candidate: pick.Index, pick: pick}, nil
}

// witnessIsBetter reports whether the rank that shows that the gate is open costs less
// than the choice. It was read after the others: if its load has fallen since they were
// found, no instant is known at which the choice was the least and the gate open.
func (l *Look) witnessIsBetter(in *selector.Input, pick selector.Pick) bool {
	witness := l.candidates[l.indexed.choice:]
	if len(witness) == 0 {
		return false
	}
	found := in.Candidates
	in.Candidates = witness
	seen, err := l.World.Selector.Pick(in)
	in.Candidates = found
	return err == nil && seen.Cost < pick.Cost
}

// selectorFailure says what is wrong. That a cost of the library's own is not
// finite comes from what was asked of it; the rest is the selector's fault, but
// for one that has looked at all candidates and wants none.
func (l *Look) selectorFailure(err error) *Failure {
	var cost *selector.CostError
	switch {
	case errors.As(err, &cost):
		f := &Failure{
			Reason: NonFinite, Rank: cost.Rank, HasRank: true,
			Rule: fmt.Sprintf("cost %v: must be finite", cost.Cost), Cause: err,
		}
		if !l.World.builtin {
			f.Reason = SelectorFailed
		}
		return f
	case errors.Is(err, selector.ErrNoCandidates):
		return &Failure{
			Reason: NoEndpoints, Rule: fmt.Sprintf("the selector wants none of %d eligible ranks", len(l.candidates)), Cause: err,
		}
	}
	return &Failure{Reason: SelectorFailed, Rule: "the selector must choose one of the candidates", Cause: err}
}

// pickSafely turns a panic, a rank that is not there or a cost that cannot be compared
// into an error, so that a custom selector harms only its own request.
func (l *Look) pickSafely(s selector.Selector, in *selector.Input) (pick selector.Pick, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("selector panicked: %v", p)
		}
	}()
	n := len(in.Candidates)
	pick, err = s.Pick(in)
	switch {
	case err != nil:
		// Its methods are the embedder's too, and are called later, in the turn: a nil
		// pointer in an error is soon returned, and here it is caught.
		var cost *selector.CostError
		_, _, _ = err.Error(), errors.Is(err, selector.ErrNoCandidates), errors.As(err, &cost)
	case pick.Index < 0 || pick.Index >= n:
		err = fmt.Errorf("selector chose candidate %d of %d", pick.Index, n)
	case math.IsNaN(pick.Cost) || math.IsInf(pick.Cost, 0):
		err = &selector.CostError{Rank: l.candidates[pick.Index].Rank, Cost: pick.Cost}
	}
	return pick, err
}

// BuiltinSelector reports whether the selector is one of the library's own,
// which may be called under locks.
func (l *Look) BuiltinSelector() bool { return l.World.builtin }

// StandsLocked reports whether a choice still stands, given the rank's load.
// REQUIRES: the lock of the chosen rank.
func (l *Look) StandsLocked(c Choice, load *lifecycle.Load) bool {
	shard := l.Slot(c.Candidate).Shard
	// That a prefix is live on all ranks was not looked up for each of them.
	surmised := l.indexed.used && len(l.Request.Blocks) > 0
	if !surmised && shard.Version() == l.candidates[c.Candidate].Version {
		return true
	}
	depth := 0
	if len(l.Request.Blocks) > 0 {
		depth = shard.LivePrefixLocked(l.Request.Blocks)
	}
	fresh := l.Fresh(c.Candidate, load, depth)
	if c.Forced {
		l.candidates[c.Candidate] = fresh
		return true
	}
	if !l.World.builtin {
		if l.World.needs&(selector.NeedsLoad|selector.NeedsBlocks) != 0 {
			return false
		}
		l.candidates[c.Candidate] = fresh // what has changed was not looked at
		return true
	}
	confirmer, ok := l.World.Selector.(selector.Confirmer)
	if !ok || c.pick.Exact {
		return false
	}
	if !confirmer.Confirm(&l.input, c.pick, fresh) {
		return false
	}
	l.candidates[c.Candidate] = fresh
	return true
}

// TrackLocked tells a selector with state that its choice is being booked. If it
// returns false, pick again. A pinned or preferred rank was not its choice and
// moves nothing. REQUIRES: the lock of the chosen rank.
func (l *Look) TrackLocked(c Choice) bool {
	tracker, ok := l.World.Selector.(selector.Tracker)
	if !ok || c.Forced || !l.BuiltinSelector() {
		return true
	}
	return tracker.Booked(&l.input, c.pick, l.candidates[c.Candidate].Rank, false)
}

func (l *Look) noCandidate() *Failure {
	c := &l.Request.Constraints
	f := &Failure{Reason: NoEndpoints}
	if c.Pinned {
		f.Rank, f.HasRank = c.Pin, true
		f.Rule = "the pinned rank is not eligible: " + l.World.Table.CheckRank(c, c.Pin).String()
	}
	if f.Rule == "" {
		f.Rule = l.whyNone()
	}
	if l.Overloaded > 0 {
		f.Reason, f.Rule = Overloaded, "every eligible rank is overloaded"
		if c.Pinned {
			f.Reason, f.Rule = PinnedOverloaded, "the pinned rank is overloaded"
		}
	}
	return f
}

// whyNone counts which check each rank failed.
func (l *Look) whyNone() string {
	ranked := len(l.World.Table.Slots())
	failed, tried := l.World.Table.CountChecks(&l.Request.Constraints)
	var counts []string
	if tried > 0 {
		counts = append(counts, fmt.Sprintf("%d already tried", tried))
	}
	for check := shards.NotAllowed; check <= shards.Untainted; check++ {
		if n := failed[check]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %v", n, check))
		}
	}
	ranks := "ranks"
	if ranked == 1 {
		ranks = "rank"
	}
	return fmt.Sprintf("%d %s: none eligible (%s)", ranked, ranks, strings.Join(counts, ", "))
}

// Placed describes a candidate as chosen.
type Placed struct {
	Rank      lifecycle.RankID
	Endpoint  string
	Cached    int64
	Overlap   lifecycle.Overlap
	Potential int64
}

// Placed describes a candidate as chosen, until the next call.
func (l *Look) Placed(candidate int) *Placed {
	c, p := &l.candidates[candidate], &l.placed
	p.Cached = 0
	p.Rank, p.Endpoint, p.Potential = c.Rank, l.Slot(candidate).Worker.Endpoint, c.PotentialBlocks
	p.Overlap.Rank, p.Overlap.Device, p.Overlap.Host, p.Overlap.Disk = c.Rank, c.Device, c.Host, c.Disk
	if c.Device != 0 || c.Host != 0 || c.Disk != 0 {
		p.Cached = l.Request.Cached(&p.Overlap)
	}
	return p
}
