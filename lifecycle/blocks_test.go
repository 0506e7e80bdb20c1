package lifecycle

import (
	"math"
	"slices"
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
	hash uint64
}

type recorder struct {
	t      *testing.T
	events []event
	live   map[*Block]bool
	tags   uint64
}

func (o *recorder) BlockLive(b *Block) {
	if p := b.Parent(); p != nil && (p.Tag == 0 || !o.live[p]) {
		o.t.Errorf("block %d live before its parent", b.Hash)
	}
	if o.live[b] {
		o.t.Errorf("block %d live twice", b.Hash)
	}
	o.tags++
	b.Tag = o.tags
	o.live[b] = true
	o.events = append(o.events, event{true, b.Hash})
}

func (o *recorder) BlockGone(b *Block) {
	for other := range o.live {
		if other.Parent() == b {
			o.t.Errorf("block %d gone before its child %d", b.Hash, other.Hash)
		}
	}
	if !o.live[b] || b.Tag == 0 {
		o.t.Errorf("block %d gone, but was not live", b.Hash)
	}
	delete(o.live, b)
	o.events = append(o.events, event{false, b.Hash})
}

func TestObserver(t *testing.T) {
	t.Parallel()
	o := &recorder{t: t, live: map[*Block]bool{}}
	r := NewRank(o)
	var a, b Booking
	r.Book(&a, []uint64{1, 2, 3}, nil)
	r.Book(&b, []uint64{1, 2, 4}, nil)
	r.Release(&a, nil)
	r.Release(&b, nil)
	want := []event{
		{true, 1}, {true, 2}, {true, 3},
		{true, 4},
		{false, 3},
		{false, 4}, {false, 2}, {false, 1},
	}
	if !slices.Equal(o.events, want) {
		t.Errorf("events %v, want %v", o.events, want)
	}
}

// TestMapShrinks: a spike of blocks leaves no big map behind, whether the rank
// then is idle or goes on.
func TestMapShrinks(t *testing.T) {
	t.Parallel()
	prompt := make([]uint64, 64*smallMap)
	for i := range prompt {
		prompt[i] = uint64(i)
	}
	var r Rank
	if r.blocks.nodes != nil {
		t.Error("an idle rank has a map")
	}
	var short, long Booking
	r.Book(&short, prompt[:3], nil)
	r.Book(&long, prompt, nil)
	r.Release(&long, nil)
	if r.blocks.peak > smallMap || len(r.blocks.nodes) != 3 {
		t.Errorf("map made for %d has %d blocks, want 3", r.blocks.peak, len(r.blocks.nodes))
	}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	r.Book(&long, prompt, nil)
	r.Release(&short, nil)
	r.Release(&long, nil)
	if r.blocks.nodes != nil {
		t.Error("the map outlived the spike")
	}
}
