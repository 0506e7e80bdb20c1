package actor

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

func contextError(id string, cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return &sched.Error{Code: sched.ErrDeadline, Request: id, Cause: cause}
	}
	return &sched.Error{Code: sched.ErrCanceled, Request: id, Cause: cause}
}

func pastDue(id string) error {
	return &sched.Error{Code: sched.ErrDeadline, Request: id, Rule: "the due time has passed"}
}

func pinNotAllowed(id string, pin sched.RankID) error {
	return &sched.Error{
		Code: sched.ErrPinNotAllowed, Request: id, Worker: pin.Worker, Rank: pin.Rank, HasWorker: true, HasRank: true,
		Rule: "the pinned rank's worker must be in the allowed set",
	}
}

func notLive(id string) error {
	return &sched.Error{Code: sched.ErrNotFound, Request: id, Rule: "no live booking has this id"}
}

func invalidWorker(err error) error {
	if err == nil {
		return nil
	}
	e := &sched.Error{Code: sched.ErrInvalid, Rule: err.Error()}
	var bad *shards.WorkerError
	if errors.As(err, &bad) {
		e.Worker, e.HasWorker, e.Rule = bad.ID, true, bad.Rule
	}
	return e
}

func unknownWorker(id uint64) error {
	return &sched.Error{Code: sched.ErrNotFound, Worker: id, HasWorker: true, Rule: "no such worker"}
}

// known says whether the table has the worker, as the incarnation named.
func known(t *shards.Table, id uint64, incarnation string) error {
	switch w := t.Worker(id); {
	case w == nil:
		return unknownWorker(id)
	case w.Another(incarnation):
		return &sched.Error{
			Code: sched.ErrStaleIncarnation, Worker: id, HasWorker: true,
			Rule: fmt.Sprintf("incarnation %q: the worker's is %q", incarnation, w.Incarnation),
		}
	}
	return nil
}

func placementOf(p *pool.Placed) sched.Placement {
	return sched.Placement{
		Rank: p.Rank, Endpoint: p.Endpoint, CachedTokens: p.Cached, Overlap: p.Overlap,
		PotentialDecodeBlocks: p.Potential,
	}
}
