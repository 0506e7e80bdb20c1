package actor_test

import (
	"context"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// shadow keeps a scheduler beside an actor, which goes on deciding: what the
// actor booked is booked there too, on the same rank.
type shadow struct {
	engine.Engine
	s *sched.Scheduler // without a policy: it only counts
}

func (sh *shadow) Schedule(ctx context.Context, r *sched.Request) (engine.Booking, error) {
	b, err := sh.Engine.Schedule(ctx, r)
	if err != nil {
		return nil, err
	}
	rank, same := b.Placement().Rank, *r
	same.Pin, same.Allowed, same.Excluded = &rank, nil, nil
	if _, err := sh.s.Schedule(ctx, &same); err != nil {
		fmt.Println("shadow:", err) // worth a log line, not worth a request
	}
	return b, nil
}

func (sh *shadow) PrefillDone(id string, attempt uint64) error {
	_ = sh.s.PrefillDone(id, 0)
	return sh.Engine.PrefillDone(id, attempt)
}

func (sh *shadow) Release(id string, attempt uint64) error {
	_ = sh.s.Release(id, 0)
	return sh.Engine.Release(id, attempt)
}

// differs lists the ranks of which the two think differently.
func (sh *shadow) differs() (ranks []sched.RankID) {
	theirs := sh.Loads()
	for i, load := range sh.s.Loads() {
		if load != theirs[i] {
			ranks = append(ranks, load.Rank)
		}
	}
	return ranks
}

// The third step of a migration: the actor decides, the scheduler counts along,
// and their loads are compared.
func Example_shadow() {
	workers := []sched.Worker{{ID: 1, Ranks: 2}, {ID: 2, Ranks: 2}}
	e, err := actor.New(actor.Config{Config: sched.Config{BlockSize: 16}})
	if err != nil {
		panic(err)
	}
	s, err := sched.New(sched.Config{BlockSize: 16})
	if err != nil {
		panic(err)
	}
	sh := &shadow{e, s}
	_, _ = sh.SetWorkers(workers), s.SetWorkers(workers)

	ctx := context.Background()
	for i := range 8 {
		r := &sched.Request{ID: fmt.Sprint("r", i), ISL: int64(100 * i), Blocks: []uint64{1, 2, uint64(10 + i)}}
		if _, err := sh.Schedule(ctx, r); err != nil {
			panic(err)
		}
	}
	for i := range 4 {
		_, _ = sh.PrefillDone(fmt.Sprint("r", i), 0), sh.Release(fmt.Sprint("r", 4+i), 0)
	}
	fmt.Println("they differ on", sh.differs())

	_ = e.Release("r0", 0) // an event that goes past the shadow
	fmt.Println("they differ on one rank:", len(sh.differs()) == 1)
	_ = sh.Close()
	// Output:
	// they differ on []
	// they differ on one rank: true
}
