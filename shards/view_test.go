package shards

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/seed-3c5df8a4/turnstile/internal/invariants"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

func TestPublishedLoadComesBackWhole(t *testing.T) {
	t.Parallel()
	var p published
	var got lifecycle.Load
	if version := p.read(&got); version != 0 || got != (lifecycle.Load{}) {
		t.Fatalf("version %d, %+v", version, got)
	}
	for i, want := range []lifecycle.Load{
		{Requests: 1, Blocks: 2, Prefill: lifecycle.Prefill{
			Sum: 9, Unmodelled: 1, AnchorTokens: 4, AnchorDuration: lifecycle.NoDuration, HasAnchor: true,
		}},
		{Requests: 1 << 60, Prefill: lifecycle.Prefill{
			Sum: 1<<63 - 1, AnchorTokens: 1, AnchorDuration: 5 * time.Second, AnchorSince: -7, HasAnchor: true,
		}},
		{Blocks: 3},
		{Blocks: 3},
		{},
	} {
		p.write(&want)
		if version := p.read(&got); version != uint64(i+1) || got != want {
			t.Fatalf("version %d, %+v, want %+v", version, got, want)
		}
	}
}

func TestPublishingAllocatesNothing(t *testing.T) {
	s := NewShard(lifecycle.RankID{}, &Env{Now: func() int64 { return 0 }})
	load := lifecycle.Load{}
	if n := testing.AllocsPerRun(100, func() {
		load.Requests++
		s.published.write(&load)
		if s.View().Requests != load.Requests {
			t.Error("another load was read")
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// lockstep is a load all of whose numbers follow from n, so that one that is
// mixed of two shows.
func lockstep(n int64) lifecycle.Load {
	return lifecycle.Load{
		Blocks: n, Requests: n,
		Prefill: lifecycle.Prefill{
			Sum: n, Unmodelled: n, AnchorTokens: n, AnchorDuration: time.Duration(n), AnchorSince: n, HasAnchor: n != 0,
		},
	}
}

// The writer changes all numbers together; readers must never see a mixture, and
// versions only grow.
func TestReadersSeeOneMoment(t *testing.T) {
	// Long enough that readers lose their processor in the middle, many times.
	n := int64(3_000_000)
	if invariants.Enabled { // a write costs many times more under the race detector
		n = 60_000
	}
	if testing.Short() {
		n /= 10
	}
	for _, procs := range []int{2, 8} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			var p published
			var wg sync.WaitGroup
			stop := make(chan struct{})
			for range 4 {
				wg.Go(func() {
					var got lifecycle.Load
					last := uint64(0)
					for reads := 0; ; reads++ {
						version := p.read(&got)
						if version < last {
							t.Errorf("version %d after %d", version, last)
							return
						}
						last = version
						// Every write but the empty one has its version in all numbers.
						if want := lockstep(int64(version)); got != want && got != (lifecycle.Load{}) {
							t.Errorf("version %d: a mixed load %+v", version, got)
							return
						}
						if reads%64 == 0 {
							select {
							case <-stop:
								return
							default:
								runtime.Gosched()
							}
						}
					}
				})
			}
			rnd := rand.New(rand.NewPCG(1, uint64(procs)))
			for v := int64(1); v <= n; v++ {
				load := lockstep(v)
				if rnd.IntN(8) == 0 {
					load = lifecycle.Load{}
				}
				p.write(&load)
				if rnd.IntN(1000) == 0 {
					runtime.Gosched()
				}
			}
			close(stop)
			wg.Wait()
		}()
	}
}
