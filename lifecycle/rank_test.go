package lifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func ids(r *Rank) []string {
	var out []string
	for b := range r.All() {
		out = append(out, b.ID)
	}
	return out
}

func TestTouchOrder(t *testing.T) {
	t.Parallel()
	var r Rank
	if len(ids(&r)) != 0 || r.Len() != 0 {
		t.Fatal("an idle rank has a booking")
	}
	list := map[string]*Booking{}
	for _, id := range []string{"a", "b", "c", "d"} {
		list[id] = &Booking{ID: id}
		r.Book(list[id], nil, nil)
	}
	expect := func(want ...string) {
		t.Helper()
		if got := ids(&r); !slices.Equal(got, want) {
			t.Fatalf("order %v, want %v", got, want)
		}
		if r.Len() != len(want) {
			t.Fatalf("%d bookings, want %d", r.Len(), len(want))
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
	}
	expect("a", "b", "c", "d")
	r.Touch(list["a"])
	expect("b", "c", "d", "a")
	r.Touch(list["c"])
	expect("b", "d", "a", "c")
	r.Touch(list["c"])
	expect("b", "d", "a", "c")
	r.Release(list["d"], nil)
	expect("b", "a", "c")
	r.Release(list["c"], nil)
	expect("b", "a")
	r.Release(list["b"], nil)
	expect("a")
}

func TestReleaseDuringAll(t *testing.T) {
	t.Parallel()
	var r Rank
	var list [5]Booking
	for i := range list {
		r.Book(&list[i], []uint64{1, uint64(i)}, nil)
	}
	seen := 0
	for b := range r.All() {
		if seen++; seen == 3 {
			break
		}
		r.Release(b, nil)
	}
	for b := range r.All() {
		seen++
		r.Release(b, nil)
	}
	if seen != 6 || r.Len() != 0 || r.Load() != (Load{}) {
		t.Errorf("%d seen, %d left, load %+v", seen, r.Len(), r.Load())
	}
}

func TestTransfer(t *testing.T) {
	t.Parallel()
	half := weightOf(t, 0.5)
	at := int64(0)
	reads := 0
	now := func() int64 { reads++; return at }
	var from, to Rank
	there := &Booking{ID: "there"}
	to.Book(there, []uint64{1, 2, 7}, now)
	to.AddOutputBlockWithDecay(there, half)

	next := &Booking{ID: "next", Tokens: 40, Expected: 4 * time.Second, Tracked: true}
	b := &Booking{ID: "b", Attempt: 3, Tokens: 100, Expected: 10 * time.Second, Tracked: true}
	from.Book(b, []uint64{1, 2, 3, 4}, now)
	from.Book(next, nil, now)
	from.AddOutputBlock(b)
	from.AddOutputBlockWithDecay(b, half)
	from.AddOutputBlock(b)

	at, reads = 5*second, 0
	from.Transfer(b, &to, 64, now)
	if reads != 1 {
		t.Errorf("the clock was read %d times, want once", reads)
	}
	for _, r := range []*Rank{&from, &to} {
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := from.Load(), (Load{Prefill{40, 0, 40, 4 * time.Second, at, true, 0}, 0, 1}); got != want {
		t.Errorf("from %+v, want %+v", got, want)
	}
	// There: 3 halves and an output half; of b: two halves shared, 2 whole
	// prompt blocks, 2 halves and a whole block of output.
	if got, want := to.blocks.weight, 4*half+2*BlockUnit+2*half+BlockUnit; got != want {
		t.Errorf("weight %d, want %d", got, want)
	}
	if got, want := to.Load().Prefill, (Prefill{64, 0, 64, 10 * time.Second, at, true, 0}); got != want {
		t.Errorf("prefill %+v, want %+v", got, want)
	}
	if got := ids(&to); !slices.Equal(got, []string{"there", "b"}) {
		t.Errorf("order %v", got)
	}
	if b.OutputBlocks() != 3 || b.PromptBlocks() != 4 || b.Tokens != 64 || b.Attempt != 3 || b.PrefillDone() {
		t.Errorf("booking %+v", b)
	}

	// Its own rank, and a rank it is not on: unchanged.
	before := to.Load()
	to.Transfer(b, &to, 1, nil)
	from.Transfer(b, &to, 1, nil)
	if to.Load() != before || from.Len() != 1 || b.Tokens != 64 {
		t.Errorf("load %+v, want %+v", to.Load(), before)
	}

	// Done stays done.
	to.PrefillDone(b, now)
	to.Transfer(b, &from, 77, nil)
	if !b.PrefillDone() || from.Load().Prefill.Sum != 40 || from.Load().Requests != 2 || to.Len() != 1 {
		t.Errorf("from %+v, to %+v", from.Load(), to.Load())
	}
	if from.PrefillDone(b, nil) {
		t.Error("prefill done twice")
	}
	from.Release(b, nil)
	from.Release(next, nil)
	to.Release(there, nil)
	if from.Load() != (Load{}) || to.Load() != (Load{}) {
		t.Errorf("from %+v, to %+v, want none", from.Load(), to.Load())
	}
}

func TestTransferOfTheUntracked(t *testing.T) {
	t.Parallel()
	var from, to Rank
	b := &Booking{Tokens: 10, Expected: time.Second}
	from.Book(b, nil, nil)
	from.Transfer(b, &to, 20, nil)
	if got, want := to.Load(), (Load{Requests: 1}); got != want {
		t.Errorf("load %+v, want %+v", got, want)
	}
}

func TestSetTokens(t *testing.T) {
	t.Parallel()
	at := int64(0)
	now := func() int64 { return at }
	var r Rank
	a := &Booking{ID: "a", Tokens: 100, Expected: 10 * time.Second, Tracked: true}
	b := &Booking{ID: "b", Tokens: 30, Expected: 3 * time.Second, Tracked: true}
	r.Book(a, nil, now)
	r.Book(b, nil, now)
	at = 5 * second
	expect := func(what string, want Prefill) {
		t.Helper()
		if got := r.Load().Prefill; got != want {
			t.Fatalf("%s: %+v, want %+v", what, got, want)
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
	}
	r.SetTokens(a, 60, now)
	expect("in place", Prefill{90, 0, 60, 10 * time.Second, 0, true, 0})
	r.SetTokens(a, 0, now)
	expect("0 takes it out", Prefill{30, 0, 30, 3 * time.Second, at, true, 0})
	at = 6 * second
	r.SetTokens(a, 70, now)
	expect("back as the youngest", Prefill{100, 0, 30, 3 * time.Second, 5 * second, true, 0})
	r.PrefillDone(b, now)
	expect("anchor", Prefill{70, 0, 70, 10 * time.Second, at, true, 0})
	r.SetTokens(b, 5, nil)
	expect("no tokens once prefill is done", Prefill{70, 0, 70, 10 * time.Second, at, true, 0})
	u := &Booking{Tokens: 9, Expected: NoDuration}
	r.Book(u, nil, nil)
	r.SetTokens(u, 5, nil)
	expect("nor untracked", Prefill{70, 0, 70, 10 * time.Second, at, true, 0})
	if b.Tokens != 30 || u.Tokens != 9 {
		t.Errorf("tokens %d and %d changed", b.Tokens, u.Tokens)
	}
	r.SetTokens(a, -4, nil)
	expect("less than none is none", Prefill{})
}

// TestCallsOnTheDead: no call on a booking that is not live here changes
// anything, and a record can be booked again.
func TestCallsOnTheDead(t *testing.T) {
	t.Parallel()
	var r, other Rank
	b := &Booking{Tokens: 10, Expected: time.Second, Tracked: true}
	now := func() int64 { return 0 }
	blocks := []uint64{1, 2}
	r.Book(b, blocks, now)
	r.AddOutputBlockWithDecay(b, 1)
	r.PrefillDone(b, now)
	r.Release(b, now)
	for range 2 {
		for _, r := range []*Rank{&r, &other} {
			before := r.Load()
			r.Touch(b)
			r.Release(b, nil)
			r.AddOutputBlock(b)
			r.AddOutputBlockWithDecay(b, 3)
			r.SetTokens(b, 3, nil)
			r.Transfer(b, &other, 3, nil)
			if r.PrefillDone(b, nil) {
				t.Error("prefill done on the dead")
			}
			if r.LoadWithout(b, nil) != before || r.LivePrefixWithout(b, blocks) != r.LivePrefix(blocks) {
				t.Error("the load without it differs")
			}
			if r.Load() != before {
				t.Errorf("load %+v, want %+v", r.Load(), before)
			}
		}
		// The second time with a record left behind on a rank given up whole.
		var gone Rank
		gone.Book(b, blocks, now)
	}
	r.Book(b, blocks[:1], now)
	if b.PrefillDone() || b.OutputBlocks() != 0 || b.PromptBlocks() != 1 {
		t.Errorf("booking %+v", b)
	}
	if got, want := r.Load(), (Load{Prefill{10, 0, 10, time.Second, 0, true, 0}, 1, 1}); got != want {
		t.Errorf("load %+v, want %+v", got, want)
	}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
}

// TestClockIsNotRead: without durations no operation asks for the time.
func TestClockIsNotRead(t *testing.T) {
	t.Parallel()
	now := func() int64 { t.Error("the clock was read"); return 0 }
	var r, to Rank
	var list [4]Booking
	for i := range list {
		list[i] = Booking{Tokens: int64(i * 10), Expected: NoDuration, Tracked: true}
		r.Book(&list[i], []uint64{1, uint64(i)}, now)
		r.LoadWithout(&list[i], now)
	}
	// A duration of what adds no tokens does not matter either.
	timed := &Booking{Expected: time.Second, Tracked: true}
	r.Book(timed, nil, now)
	r.PrefillDone(timed, now)
	r.SetTokens(&list[1], 0, now)
	r.SetTokens(&list[1], 5, now)
	r.PrefillDone(&list[2], now)
	r.Transfer(&list[3], &to, 7, now)
	to.Release(&list[3], now)
	for b := range r.All() {
		r.Release(b, now)
	}
}

// The fast path's budget. (Not parallel: allocations are counted globally.)
func TestAllocations(t *testing.T) {
	var r Rank
	now := func() int64 { return 1 }
	var other Booking
	r.Book(&other, []uint64{1, 2, 3}, now)
	b := &Booking{Tokens: 10, Expected: time.Second, Tracked: true}
	shared := []uint64{1, 2, 3}
	long, tail := fresh(60, 0), append(fresh(4, 0), fresh(20, 70)...)
	var lives Booking
	r.Book(&lives, long, now)
	watched := NewRank(nopObserver{})
	for _, p := range [][]uint64{tail, long[:9]} {
		r.Book(b, p, now)
		r.Release(b, now)
	}
	for name, f := range map[string]func(){
		"book and release":         func() { r.Book(b, nil, now); r.Release(b, now) },
		"with shared blocks":       func() { r.Book(b, shared, now); r.Release(b, now) },
		"with live blocks":         func() { r.Book(b, long, now); r.Release(b, now) },
		"with live ones, not all":  func() { r.Book(b, long[:9], now); r.Release(b, now) },
		"with all calls":           func() { r.Book(b, nil, now); r.Touch(b); r.PrefillDone(b, now); r.Release(b, now) },
		"output":                   func() { r.AddOutputBlock(&other); r.AddOutputBlockWithDecay(&other, 5) },
		"load and live prefix":     func() { _ = r.Load(); _ = r.LivePrefix(shared) },
		"load without, and prefix": func() { _ = r.LoadWithout(&other, now); _ = r.LivePrefixWithout(&other, shared) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	// A new run, and its hashes unless there is one.
	for name, tt := range map[string]struct {
		want float64
		f    func()
	}{
		"new blocks":            {2, func() { r.Book(b, fresh60, now); r.Release(b, now) }},
		"new blocks after live": {2, func() { r.Book(b, tail, now); r.Release(b, now) }},
		"one after live":        {1, func() { r.Book(b, tail[:5], now); r.Release(b, now) }},
		"new blocks, observed":  {2, func() { watched.Book(b, fresh60, now); watched.Release(b, now) }},
		"new blocks, moved":     {4, func() { r.Book(b, fresh60, now); r.Transfer(b, watched, 1, now); watched.Release(b, now) }},
	} {
		if n := testing.AllocsPerRun(100, tt.f); n != tt.want {
			t.Errorf("%s: %v allocations, want %v", name, n, tt.want)
		}
	}
}

var fresh60 = fresh(60, 1000)

type nopObserver struct{}

func (nopObserver) PathLive([]uint64, int, []uint64) {}
func (nopObserver) PathGone([]uint64, int)           {}

func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(r *Rank, a, b *Booking){
		"requests":      func(r *Rank, a, b *Booking) { r.requests++ },
		"touch order":   func(r *Rank, a, b *Booking) { a.touchPrev = b },
		"last":          func(r *Rank, a, b *Booking) { r.last = a },
		"tokens":        func(r *Rank, a, b *Booking) { a.Tokens++ },
		"unmodelled":    func(r *Rank, a, b *Booking) { r.prefill.unmodelled++ },
		"prefill done":  func(r *Rank, a, b *Booking) { a.prefillDone = true },
		"prefill order": func(r *Rank, a, b *Booking) { b.prefillPrev = nil },
		"weight":        func(r *Rank, a, b *Booking) { r.blocks.weight++ },
		"output":        func(r *Rank, a, b *Booking) { a.outputWeight++ },
		"holders":       func(r *Rank, a, b *Booking) { a.leaf.refs++ },
		"owned tail":    func(r *Rank, a, b *Booking) { a.tailLen-- },
		"owner":         func(r *Rank, a, b *Booking) { b.leaf.owner = b },
		"length":        func(r *Rank, a, b *Booking) { a.leaf.hashes = a.leaf.hashes[:1] },
		"hash":          func(r *Rank, a, b *Booking) { a.leaf.hashes[0]++ },
		"leaf":          func(r *Rank, a, b *Booking) { a.leaf = a.leaf.parent },
		"map":           func(r *Rank, a, b *Booking) { delete(r.blocks.runs, runKey{nil, 1}) },
		"rank":          func(r *Rank, a, b *Booking) { a.rank = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r Rank
			a := &Booking{ID: "a", Tokens: 10, Expected: NoDuration, Tracked: true}
			b := &Booking{ID: "b", Tokens: 20, Expected: NoDuration, Tracked: true}
			r.Book(a, []uint64{1, 2, 3}, nil)
			r.Book(b, []uint64{1, 4}, nil)
			r.AddOutputBlockWithDecay(a, 7)
			if err := r.Check(); err != nil {
				t.Fatal(err)
			}
			spoil(&r, a, b)
			if r.Check() == nil {
				t.Error("not found")
			}
		})
	}
}

func BenchmarkBookRelease(b *testing.B) {
	var r Rank
	bk := &Booking{Tokens: 10, Expected: NoDuration, Tracked: true}
	b.ReportAllocs()
	for b.Loop() {
		r.Book(bk, nil, nil)
		r.Release(bk, nil)
	}
}

// BenchmarkBookReleaseBlocks books and releases a prompt beside one that lives.
func BenchmarkBookReleaseBlocks(b *testing.B) {
	for _, n := range []int{24, 60} {
		lives := fresh(n, 0)
		for _, bm := range []struct {
			name   string
			prompt []uint64
		}{
			{"fresh", fresh(n, 1000)},
			{"shared", lives},
			{"shared 4", append(fresh(4, 0), fresh(n-4, 2000)...)},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, bm.name), func(b *testing.B) {
				var r Rank
				var other, bk Booking
				r.Book(&other, lives, nil)
				b.ReportAllocs()
				for b.Loop() {
					r.Book(&bk, bm.prompt, nil)
					r.Release(&bk, nil)
				}
			})
		}
	}
}

// BenchmarkLivePrefix looks a live prompt up.
func BenchmarkLivePrefix(b *testing.B) {
	for _, n := range []int{24, 60} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var r Rank
			var bk Booking
			p := fresh(n, 0)
			r.Book(&bk, p, nil)
			for b.Loop() {
				r.LivePrefix(p)
			}
		})
	}
}

// BenchmarkFirstDecay shows what the first decay of a long prompt costs.
func BenchmarkFirstDecay(b *testing.B) {
	var r Rank
	var bk Booking
	p := fresh(8192, 0)
	b.ReportAllocs()
	for b.Loop() {
		r.Book(&bk, p, nil)
		r.AddOutputBlockWithDecay(&bk, 30_000)
		r.Release(&bk, nil)
	}
}

// BenchmarkOutputWithDecay shows that a decay does not walk the prompt.
func BenchmarkOutputWithDecay(b *testing.B) {
	var r Rank
	bk := &Booking{}
	r.Book(bk, make([]uint64, 8192), nil)
	b.ReportAllocs()
	for b.Loop() {
		r.AddOutputBlockWithDecay(bk, 30_000)
	}
}
