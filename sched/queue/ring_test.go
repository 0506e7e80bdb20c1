package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The ring is a list in which classes go to the back and to the front, and any two
// can be compared, however often they have moved.
func TestRingIsAList(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 5; n++ {
		q := New[string](quanta(make([]int64, n)...))
		rnd := rand.New(rand.NewPCG(uint64(n), 15))
		want := slices.Clone(q.classes)
		for range 3_000 {
			i := rnd.IntN(n)
			c := want[i]
			want = slices.Delete(want, i, i+1)
			if rnd.IntN(2) == 0 {
				q.ring.toBack(c)
				want = append(want, c)
			} else {
				q.ring.toFront(c)
				want = slices.Insert(want, 0, c)
			}
			c = q.ring.head
			for i, w := range want {
				if c != w || c.after.before != c {
					t.Fatalf("class %d is at %d, want %d", c.index, i, w.index)
				}
				if i > 0 && (!q.ring.less(want[i-1], c) || q.ring.less(c, want[i-1])) {
					t.Fatalf("class %d does not stand before class %d", want[i-1].index, c.index)
				}
				c = c.after
			}
		}
	}
}
