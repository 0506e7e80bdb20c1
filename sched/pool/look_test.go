package pool

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Everything a look says, worked out rank by rank from the rules. One Look serves
// for all, so that what is left of one would show in the next.
func TestLookAgainstEachRank(t *testing.T) {
	t.Parallel()
	seeds := uint64(1_000)
	if testing.Short() {
		seeds /= 4
	}
	var l Look
	candidates, shared := 0, 0
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 11))
		f := randomFleet(t, rnd)
		r := randomRequest(rnd)
		class := rnd.IntN(f.world.Profile.Len()+1) - 1
		at := At(20 + rnd.Int64N(100))
		now := at.Nanoseconds()
		l.Take(f.world, r, class, at)

		eligible := f.eligible(r)
		overloaded, busy, i := 0, 0, 0
		least := int64(-1)
		for _, slot := range eligible {
			if slot.Overloaded {
				overloaded++
				continue
			}
			have, depth := load(slot.Shard, r.Blocks)
			o := overlapOf(r, slot.Shard.ID())
			want := selector.Candidate{
				Rank: slot.Shard.ID(), ActivePrefill: have.Prefill.Active(now), ActiveBlocks: have.Blocks, Requests: have.Requests,
				PotentialBlocks: have.Blocks + int64(len(r.Blocks)-depth), Device: o.Device, Host: o.Host, Disk: o.Disk,
				Version: slot.Shard.Version(),
			}
			for _, taint := range r.Taints {
				if slices.Contains(slot.Worker.Taints, taint.Taint) {
					want.TaintWeight += taint.Weight
				}
			}
			if i >= l.Candidates() {
				t.Fatalf("seed %d: %v is missing", seed, want.Rank)
			}
			if got := *l.Candidate(i); got != want {
				t.Fatalf("seed %d: candidate %+v, want %+v", seed, got, want)
			}
			isBusy := class >= 0 && f.busyFor(class, slot, want.ActivePrefill)
			if isBusy {
				busy++
			}
			if l.WasBusy(i) != isBusy || l.Slot(i).Shard != slot.Shard || l.Find(want.Rank) != i {
				t.Fatalf("seed %d: %v: busy %t, slot of %v, found at %d", seed, want.Rank, l.WasBusy(i), l.Slot(i).Shard.ID(), l.Find(want.Rank))
			}
			instant := At(now)
			if class >= 0 && instant.Busy(f.world.BusyAbove(class, slot), &have) != isBusy {
				t.Fatalf("seed %d: the world says otherwise of %v", seed, want.Rank)
			}
			if least < 0 || want.ActivePrefill < least {
				least = want.ActivePrefill
			}
			if depth > 0 {
				shared++
			}
			i++
		}
		candidates += i
		if l.Candidates() != i || l.Eligible != len(eligible) || l.Overloaded != overloaded || l.Busy != busy {
			t.Fatalf("seed %d: %d candidates of %d, %d overloaded, %d busy; want %d of %d, %d, %d",
				seed, l.Candidates(), l.Eligible, l.Overloaded, l.Busy, i, len(eligible), overloaded, busy)
		}
		if i > 0 && l.least() != least {
			t.Fatalf("seed %d: least %d, want %d", seed, l.least(), least)
		}
		if class >= 0 && l.MustWait() != f.mustWait(class, busy+overloaded, len(eligible)) {
			t.Fatalf("seed %d: must wait: %t", seed, l.MustWait())
		}
		if l.AllOverloaded() != (len(eligible) > 0 && overloaded == len(eligible)) || !l.Unmoved() {
			t.Fatalf("seed %d: all overloaded: %t, unmoved: %t", seed, l.AllOverloaded(), l.Unmoved())
		}
		for _, slot := range f.world.Table.Slots() {
			if l.Find(slot.Shard.ID()) >= 0 != slices.ContainsFunc(eligible, func(e *shards.Slot) bool { return e.Shard == slot.Shard && !e.Overloaded }) {
				t.Fatalf("seed %d: %v is found at %d", seed, slot.Shard.ID(), l.Find(slot.Shard.ID()))
			}
		}
		if rnd.IntN(8) == 0 {
			l.Reset()
		}
	}
	if candidates < int(seeds) || shared == 0 {
		t.Fatalf("%d candidates, %d with a live prefix", candidates, shared)
	}
}

// The gate stops as soon as it knows; it must say what a full count says.
func TestGateAgainstEachRank(t *testing.T) {
	t.Parallel()
	seeds := uint64(1_000)
	if testing.Short() {
		seeds /= 4
	}
	var l Look
	waits, retests := 0, 0
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 12))
		f := randomFleet(t, rnd)
		r := randomRequest(rnd)
		now := 20 + rnd.Int64N(60)
		for class := range f.world.Profile.Len() {
			eligible := f.eligible(r)
			overloaded, blocked, retest := 0, 0, queue.NoDue
			for _, slot := range eligible {
				have, _ := load(slot.Shard, nil)
				switch {
				case slot.Overloaded:
					overloaded++
					blocked++
				case f.busyFor(class, slot, have.Prefill.Active(now)):
					blocked++
					if at, ever := f.world.BusyAbove(class, slot).IdleAt(&have); ever {
						retest = min(retest, at)
					}
				}
			}
			must := f.mustWait(class, blocked, len(eligible))
			for _, exact := range []bool{false, true} {
				got := l.Gate(f.world, r, class, At(now), exact)
				if got.Eligible != len(eligible) || got.MustWait != must || got.AllOverloaded() != (len(eligible) > 0 && overloaded == len(eligible)) {
					t.Fatalf("seed %d, class %d: %+v; %d eligible, %d overloaded, %d blocked", seed, class, got, len(eligible), overloaded, blocked)
				}
				want := queue.NoDue
				if must {
					want = retest
					waits++
				}
				first := queue.NoDue
				for _, retest := range l.Retests() {
					first = min(first, retest.At)
				}
				if first != want {
					t.Fatalf("seed %d, class %d: retest at %d, want %d", seed, class, first, want)
				}
				if want != queue.NoDue {
					retests++
				}
			}
			// At that instant, and not before, some rank that was busy is not.
			if must && retest != queue.NoDue {
				if retest <= now {
					t.Fatalf("seed %d: the retest at %d is no later than %d", seed, retest, now)
				}
				l.Take(f.world, r, class, At(retest-1))
				before := l.Busy
				l.Take(f.world, r, class, At(retest))
				if before+overloaded != blocked || l.Busy >= before {
					t.Fatalf("seed %d: %d busy at %d, %d just before, %d now", seed, l.Busy, retest, before, blocked-overloaded)
				}
			}
		}
	}
	if waits == 0 || retests == 0 {
		t.Fatalf("%d had to wait, %d with an instant", waits, retests)
	}
}

func TestRatioCountsOverloadedRanks(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shards.Worker{ID: 1, Ranks: 1}, shards.Worker{ID: 2, Ranks: 1}, shards.Worker{ID: 3, Ranks: 1}, shards.Worker{ID: 4, Ranks: 1})
	r := &Request{Params: params()}
	var l Look
	half, whole := classOf(t, f.world, "half"), classOf(t, f.world, "whole")
	must := func(class int) bool { return l.Gate(f.world, r, class, At(0), true).MustWait }
	f.book(rank(1, 0), 21, lifecycle.NoDuration)
	if must(half) {
		t.Fatal("one busy of four is half")
	}
	f.change(func(table *shards.Table) *shards.Table { return table.WithOverloaded([]uint64{4}) })
	if !must(half) || must(whole) {
		t.Fatal("one busy and one overloaded of four is not half")
	}
	f.book(rank(2, 0), 20, lifecycle.NoDuration) // at the threshold is not busy
	f.book(rank(3, 0), 99, lifecycle.NoDuration)
	if must(whole) {
		t.Fatal("a rank at the threshold is busy")
	}
	f.book(rank(2, 0), 1, lifecycle.NoDuration)
	if !must(whole) {
		t.Fatal("all are busy or overloaded, and it need not wait")
	}
}

func TestUnmovedSeesEveryChange(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shards.Worker{ID: 1, Ranks: 2}, shards.Worker{ID: 2, Ranks: 1}, shards.Worker{ID: 3, Ranks: 1})
	f.change(func(table *shards.Table) *shards.Table { return table.WithOverloaded([]uint64{2}) })
	r := &Request{Params: params(), Constraints: shards.Constraints{Excluded: []uint64{3}}}
	var l Look
	for id, moves := range map[lifecycle.RankID]bool{rank(1, 0): true, rank(1, 1): true, rank(2, 0): true, rank(3, 0): false} {
		l.Take(f.world, r, 0, At(0))
		b := f.book(id, 5, lifecycle.NoDuration)
		if l.Unmoved() == moves {
			t.Errorf("a booking on %v: unmoved %t", id, l.Unmoved())
		}
		l.Retake()
		if !l.Unmoved() {
			t.Errorf("%v: moved after another look", id)
		}
		f.release(id, b)
		if l.Unmoved() == moves {
			t.Errorf("a release on %v: unmoved %t", id, l.Unmoved())
		}
	}
}

func TestFreshNumbers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shards.Worker{ID: 1, Ranks: 2, Taints: []string{"a"}})
	r := &Request{
		ISL: 40, Params: params(), Blocks: []uint64{1, 2, 3}, Taints: []TaintWeight{{"a", 2}},
		Overlaps: []lifecycle.Overlap{{Rank: rank(1, 1), Device: 2}},
	}
	var l Look
	l.Take(f.world, r, 0, At(10))
	f.book(rank(1, 1), 8, 8*time.Nanosecond, 1, 2, 9)
	have, depth := load(f.shard(rank(1, 1)), r.Blocks)
	l.Correct(rank(1, 1), &have, depth)
	got := *l.Candidate(1)
	want := selector.Candidate{
		Rank: rank(1, 1), ActivePrefill: 0, ActiveBlocks: 3, Requests: 1, PotentialBlocks: 4, Device: 2, TaintWeight: 2,
	}
	if got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	l.Correct(rank(7, 0), &have, depth) // not there
	if l.Candidate(0).ActiveBlocks != 0 {
		t.Fatal("another rank was corrected")
	}
}

func TestIdleCandidate(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shards.Worker{ID: 1, Ranks: 3})
	class := classOf(t, f.world, "f-long")
	f.book(rank(1, 1), 1, lifecycle.NoDuration)
	var l Look
	l.Take(f.world, &Request{Params: params()}, class, At(0))
	for other, want := range map[int]int{-1: 0, 0: 2, 1: 0, 2: 0} {
		if got := l.IdleCandidate(other); got != want {
			t.Errorf("other than %d: %d, want %d", other, got, want)
		}
	}
	l.Take(f.world, &Request{Params: params(), Constraints: shards.Constraints{Pinned: true, Pin: rank(1, 1)}}, class, At(0))
	if got := l.IdleCandidate(-1); got != -1 {
		t.Errorf("%d is idle", got)
	}
}

func TestLockEligibleLocksAllAndOnlyThose(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shards.Worker{ID: 1, Ranks: 2}, shards.Worker{ID: 2, Ranks: 1}, shards.Worker{ID: 3, Ranks: 1})
	f.env.EnableHints()
	f.change(func(table *shards.Table) *shards.Table { return table.WithOverloaded([]uint64{2}) })
	r := &Request{Params: params(), Blocks: []uint64{1}, Constraints: shards.Constraints{Excluded: []uint64{3}}}
	b := f.book(rank(2, 0), 9, lifecycle.NoDuration, 1)
	outside := f.book(rank(3, 0), 9, lifecycle.NoDuration)
	f.release(rank(3, 0), outside)
	var l Look
	l.Take(f.world, r, 0, At(0))
	l.LockEligible()
	if l.HintedLocked() {
		t.Error("a hint about a rank that is not eligible counts")
	}
	f.book(rank(3, 0), 1, lifecycle.NoDuration) // must not be locked
	l.Retake()                                  // takes no lock, with blocks or without
	locked := make(chan struct{})
	go func() {
		f.release(rank(2, 0), b)
		close(locked)
	}()
	for range 100 {
		runtime.Gosched()
	}
	select {
	case <-locked:
		t.Error("an overloaded rank was not locked")
	default:
	}
	l.UnlockEligible()
	<-locked
	l.LockEligible()
	if !l.HintedLocked() {
		t.Error("the hint is not seen")
	}
	l.UnlockEligible()
}

// A rank that was idle and has changed since may be busy by now.
func TestStillIdle(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shards.Worker{ID: 1, Ranks: 2})
	f.book(rank(1, 0), 1, lifecycle.NoDuration)
	var l Look
	l.TakeAll(f.world, &Request{Params: params()}, classOf(t, f.world, "f-long"), At(0))
	if !l.StillIdle(0) {
		t.Error("nothing has changed")
	}
	f.book(rank(1, 0), 1, lifecycle.NoDuration) // it was busy and still is
	if !l.StillIdle(0) {
		t.Error("the idle rank has not changed")
	}
	f.book(rank(1, 1), 1, lifecycle.NoDuration)
	if l.StillIdle(0) {
		t.Error("the idle rank has changed")
	}
}

// The load moves on while it is looked for: in the middle of the look, when the
// clock is read for a rank that decays, from the rank before to the one after.
func TestExactGateLooksAgain(t *testing.T) {
	t.Parallel()
	for _, exact := range []bool{false, true} {
		f := newFleet(t, shards.Worker{ID: 1, Ranks: 3})
		class := classOf(t, f.world, "f-long")
		b := f.book(rank(1, 0), 1, lifecycle.NoDuration)
		f.book(rank(1, 1), 9, time.Hour)
		moving := Lazily(func() int64 {
			from, to := f.shard(rank(1, 0)), f.shard(rank(1, 2))
			shards.LockBoth(from, to)
			from.TransferLocked(b, to, 1)
			shards.UnlockBoth(from, to)
			return 0
		})
		var l Look
		if got := l.Gate(f.world, &Request{Params: params()}, class, moving, exact); got.MustWait == exact {
			t.Errorf("exact %t: %+v", exact, got)
		}
	}
}

// Where several ranks must be idle, they must be so together: the load that moves
// from the rank after to the one before is always on one of them.
func TestRatioIsSeenAtOneInstant(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shards.Worker{ID: 1, Ranks: 3})
	b := f.book(rank(1, 2), 30, lifecycle.NoDuration)
	f.book(rank(1, 1), 30, time.Hour)
	once := Lazily(func() int64 {
		from, to := f.shard(rank(1, 2)), f.shard(rank(1, 0))
		shards.LockBoth(from, to)
		from.TransferLocked(b, to, 30)
		shards.UnlockBoth(from, to)
		return 0
	})
	var l Look
	if got := l.Gate(f.world, &Request{Params: params()}, classOf(t, f.world, "half"), once, false); !got.MustWait {
		t.Errorf("%+v: two of three are busy all the time", got)
	}
}

// One load goes to and fro between two ranks, so that one of them is idle at any
// instant. A look that is overtaken may find both busy; an exact one must not.
func TestExactGateIsTrueAtOneInstant(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n /= 10
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	// Between the two stand many that are busy for good, so that a look takes its
	// time from the one to the other.
	const last = 40
	f := newFleet(t, shards.Worker{ID: 1, Ranks: last + 1})
	class := classOf(t, f.world, "f-long")
	for r := range uint32(last) {
		if r > 0 {
			f.book(rank(1, r), 1, lifecycle.NoDuration)
		}
	}
	b := f.book(rank(1, 0), 1, lifecycle.NoDuration)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		from, to := f.shard(rank(1, 0)), f.shard(rank(1, last))
		for moves := 0; ; moves++ {
			shards.LockBoth(from, to)
			from.TransferLocked(b, to, 1)
			shards.UnlockBoth(from, to)
			from, to = to, from
			if moves%16 == 0 {
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		}
	})
	r := &Request{Params: params()}
	wrong := 0
	var l Look
	for range n {
		if l.Gate(f.world, r, class, At(0), false).MustWait {
			wrong++
		}
		if l.Gate(f.world, r, class, At(0), true).MustWait {
			t.Error("both ranks were never busy at once")
			break
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d of %d quick looks were overtaken", wrong, n)
}

func TestResetGivesOversizedScratchBack(t *testing.T) {
	t.Parallel()
	var l Look
	l.candidates = make([]selector.Candidate, maxKept+1)
	l.Reset()
	if cap(l.candidates) != 0 {
		t.Fatalf("room for %d is kept", cap(l.candidates))
	}
	f := newFleet(t, shards.Worker{ID: 1, Ranks: 4})
	l.Take(f.world, &Request{Params: params()}, 0, At(0))
	l.Reset()
	if cap(l.candidates) == 0 || l.World != nil || l.Request != nil {
		t.Fatal("ordinary scratch is given back, or the world is kept")
	}
}

func TestLooksAllocateNothing(t *testing.T) {
	f := newFleet(t, shards.Worker{ID: 1, Ranks: 4}, shards.Worker{ID: 2, Ranks: 4})
	f.book(rank(1, 2), 100, 50, 1, 2)
	f.book(rank(2, 2), 100, 50, 1, 2, 3)
	r := &Request{ISL: 20, Params: params(), Tracked: true, Blocks: []uint64{1, 2, 4}, Overlaps: []lifecycle.Overlap{{Rank: rank(2, 1), Device: 1}}}
	rnd := rand.New(rand.NewPCG(1, 1))
	var l Look
	if n := testing.AllocsPerRun(100, func() {
		l.Take(f.world, r, 0, At(0))
		if _, failed := l.Choose(rnd); failed != nil {
			t.Error(failed)
		}
		l.Gate(f.world, r, 3, At(0), true)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestInstant(t *testing.T) {
	t.Parallel()
	reads := 0
	lazy := Lazily(func() int64 { reads++; return int64(100 * reads) })
	still := lifecycle.Prefill{Sum: 7, AnchorTokens: 7, AnchorDuration: lifecycle.NoDuration, HasAnchor: true, Unmodelled: 1}
	done := lifecycle.Prefill{Sum: 7, AnchorTokens: 5, AnchorDuration: 0, HasAnchor: true}
	if lazy.Active(&still) != 7 || lazy.Active(&done) != 2 || lazy.Active(&lifecycle.Prefill{}) != 0 || reads != 0 {
		t.Fatalf("the clock was read %d times though nothing decays", reads)
	}
	decays := lifecycle.Prefill{Sum: 10, AnchorTokens: 10, AnchorDuration: 200, HasAnchor: true}
	if first, second := lazy.Active(&decays), lazy.Active(&decays); first != 5 || second != 5 || lazy.Nanoseconds() != 100 || reads != 1 {
		t.Fatalf("the clock was read %d times", reads)
	}
	fixed := At(50)
	if fixed.Nanoseconds() != 50 || fixed.Active(&decays) != 8 {
		t.Fatalf("%d, %d", fixed.Nanoseconds(), fixed.Active(&decays))
	}
}
