package lifecycle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The model is the contract written down a second time, with no thought of
// cost: blocks are paths as text, holders are found by looking at everybody,
// weights live in plain maps.

type modelRank struct {
	live    []*modelBooking // touch order
	prefill []*modelBooking
	since   int64
	weights map[string]int64 // of live prompt blocks by path
}

type modelBooking struct {
	b        *Booking
	prompt   []uint64
	tokens   int64
	expected time.Duration
	tracked  bool
	done     bool
	outputs  []int64 // weights
	on       *modelRank
}

func path(prompt []uint64) string { return fmt.Sprint(prompt) }

func without[E comparable](list []E, e E) []E {
	return slices.DeleteFunc(slices.Clone(list), func(o E) bool { return o == e })
}

func (m *modelRank) clone() *modelRank {
	c := *m
	c.weights = maps.Clone(m.weights)
	return &c
}

func (m *modelRank) book(x *modelBooking, now int64) {
	x.on = m
	m.live = append(slices.Clip(m.live), x)
	for i := range x.prompt {
		if p := path(x.prompt[:i+1]); !m.has(p) {
			m.weights[p] = BlockUnit
		}
	}
	m.insert(x, now)
}

func (m *modelRank) has(p string) bool { _, ok := m.weights[p]; return ok }

func (m *modelRank) insert(x *modelBooking, now int64) {
	if !x.tracked || x.done || x.tokens <= 0 {
		return
	}
	if len(m.prefill) == 0 {
		m.since = now
	}
	m.prefill = append(slices.Clip(m.prefill), x)
}

func (m *modelRank) unprefill(x *modelBooking, now int64) {
	i := slices.Index(m.prefill, x)
	switch {
	case i < 0:
	case i == 0:
		m.since = now
	case x.expected >= 0:
		m.since = min(m.since+int64(x.expected), now)
	}
	m.prefill = without(m.prefill, x)
}

func (m *modelRank) release(x *modelBooking, now int64) {
	m.unprefill(x, now)
	m.live = without(m.live, x)
	for i := range x.prompt {
		if p := path(x.prompt[:i+1]); m.holders(p) == 0 {
			delete(m.weights, p)
		}
	}
}

func (m *modelRank) holders(p string) int {
	n := 0
	for _, x := range m.live {
		for i := range x.prompt {
			if path(x.prompt[:i+1]) == p {
				n++
			}
		}
	}
	return n
}

func (m *modelRank) output(x *modelBooking, weight int64, decay bool) {
	x.outputs = append(x.outputs, weight)
	if !decay {
		return
	}
	for i := range x.outputs {
		x.outputs[i] = weight
	}
	for i := range x.prompt {
		if p := path(x.prompt[:i+1]); m.holders(p) == 1 {
			m.weights[p] = weight
		}
	}
}

func (m *modelRank) blocks() int64 {
	var sum int64
	for _, w := range m.weights {
		sum += w
	}
	for _, x := range m.live {
		for _, w := range x.outputs {
			sum += w
		}
	}
	return (sum + BlockUnit/2) >> 16
}

func (m *modelRank) livePrefix(prompt []uint64) int {
	for i := range prompt {
		if !m.has(path(prompt[:i+1])) {
			return i
		}
	}
	return len(prompt)
}

func (m *modelRank) active(now int64) int64 {
	var p Prefill
	for i, x := range m.prefill {
		if i == 0 {
			p = Prefill{AnchorTokens: x.tokens, AnchorDuration: x.expected, AnchorSince: m.since, HasAnchor: true}
		}
		p.Sum += x.tokens
		if x.expected < 0 {
			p.Unmodelled++
		}
	}
	return bigActive(p, now)
}

func TestAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newModelTest(t, seed).run(400)
		})
	}
}

type modelTest struct {
	*testing.T
	rng    *rand.Rand
	at     int64
	reads  int
	ranks  [3]*Rank
	models [3]*modelRank
	seen   [3]*recorder
	all    []*modelBooking
	timed  bool // whether durations occur
}

func newModelTest(t *testing.T, seed uint64) *modelTest {
	mt := &modelTest{T: t, rng: rand.New(rand.NewPCG(seed, 7)), timed: seed%4 != 0}
	for i := range mt.ranks {
		mt.seen[i] = &recorder{t: t, live: map[*Block]bool{}}
		mt.ranks[i] = NewRank(mt.seen[i])
		mt.models[i] = &modelRank{weights: map[string]int64{}}
	}
	return mt
}

func (mt *modelTest) now() int64 { mt.reads++; return mt.at }

// prompt mostly follows few paths, so that sharing is common at all depths.
func (mt *modelTest) prompt() []uint64 {
	p := make([]uint64, mt.rng.IntN(8))
	for i := range p {
		if mt.rng.IntN(3) == 0 {
			p[i] = mt.rng.Uint64N(2)
		}
	}
	return p
}

func (mt *modelTest) run(steps int) {
	var free []*Booking // records to use again
	serial := 0
	for range steps {
		mt.at += mt.rng.Int64N(20)
		mt.reads = 0
		target := len(mt.all) < 2 || mt.rng.IntN(3) == 0
		if target && len(mt.all) < 12 {
			i := mt.rng.IntN(len(mt.ranks))
			b := &Booking{}
			if len(free) > 0 {
				b, free = free[0], free[1:]
			}
			serial++
			b.ID = fmt.Sprint("b", serial)
			b.Tokens = mt.rng.Int64N(60) - 5
			b.Tracked = mt.rng.IntN(5) > 0
			b.Expected = NoDuration
			if mt.timed && mt.rng.IntN(4) > 0 {
				b.Expected = time.Duration(mt.rng.Int64N(80)) * time.Duration(mt.rng.IntN(2))
			}
			x := &modelBooking{b: b, prompt: mt.prompt(), tokens: b.Tokens, expected: b.Expected, tracked: b.Tracked}
			mt.ranks[i].Book(b, x.prompt, mt.now)
			mt.models[i].book(x, mt.at)
			mt.all = append(mt.all, x)
		} else if x := mt.all[mt.rng.IntN(len(mt.all))]; !mt.act(x) {
			free = append(free, x.b)
		}
		if mt.reads > 1 || !mt.timed && mt.reads > 0 {
			mt.Fatalf("the clock was read %d times", mt.reads)
		}
		mt.compare()
	}
	for len(mt.all) > 0 {
		mt.release(mt.all[0])
		mt.compare()
	}
	for i, r := range mt.ranks {
		if r.Load() != (Load{}) || len(r.blocks.nodes) != 0 || r.blocks.weight != 0 || r.prefill != (prefillList{}) {
			mt.Fatalf("rank %d: left over: %+v", i, r)
		}
	}
}

func (mt *modelTest) rankOf(x *modelBooking) (*Rank, *modelRank) {
	i := slices.Index(mt.models[:], x.on)
	return mt.ranks[i], mt.models[i]
}

// act does one random thing to x and reports whether x is still booked.
func (mt *modelTest) act(x *modelBooking) bool {
	r, m := mt.rankOf(x)
	tokens := mt.rng.Int64N(60) - 5
	switch mt.rng.IntN(9) {
	case 0, 1:
		mt.release(x)
		return false
	case 2:
		if changed := r.PrefillDone(x.b, mt.now); changed == x.done {
			mt.Fatalf("%s: prefill done changed: %t", x.b.ID, changed)
		}
		m.unprefill(x, mt.at)
		x.done = true
	case 3:
		r.AddOutputBlock(x.b)
		m.output(x, BlockUnit, false)
	case 4, 5:
		w := mt.rng.Int64N(BlockUnit + 1)
		r.AddOutputBlockWithDecay(x.b, w)
		m.output(x, w, true)
	case 6:
		i := mt.rng.IntN(len(mt.ranks))
		r.Transfer(x.b, mt.ranks[i], tokens, mt.now)
		if mt.models[i] != m {
			m.release(x, mt.at)
			x.tokens = tokens
			mt.models[i].book(x, mt.at)
		}
	case 7:
		r.SetTokens(x.b, tokens, mt.now)
		if x.tracked && !x.done {
			in := slices.Contains(m.prefill, x)
			if tokens <= 0 {
				m.unprefill(x, mt.at)
			}
			x.tokens = tokens
			if !in {
				m.insert(x, mt.at)
			}
		}
	case 8:
		r.Touch(x.b)
		m.live = append(without(m.live, x), x)
	}
	return true
}

func (mt *modelTest) release(x *modelBooking) {
	r, m := mt.rankOf(x)
	r.Release(x.b, mt.now)
	m.release(x, mt.at)
	mt.all = without(mt.all, x)
}

func (mt *modelTest) compare() {
	mt.Helper()
	for i, r := range mt.ranks {
		m := mt.models[i]
		mt.compareLoad("rank", r.Load(), m)
		if err := r.Check(); err != nil {
			mt.Fatal(err)
		}
		if len(mt.seen[i].live) != len(m.weights) {
			mt.Fatalf("the observer knows %d blocks, want %d", len(mt.seen[i].live), len(m.weights))
		}
		var got, want []*Booking
		for b := range r.All() {
			got = append(got, b)
		}
		for _, x := range m.live {
			want = append(want, x.b)
			if x.b.Tokens != x.tokens || x.b.PrefillDone() != x.done || x.b.OutputBlocks() != int64(len(x.outputs)) {
				mt.Fatalf("%+v, want %+v", x.b, x)
			}
		}
		if !slices.Equal(got, want) {
			mt.Fatalf("touch order differs on rank %d", i)
		}
		p := mt.prompt()
		if got, want := r.LivePrefix(p), m.livePrefix(p); got != want {
			mt.Fatalf("live prefix of %v is %d, want %d", p, got, want)
		}
		if len(m.live) == 0 {
			continue
		}
		x := m.live[mt.rng.IntN(len(m.live))]
		c := m.clone()
		c.release(x, mt.at)
		mt.reads = 0
		mt.compareLoad("without", r.LoadWithout(x.b, mt.now), c)
		if mt.reads > 1 || !mt.timed && mt.reads > 0 {
			mt.Fatalf("LoadWithout read the clock %d times", mt.reads)
		}
		for _, p := range [][]uint64{p, x.prompt} {
			if got, want := r.LivePrefixWithout(x.b, p), c.livePrefix(p); got != want {
				mt.Fatalf("live prefix of %v without %s is %d, want %d", p, x.b.ID, got, want)
			}
		}
	}
}

func (mt *modelTest) compareLoad(what string, l Load, m *modelRank) {
	mt.Helper()
	for _, dt := range []int64{0, 1, 7, 50, 1000} {
		if got, want := l.Prefill.Active(mt.at+dt), m.active(mt.at+dt); got != want {
			mt.Fatalf("%s: %d prefill tokens at +%d, want %d (%+v)", what, got, dt, want, l.Prefill)
		}
	}
	if l.Blocks != m.blocks() || l.Requests != int64(len(m.live)) {
		mt.Fatalf("%s: %d blocks, %d requests, want %d, %d", what, l.Blocks, l.Requests, m.blocks(), len(m.live))
	}
}
