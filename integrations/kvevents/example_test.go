package kvevents_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func ExampleIndex() {
	x, err := kvevents.New(kvevents.Config{BlockSize: 4})
	if err != nil {
		panic(err)
	}
	s, err := sched.New(sched.Config{BlockSize: 4}, sched.WithOverlapRefresher(x.Refresh))
	if err != nil {
		panic(err)
	}
	defer func() { _ = s.Close() }()
	for worker := range uint64(2) {
		if err := s.UpsertWorker(sched.Worker{ID: worker, Ranks: 1}); err != nil {
			panic(err)
		}
	}

	// Worker 1 says that it has the first two blocks of a prompt.
	var batch kvevents.Batch
	if err := kvevents.Decode(fromEngine(), &batch); err != nil {
		panic(err)
	}
	if err := x.Apply(sched.RankID{Worker: 1}, &batch); err != nil {
		panic(err)
	}

	tokens := []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	blocks := x.Hashes(nil, kvevents.Namespace{}, tokens)
	b, err := s.Schedule(context.Background(), &sched.Request{
		ID: "r1", ISL: int64(len(tokens)), Blocks: blocks, Overlaps: x.Overlaps(nil, blocks),
	})
	if err != nil {
		panic(err)
	}
	defer func() { _ = b.Release() }()
	fmt.Println(b.Placement().Rank, b.Placement().CachedTokens)
	// Output: 1/0 8
}

func ExampleIndex_Follow() {
	x, err := kvevents.New(kvevents.Config{BlockSize: 16})
	if err != nil {
		panic(err)
	}
	ctx, removed := context.WithCancel(context.Background())
	var following sync.WaitGroup
	for rank := range uint32(2) {
		following.Go(func() {
			err := x.Follow(ctx, kvevents.Source{
				Rank:   sched.RankID{Worker: 7, Rank: rank},
				Events: fmt.Sprintf("tcp://127.0.0.1:%d", 5557+rank),
				Replay: fmt.Sprintf("tcp://127.0.0.1:%d", 6557+rank),
			})
			if err != nil {
				log.Println("this source cannot work:", err)
			}
		})
	}
	removed()
	following.Wait()
	fmt.Println(len(x.Stats()))
	// Output: 0
}
