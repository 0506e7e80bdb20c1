package sched

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// SetAside sets a worker aside for a time: until then it counts as overloaded,
// whatever the overloaded set says. It is for a worker that fails: one that refuses
// fast is always the least loaded, and would get the next hundred requests. Of several
// calls the latest end holds; a time of 0 ends it at once. Removal ends it too. An
// unknown id is ErrNotFound, a negative time ErrInvalid.
func (s *Scheduler) SetAside(worker uint64, d time.Duration) error {
	return s.SetAsideIncarnation(worker, "", d)
}

// SetAsideIncarnation is SetAside for a worker if it is the process of that
// incarnation, or if either is not known. If it is another, nothing changes and the
// error is ErrStaleIncarnation.
func (s *Scheduler) SetAsideIncarnation(worker uint64, incarnation string, d time.Duration) error {
	if d < 0 {
		return &Error{
			Code: ErrInvalid, Worker: worker, HasWorker: true, Rule: fmt.Sprintf("time aside %v: must not be negative", d),
		}
	}
	return s.change(func(world *pool.World) ([]*shards.Shard, error) {
		if err := known(world.Table, worker, incarnation); err != nil {
			return nil, err
		}
		if d == 0 {
			world.Table = world.Table.WithoutAside(worker)
		} else {
			world.Table = world.Table.WithAside(worker, later(s.now(), d))
		}
		return nil, nil
	})
}

// later returns now + d, before the end of time.
func later(now int64, d time.Duration) int64 {
	const last = shards.NeverEnds - 1
	if now > last-int64(d) {
		return last
	}
	return now + int64(d)
}

// current returns the world as of now. A world in which the time of a worker that is
// set aside has come is replaced first, by the first caller that needs a world after
// that; a timer sees to it only while requests wait. So nothing else has to know that
// a worker may be overloaded for a time.
func (s *Scheduler) current() *pool.World {
	w := s.world.Load()
	if w.Table.AsideEnd() == shards.NeverEnds {
		return w
	}
	return s.worldAt(s.now())
}

// errStands says that there is nothing to replace.
var errStands = errors.New("the world stands")

// worldAt returns the world as of an instant.
func (s *Scheduler) worldAt(now int64) *pool.World {
	w := s.world.Load()
	if now < w.Table.AsideEnd() {
		return w
	}
	_ = s.replace(func(world *pool.World) ([]*shards.Shard, error) {
		if now < world.Table.AsideEnd() {
			return nil, errStands // another caller was here first
		}
		world.Table = world.Table.WithoutAsides(now)
		return nil, nil
	})
	return s.world.Load()
}
