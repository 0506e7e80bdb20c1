package sched_test

import (
	"context"
	"errors"
	"fmt"
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

// A worker is taken out without hurting anybody: nothing new, wait for what
// runs, remove.
func ExampleScheduler_DrainWorker() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	_ = s.UpsertWorker(sched.Worker{ID: 2, Ranks: 1})
	running := booked(s, &sched.Request{ID: "running", Pin: &sched.RankID{Worker: 1}})

	_ = s.DrainWorker(1, true)
	p, _ := s.Select(context.Background(), &sched.Request{})
	fmt.Println("new requests go to", p.Rank, "and", running.ID(), "goes on:", running.Err() == nil)

	busy := func() bool {
		for _, load := range s.Loads() {
			if load.Rank.Worker == 1 && load.Requests > 0 {
				return true
			}
		}
		return false
	}
	go func() { _ = running.Release() }()
	for busy() {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("removed:", s.RemoveWorker(1))
	// Output:
	// new requests go to 2/0 and running goes on: true
	// removed: <nil>
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
