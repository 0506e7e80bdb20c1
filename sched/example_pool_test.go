package sched_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// What engines report of themselves comes in as a set of overloaded workers: any
// source will do, here the share of KV blocks in use.
func ExampleScheduler_SetOverloaded() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	_ = s.UpsertWorker(sched.Worker{ID: 2, Ranks: 1})

	// Called each time the engines' metrics have been read.
	report := func(kvInUse map[uint64]float64) {
		var overloaded []uint64
		for worker, share := range kvInUse {
			if share > 0.95 {
				overloaded = append(overloaded, worker)
			}
		}
		_ = s.SetOverloaded(overloaded) // replaces the set
	}
	try := func() {
		p, err := s.Select(context.Background(), &sched.Request{ISL: 100})
		fmt.Println(p.Rank.Worker, errors.Is(err, sched.ErrOverloaded))
	}
	report(map[uint64]float64{1: 0.99, 2: 0.40})
	try()
	report(map[uint64]float64{1: 0.99, 2: 0.97})
	try()
	report(map[uint64]float64{1: 0.30, 2: 0.97})
	try()
	// Output:
	// 2 false
	// 0 true
	// 1 false
}

// A pool is replaced whole in one step: the old workers keep what they have and get
// nothing new, and whoever waits goes to the new ones. In two steps, and in whatever
// order, there is a moment in which nobody is eligible, and all who wait fail.
func ExampleScheduler_SetWorkers_replaced() {
	s, _ := sched.New(sched.Config{BlockSize: 16, Policy: mustParse(oneAtATime)})
	old := []sched.Worker{{ID: 1, Ranks: 1}}
	_ = s.SetWorkers(old)
	running := booked(s, &sched.Request{ID: "running", ISL: 100})
	waiting := make(chan string)
	go func() {
		b, err := s.Schedule(context.Background(), &sched.Request{ID: "waiting", ISL: 100})
		if err != nil {
			waiting <- err.Error()
			return
		}
		waiting <- fmt.Sprint(b.Placement().Rank)
	}()
	untilWaiting(s, 1)

	fresh := []sched.Worker{{ID: 2, Ranks: 1}}
	ids := []uint64{1} // of the old
	// Sets of before name workers of before: they are replaced as well.
	err := s.SetWorkers(append(fresh, old...),
		sched.AlsoAvailable(nil), sched.AlsoOverloaded(nil), sched.AlsoDraining(ids))
	fmt.Println("waiting:", <-waiting, err)

	fmt.Println("running:", running.Release())
	_ = s.SetWorkers(fresh) // once the old have nothing left
	// Output:
	// waiting: 2/0 <nil>
	// running: <nil>
}

// Discovery gives the whole pool at once. Ranks that stay keep their load.
func ExampleScheduler_SetWorkers() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.SetWorkers([]sched.Worker{{ID: 1, Ranks: 1}, {ID: 2, Ranks: 1}})
	booked(s, &sched.Request{ID: "r", ISL: 100, Pin: &sched.RankID{Worker: 1}})

	_ = s.SetWorkers([]sched.Worker{{ID: 1, Ranks: 1}, {ID: 3, Ranks: 2}})
	for _, load := range s.Loads() {
		fmt.Println(load.Rank, load.Requests)
	}
	err := s.SetWorkers([]sched.Worker{{ID: 4, Ranks: 1}, {ID: 5}}) // one is invalid: nothing changes
	fmt.Println(err)
	// Output:
	// 1/0 1
	// 3/0 0
	// 3/1 0
	// turnstile: invalid: worker 5: 0 ranks: must be 1 to 1024
}

// takeOut takes a worker out without failing a request: drain it, wait until it has
// no booking, remove it. If ctx ends first, Booking.Done tells the owners that are left.
func takeOut(ctx context.Context, s *sched.Scheduler, id uint64) error {
	if err := s.DrainWorker(id); err != nil {
		return err
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for busy(s, id) && ctx.Err() == nil {
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	return s.RemoveWorker(id)
}

func busy(s *sched.Scheduler, id uint64) bool {
	return slices.ContainsFunc(s.Loads(), func(l sched.RankLoad) bool { return l.Rank.Worker == id && l.Requests > 0 })
}

// A worker that drains takes nothing new and keeps what it has.
func ExampleScheduler_DrainWorker() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	_ = s.UpsertWorker(sched.Worker{ID: 2, Ranks: 1})
	running := booked(s, &sched.Request{ID: "running", Pin: &sched.RankID{Worker: 1}})

	removed := make(chan error)
	go func() { removed <- takeOut(context.Background(), s, 1) }()
	for { // until it drains
		if p, _ := s.Select(context.Background(), &sched.Request{Excluded: []uint64{2}}); p.Rank.Worker == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("goes on:", running.Err() == nil)
	_ = running.Release()
	fmt.Println("removed:", <-removed, running.Err())
	// Output:
	// goes on: true
	// removed: <nil> <nil>
}

// A request that is streaming from a worker that is removed is told at once, and
// what comes back under the same id starts empty.
func ExampleScheduler_RemoveWorker() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	b := booked(s, &sched.Request{ID: "r", ISL: 100})
	_ = s.RemoveWorker(1)
	<-b.Done()
	fmt.Println(b.Err())
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	fmt.Println(errors.Is(b.PrefillDone(), sched.ErrUnchanged), s.Loads()[0].PrefillTokens)
	// Output:
	// worker-removed
	// true 0
}

// Shutdown refuses new requests and lets those who wait have their turn, as long
// as its context allows. Bookings are their owners' to release.
func ExampleScheduler_Shutdown() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	b := booked(s, &sched.Request{ID: "r", ISL: 100})

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(s.Shutdown(ctx))
	_, err := s.Schedule(ctx, &sched.Request{ID: "late"})
	fmt.Println(errors.Is(err, sched.ErrClosed), s.Stats().Live)
	fmt.Println(b.Release(), s.Stats().Live)
	// Output:
	// <nil>
	// true 1
	// <nil> 0
}
