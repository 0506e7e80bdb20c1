package lifecycle

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestDecayWeight(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fraction float64
		weight   int64
		ok       bool
	}{
		{0, 0, true},
		{math.Copysign(0, -1), 0, true},
		{1, BlockUnit, true},
		{0.5, BlockUnit / 2, true},
		{0.4999999999999999 / BlockUnit, 0, true},
		{0.49999999999999994 / BlockUnit, 0, true},
		{0.5 / BlockUnit, 1, true},
		{1 - 0.25/BlockUnit, BlockUnit, true},
		{1.0 / 3, 21845, true},
		{-0.001, 0, false},
		{1.001, 0, false},
		{math.NaN(), 0, false},
		{math.Inf(1), 0, false},
		{math.Inf(-1), 0, false},
	}
	for _, tt := range tests {
		if w, ok := DecayWeight(tt.fraction); w != tt.weight || ok != tt.ok {
			t.Errorf("DecayWeight(%g) = %d, %t, want %d, %t", tt.fraction, w, ok, tt.weight, tt.ok)
		}
	}
}

func weightOf(t *testing.T, f float64) int64 {
	t.Helper()
	w, ok := DecayWeight(f)
	if !ok {
		t.Fatalf("no weight for %g", f)
	}
	return w
}

// TestBlocks follows the worked example of prompts that share a prefix.
func TestBlocks(t *testing.T) {
	t.Parallel()
	var r Rank
	expect := func(what string, want int64) {
		t.Helper()
		if got := r.Load().Blocks; got != want {
			t.Fatalf("%s: %d blocks, want %d", what, got, want)
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
	}
	var a, b, c Booking
	r.Book(&a, []uint64{1, 2, 4, 5}, nil)
	r.Book(&b, []uint64{1, 2, 3, 5}, nil)
	expect("shared by prefix, not by set", 6)
	if n := r.LivePrefix([]uint64{1, 2, 3, 5, 6}); n != 4 {
		t.Fatalf("live prefix %d, want 4", n)
	}
	if n := r.LivePrefixWithout(&b, []uint64{1, 2, 3, 5, 6}); n != 2 {
		t.Fatalf("live prefix without b %d, want 2", n)
	}
	if n := r.LivePrefix([]uint64{5}); n != 0 {
		t.Fatalf("live prefix %d of a block that is live elsewhere only", n)
	}
	r.AddOutputBlock(&a)
	expect("an output block", 7)
	r.AddOutputBlockWithDecay(&a, weightOf(t, 0.5))
	expect("2 shared, 2 of b, 2 and 2 halves of a", 6)
	r.Release(&a, nil)
	expect("b alone", 4)
	r.Book(&c, []uint64{1, 2}, nil)
	r.AddOutputBlockWithDecay(&c, 0)
	expect("c has no block of its own but its output", 4)
	r.Release(&b, nil)
	expect("c alone", 2)
	r.Release(&c, nil)
	expect("nobody", 0)
}

// TestSharedBlockKeepsWeight: what was decayed stays so when somebody comes to
// share it, through the sharer's own decays, and after the first has left.
func TestSharedBlockKeepsWeight(t *testing.T) {
	t.Parallel()
	half := weightOf(t, 0.5)
	var r Rank
	check := func(what string, want int64) {
		t.Helper()
		if r.blocks.weight != want {
			t.Fatalf("%s: weight %d, want %d", what, r.blocks.weight, want)
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
	}
	var a, b Booking
	r.Book(&a, []uint64{1, 2, 3, 4}, nil)
	r.AddOutputBlockWithDecay(&a, half)
	check("a halved", 5*half)
	r.Book(&b, []uint64{1, 2, 9}, nil)
	check("b shares two halves", 5*half+BlockUnit)
	r.AddOutputBlockWithDecay(&a, 0)
	check("a decays what is left to it", 2*half+BlockUnit)
	r.AddOutputBlockWithDecay(&b, half)
	check("b decays its own", 2*half+2*half)
	r.Release(&a, nil)
	check("b alone", 4*half)
	r.AddOutputBlock(&b)
	check("a whole block after a decay", 4*half+BlockUnit)
	r.AddOutputBlockWithDecay(&b, 1)
	check("all of b, with what it shared once", 3+3)
	r.Release(&b, nil)
	check("nobody", 0)
}

func TestHalvesRoundUp(t *testing.T) {
	t.Parallel()
	var r Rank
	var b Booking
	r.Book(&b, nil, nil)
	for _, tt := range []struct{ weight, want int64 }{{BlockUnit/2 - 1, 0}, {BlockUnit / 4, 1}} {
		// One block just below a half; then two quarters.
		r.AddOutputBlockWithDecay(&b, tt.weight)
		if got := r.Load().Blocks; got != tt.want {
			t.Errorf("weight %d: %d blocks, want %d", r.blocks.weight, got, tt.want)
		}
	}
}

func TestManyOutputBlocks(t *testing.T) {
	t.Parallel()
	var r Rank
	var b Booking
	r.Book(&b, nil, nil)
	// As after three days of a million blocks a second.
	b.outputs = 1 << 38
	r.AddOutputBlockWithDecay(&b, BlockUnit)
	if got, want := r.Load().Blocks, int64(1<<38+1); got != want {
		t.Errorf("%d blocks, want %d", got, want)
	}
	r.Release(&b, nil)
	if r.Load() != (Load{}) {
		t.Errorf("load %+v, want none", r.Load())
	}
}

type event struct {
	live bool
	path []uint64
	at   int
}

// recorder knows the live paths from what it is told alone.
type recorder struct {
	t      *testing.T
	events []event
	live   map[string]bool
	calls  int // since the last compare
}

func (o *recorder) PathLive(p []uint64, from int, kept []uint64) {
	if !slices.Equal(kept, p[from:]) {
		o.t.Errorf("%v is to be kept of %v from %d", kept, p, from)
	}
	o.calls++
	if from < 0 || from >= len(p) {
		o.t.Fatalf("live from %d of %d", from, len(p))
	}
	for i := range p {
		if o.live[path(p[:i+1])] != (i < from) {
			o.t.Fatalf("live from %d of %v, but at %d it is not so", from, p, i)
		}
		o.live[path(p[:i+1])] = true
	}
	o.events = append(o.events, event{true, slices.Clone(p), from})
}

func (o *recorder) PathGone(p []uint64, to int) {
	o.calls++
	if to < 0 || to >= len(p) {
		o.t.Fatalf("gone to %d of %d", to, len(p))
	}
	for i := range p {
		if !o.live[path(p[:i+1])] {
			o.t.Fatalf("gone to %d of %v, but at %d it was not live", to, p, i)
		}
		if i >= to {
			delete(o.live, path(p[:i+1]))
		}
	}
	gone := path(p[:to+1])
	for below := range o.live {
		if strings.HasPrefix(below, gone) {
			o.t.Fatalf("gone to %d of %v before a path that goes on there", to, p)
		}
	}
	o.events = append(o.events, event{false, slices.Clone(p), to})
}

func (o *recorder) compare(m *modelRank) {
	o.t.Helper()
	if o.calls > 1 {
		o.t.Fatalf("told of %d changes at once", o.calls)
	}
	o.calls = 0
	if len(o.live) != len(m.weights) {
		o.t.Fatalf("told of %d blocks, want %d", len(o.live), len(m.weights))
	}
	for p := range m.weights {
		if !o.live[p] {
			o.t.Fatalf("not told of %x", p)
		}
	}
}

func TestObserver(t *testing.T) {
	t.Parallel()
	o, o2 := &recorder{t: t, live: map[string]bool{}}, &recorder{t: t, live: map[string]bool{}}
	r, to := NewRank(o), NewRank(o2)
	var a, b, c, none Booking
	r.Book(&a, []uint64{1, 2, 3}, nil)
	r.Book(&b, []uint64{1, 2, 4}, nil)
	r.Book(&c, []uint64{1, 2}, nil)
	r.Book(&none, nil, nil)
	r.Release(&none, nil)
	r.Release(&a, nil)
	r.Transfer(&c, to, 0, nil)
	r.Transfer(&b, to, 0, nil)
	to.Release(&c, nil)
	to.Release(&b, nil)
	same := func(a, b event) bool { return a.live == b.live && a.at == b.at && slices.Equal(a.path, b.path) }
	if want := []event{
		{true, []uint64{1, 2, 3}, 0},
		{true, []uint64{1, 2, 4}, 2},
		{false, []uint64{1, 2, 3}, 2},
		{false, []uint64{1, 2, 4}, 0},
	}; !slices.EqualFunc(o.events, want, same) {
		t.Errorf("events %v, want %v", o.events, want)
	}
	if want := []event{
		{true, []uint64{1, 2}, 0},
		{true, []uint64{1, 2, 4}, 2},
		{false, []uint64{1, 2, 4}, 0},
	}; !slices.EqualFunc(o2.events, want, same) {
		t.Errorf("events of the other rank %v, want %v", o2.events, want)
	}
}

// TestSplitAtEveryPosition books three prompts that part or end at any two
// blocks of the first, with decays between, and releases them in some order.
func TestSplitAtEveryPosition(t *testing.T) {
	t.Parallel()
	const n = 5
	base := []uint64{10, 11, 12, 12, 14} // a hash twice
	orders := [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for i := range (n + 1) * (n + 1) * 2 * 2 {
		first, second := i%(n+1), i/(n+1)%(n+1)
		prompts := [3][]uint64{base, slices.Clone(base[:first]), slices.Clone(base[:second])}
		if i/(n+1)/(n+1)%2 == 1 {
			prompts[1] = append(prompts[1], 12, 14) // the same hashes, other blocks
		}
		if i/(n+1)/(n+1)/2 == 1 {
			prompts[2] = append(prompts[2], 12, 14, 7)
		}
		for decays := range 1 << 5 {
			order := orders[(i+decays)%len(orders)]
			mt := newModelTest(t, 0)
			x := [3]*modelBooking{}
			step := func(bit int, who *modelBooking) {
				mt.compare()
				if decays>>bit&1 != 0 {
					mt.decay(who, int64(100*bit))
					mt.compare()
				}
			}
			for j, p := range prompts {
				x[j] = mt.book(0, &Booking{}, p)
				step(j, x[0])
			}
			step(3, x[2])
			for j, who := range order {
				mt.release(x[who])
				if j < 2 {
					step(4, x[order[j+1]])
				}
			}
			mt.finish()
		}
	}
}

func fresh(n int, first uint64) []uint64 {
	p := make([]uint64, n)
	for i := range p {
		p[i] = first + uint64(i)
	}
	return p
}

// TestRuns: the number of runs follows the points where prompts part or end,
// and none is left behind.
func TestRuns(t *testing.T) {
	t.Parallel()
	var r Rank
	var a, b, c Booking
	expect := func(what string, want int) {
		t.Helper()
		if got := len(r.blocks.runs); got != want {
			t.Errorf("%s: %d runs, want %d", what, got, want)
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
	}
	long := fresh(100, 0)
	r.Book(&a, long, nil)
	expect("one prompt", 1)
	r.Book(&b, long, nil)
	expect("the same again", 1)
	r.Book(&c, append(fresh(40, 0), 7), nil)
	expect("one that parts", 3)
	r.Release(&c, nil)
	expect("it has left, the split stays", 2)
	r.Book(&c, fresh(40, 0), nil)
	expect("one that ends there", 2)
	r.AddOutputBlockWithDecay(&a, 5)
	r.AddOutputBlockWithDecay(&b, 5)
	r.Release(&a, nil)
	r.Release(&b, nil)
	expect("the tail has left", 1)
	r.Release(&c, nil)
	expect("nobody", 0)
}

// TestGoneBlocksAreFreed: a short run that was part of a long one keeps no long
// array, however often the long one was split.
func TestGoneBlocksAreFreed(t *testing.T) {
	t.Parallel()
	var r Rank
	var long, middle, short Booking
	r.Book(&long, fresh(8192, 0), nil)
	r.Book(&middle, fresh(10, 0), nil)
	r.Book(&short, fresh(2, 0), nil)
	r.Release(&long, nil)
	for at := middle.leaf; at != nil; at = at.parent {
		if n := cap(at.hashes); n > 64 {
			t.Errorf("a run of %d blocks keeps room for %d", len(at.hashes), n)
		}
	}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	if n := r.LivePrefix(fresh(20, 0)); n != 10 {
		t.Errorf("live prefix %d, want 10", n)
	}
}

// TestRoomForPaths: a long path leaves no room behind, a short one does while there
// are others.
func TestRoomForPaths(t *testing.T) {
	t.Parallel()
	r := NewRank(&recorder{t: t, live: map[string]bool{}})
	var b, other Booking
	r.Book(&other, fresh(20, 1<<40), nil)
	for _, n := range []int{smallPath + 1, 20, smallPath} {
		r.Book(&b, fresh(n, 0), nil)
		r.Release(&b, nil)
		if got := cap(r.blocks.scratch); got > 2*smallPath || (got >= n) != (n <= smallPath) {
			t.Errorf("room for %d after a path of %d", got, n)
		}
	}
	r.Release(&other, nil)
	if got := cap(r.blocks.scratch); got > idlePath {
		t.Errorf("room for %d on an idle rank", got)
	}
}

// TestMapShrinks: a spike of runs leaves no big map behind, whether the rank
// then is idle or goes on.
func TestMapShrinks(t *testing.T) {
	t.Parallel()
	var r Rank
	if r.blocks.runs != nil {
		t.Error("an idle rank has a map")
	}
	prompt := fresh(4*smallMap, 0)
	var short, long, passing Booking
	book := func() {
		r.Book(&long, prompt, nil)
		for n := range prompt { // a run for each block
			r.Book(&passing, prompt[:n], nil)
			r.Release(&passing, nil)
		}
	}
	r.Book(&short, prompt[:3], nil)
	book()
	r.Release(&long, nil)
	if r.blocks.peak > smallMap || len(r.blocks.runs) != 3 {
		t.Errorf("map made for %d has %d runs, want 3", r.blocks.peak, len(r.blocks.runs))
	}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	book()
	r.Release(&short, nil)
	r.Release(&long, nil)
	if r.blocks.runs != nil {
		t.Error("the map outlived the spike")
	}
}
