package sched

import (
	"context"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched/internal/overlaps"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// finishGrant is the owner's part of a grant: it looks the overlap up again if
// the request waited long, and then whether the owner still wants it.
func (s *Scheduler) finishGrant(ctx context.Context, j *job) (Placement, error) {
	placement := j.placement
	if !j.query && s.refresher != nil && s.config.RefreshAfter > 0 &&
		j.waitedFor() > s.config.RefreshAfter && len(j.request.Blocks) > 0 {
		placement = s.refreshOverlap(ctx, j, placement)
		if j.due != queue.NoDue && j.due <= s.now() {
			return Placement{}, pastDue(j.id)
		}
	}
	if err := ctx.Err(); err != nil {
		return Placement{}, contextError(j.id, err)
	}
	return placement, nil
}

// refreshOverlap looks the overlap of a request up again that was booked with what was
// known when it arrived. If the fresh scores choose another rank the booking is moved
// there, else its tokens are corrected. No other caller waits for the look-up; if it
// fails, the old scores stand.
func (s *Scheduler) refreshOverlap(ctx context.Context, j *job, placement Placement) Placement {
	fresh, err := s.askRefresher(ctx, append([]uint64(nil), j.request.Blocks...))
	if err != nil {
		return placement
	}
	checked := Request{ID: j.id, Overlaps: fresh}
	var derived pool.Request
	if err := checked.derive(&s.params, &derived); err != nil {
		return placement
	}
	rec, r := j.record, &j.request
	r.Overlaps = derived.Overlaps
	kept := overlaps.Keep(derived.Overlaps, placement.Rank)
	l := s.looks.Get().(*pool.Look)
	defer s.putLook(l)
	m := move{
		rec: rec, attempt: placement.Attempt, look: l, request: r,
		class: func(w *pool.World) int { return w.Profile.Classify(j.class, max(0, j.entry.Raw-j.entry.Cached)) },
	}
	moved, err := s.move(&m, func(*shards.Shard) { rec.overlaps = kept })
	if err != nil {
		// It stays, or has ended meanwhile.
		return s.correct(rec, placement)
	}
	s.loadFell()
	return moved
}

// correct gives a booking that stays where it is the tokens that follow from its
// overlaps.
func (s *Scheduler) correct(rec *record, placement Placement) Placement {
	shard, err := s.lockLive(rec, placement.Attempt)
	if err != nil {
		return placement
	}
	o := rec.overlaps.Overlap(shard.ID())
	rec.Cached = s.params.Tiers.CachedTokens(o.Device, o.Host, o.Disk, s.params.BlockSize, rec.ISL)
	shard.SetTokensLocked(&rec.Booking, max(0, rec.ISL-rec.Cached))
	placement = rec.placementLocked(shard)
	shard.Unlock()
	s.loadFell()
	return placement
}

func (s *Scheduler) askRefresher(ctx context.Context, blocks []uint64) (found []Overlap, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("overlap refresher panicked: %v", p)
			s.hookPanicked(hookRefresher, p)
		}
	}()
	return s.refresher(ctx, blocks)
}
