package shards_test

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Whatever is said of three workers, the table says of each until when it is aside,
// and what is the first end.
func TestAside(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	env := timeless()
	table := with(t, shards.NewTable(), env, worker(1), worker(2), worker(3))
	until := map[uint64]int64{}
	for range 3000 {
		id := 1 + rnd.Uint64N(3)
		switch rnd.IntN(8) {
		case 0:
			table = table.WithoutAside(id)
			delete(until, id)
		case 1:
			now := rnd.Int64N(100)
			table = table.WithoutAsides(now)
			for id, end := range until {
				if end <= now {
					delete(until, id)
				}
			}
		case 2:
			table, _, _ = table.Without(id)
			table = with(t, table, env, worker(id))
			delete(until, id)
		case 3: // an update of the same process
			table = with(t, table, env, worker(id, "taint"))
		default:
			end := 1 + rnd.Int64N(100)
			table = table.WithAside(id, end)
			until[id] = max(until[id], end)
		}
		first := int64(shards.NeverEnds)
		for id := uint64(1); id <= 3; id++ {
			end, aside := table.Aside(id)
			if want, ok := until[id]; end != want || aside != ok {
				t.Fatalf("worker %d: aside until %d (%t), want %d", id, end, aside, want)
			}
			from, _ := table.WorkerSlots(id)
			if table.Slots()[from].Overloaded != aside {
				t.Fatalf("worker %d: aside %t, overloaded %t", id, aside, !aside)
			}
			if aside {
				first = min(first, end)
			}
		}
		if table.AsideEnd() != first {
			t.Fatalf("the first end is %d, want %d", table.AsideEnd(), first)
		}
	}
}

// A table tells processes apart when both are known.
func TestIncarnations(t *testing.T) {
	t.Parallel()
	named := func(incarnation string) shards.Worker {
		w := worker(1)
		w.Incarnation = incarnation
		return w
	}
	for _, test := range []struct {
		before, after, now string
		another            bool
	}{
		{"", "", "", false},
		{"", "a", "a", false},
		{"a", "", "a", false},
		{"a", "a", "a", false},
		{"a", "b", "b", true},
	} {
		env := timeless()
		table := with(t, shards.NewTable(), env, named(test.before), worker(2))
		table, _ = table.WithDraining(1, true)
		table = table.WithAside(1, 5)
		next, gone, err := table.With([]shards.Worker{named(test.after)}, maker(env))
		if err != nil {
			t.Fatal(err)
		}
		_, aside := next.Aside(1)
		if (len(gone) == 2) != test.another || next.Draining(1) == test.another || aside == test.another {
			t.Errorf("%q to %q: %d ranks are gone, draining %t, aside %t", test.before, test.after, len(gone), next.Draining(1), aside)
		}
		if same := next.Slots()[0].Shard == table.Slots()[0].Shard; same == test.another || next.Slots()[2].Shard != table.Slots()[2].Shard {
			t.Errorf("%q to %q: the same shard: %t", test.before, test.after, same)
		}
		if got := next.Worker(1).Incarnation; got != test.now || table.Worker(1).Incarnation != test.before {
			t.Errorf("%q to %q: %q", test.before, test.after, got)
		}
	}
}
