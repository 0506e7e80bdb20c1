package pool

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// crowdedRand notes how many draw at a time.
type crowdedRand struct{ drawing, most *atomic.Int64 }

func (r crowdedRand) Uint64() uint64 {
	n := r.drawing.Add(1)
	for most := r.most.Load(); n > most && !r.most.CompareAndSwap(most, n); most = r.most.Load() {
	}
	for range 10 {
		runtime.Gosched() // as if it took long
	}
	r.drawing.Add(-1)
	return rand.Uint64()
}

// Of many callers whose selections read all ranks of a large pool, few do so at a
// time; a small pool, a request that needs no such look, and whoever has ranks locked
// ask nobody.
func TestFewLookAtManyRanksAtATime(t *testing.T) {
	t.Parallel()
	p := newIndexedPool(t, 300, rand.New(rand.NewPCG(1, 1)))
	small := newIndexedPool(t, 20, rand.New(rand.NewPCG(1, 1)))
	few := NewFew()
	few.mu.free = 2
	soft := &Request{ISL: 8, Tracked: true, Params: p.params(), Expected: lifecycle.NoDuration}
	soft.Params.Temperature = 1
	var drawing, most atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			l := &Look{Rand: rand.New(rand.NewPCG(1, 2)), Few: few}
			for range 20 {
				l.Take(p.world, soft, -1, At(0))
				_, failed := l.Choose(crowdedRand{&drawing, &most})
				if failed != nil {
					t.Error(failed)
				}
				l.Reset()
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(2))
	require.Equal(t, 2, few.mu.free)

	few.mu.free = 0 // whoever asks now waits for ever
	l := &Look{Rand: rand.New(rand.NewPCG(1, 2)), Few: few}
	l.Take(small.world, soft, -1, At(0))
	plain := *soft
	plain.Params = p.params()
	l.Take(p.world, &plain, -1, At(0))
	l.World, l.Request = p.world, soft
	l.LockEligible()
	l.Retake()
	l.UnlockEligible()
	// A look that ends without a choice gives its place back too.
	few.mu.free = 1
	l.TakeAll(p.world, soft, -1, At(0))
	require.Zero(t, few.mu.free)
	l.Reset()
	require.Equal(t, 1, few.mu.free)
}

// Whoever asked first looks first, and who comes back stands behind all others.
func TestLooksAreTakenInTheOrderInWhichTheyWereAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		few := NewFew()
		few.mu.free = 1
		first := &Look{}
		few.enter(first)
		const n = 5
		var order []int
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				l := &Look{}
				few.enter(l)
				order = append(order, i) // one at a time
				few.leave()
				few.enter(l)
				order = append(order, n+i)
				few.leave()
			})
			synctest.Wait() // until it waits
		}
		few.leave()
		wg.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, slices.Clone(order))
		require.Equal(t, 1, few.mu.free)
	})
}
