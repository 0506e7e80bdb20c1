package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type heapMember struct{ key, at int }

func newHeap() *indexHeap[*heapMember] {
	return &indexHeap[*heapMember]{
		less:  func(a, b *heapMember) bool { return a.key < b.key },
		place: func(m *heapMember) *int { return &m.at },
	}
}

// Against a slice that is searched from end to end.
func TestHeapAgainstASlice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		h, model := newHeap(), []*heapMember(nil)
		var out []*heapMember
		for step := range 4000 {
			grow := 5
			if step > 2000 {
				grow = 2 // shrink back, over the bound where memory is given back
			}
			switch n := rnd.IntN(8); {
			case n < grow:
				m := &heapMember{key: rnd.IntN(50), at: -1}
				h.push(m)
				model = append(model, m)
			case len(model) > 0 && n < 7:
				i := rnd.IntN(len(model))
				h.remove(model[i])
				out = append(out, model[i])
				model = slices.Delete(model, i, i+1)
			case len(model) > 0:
				m := model[rnd.IntN(len(model))]
				m.key = rnd.IntN(50)
				h.fix(m)
			}
			if len(out) > 0 {
				m := out[rnd.IntN(len(out))]
				h.remove(m) // not in: nothing happens
				h.fix(m)
				if m.at != -1 {
					t.Fatalf("seed %d, step %d: a member that is out has place %d", seed, step, m.at)
				}
			}
			if h.len() != len(model) {
				t.Fatalf("seed %d, step %d: %d members, want %d", seed, step, h.len(), len(model))
			}
			if len(model) == 0 {
				continue
			}
			least := slices.MinFunc(model, func(a, b *heapMember) int { return a.key - b.key })
			if h.top().key != least.key {
				t.Fatalf("seed %d, step %d: least is %d, want %d", seed, step, h.top().key, least.key)
			}
			for i, m := range h.members {
				if m.at != i {
					t.Fatalf("seed %d, step %d: the member at %d believes to be at %d", seed, step, i, m.at)
				}
			}
		}
	}
}

func TestHeapGivesMemoryBack(t *testing.T) {
	t.Parallel()
	h := newHeap()
	var members []*heapMember
	for i := range 10_000 {
		m := &heapMember{key: i, at: -1}
		members = append(members, m)
		h.push(m)
	}
	for _, m := range members {
		h.remove(m)
	}
	if cap(h.members) > 64 {
		t.Fatalf("room for %d is kept", cap(h.members))
	}
}
