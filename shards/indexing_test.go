package shards_test

import (
	"testing"

	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Between Reindex and Shown, while ranks come, go or are hidden, the index is not
// used; nor is one that was retired.
func TestIndexIsNotUsedWhileItIsChanged(t *testing.T) {
	t.Parallel()
	env := timeless()
	var workers []shards.Worker
	for id := range uint64(shards.IndexedFrom) {
		workers = append(workers, worker(id))
	}
	table := with(t, shards.NewTable(), env, workers...)
	usable := func(x *shards.LoadIndex) bool {
		_, ok := x.Begin()
		return ok
	}
	weights := shards.Weights{Prefill: 1, Block: 1}
	index := table.Reindex(nil, weights)
	if index == nil || usable(index) {
		t.Fatalf("a new index, %v, is used before its ranks are shown", index)
	}
	if table.Shown(index); !usable(index) {
		t.Fatal("not used though shown")
	}
	epoch, _ := index.Begin()
	hidden := table.WithOverloaded([]uint64{1})
	if hidden.Reindex(index, weights) != index || usable(index) {
		t.Fatal("used while a rank is about to be hidden")
	}
	if hidden.Shown(index); !usable(index) || index.Holds(epoch) {
		t.Fatal("a look that began before the change holds")
	}
	if small := with(t, shards.NewTable(), env, worker(1)); small.Reindex(index, weights) != nil || usable(index) {
		t.Fatal("a retired index is used")
	}
}
