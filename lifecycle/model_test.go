package lifecycle

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The model is the contract written down a second time, with no thought of
// cost: a block is its whole path as text, holders are found by looking at
// everybody, weights live in plain maps.

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

// path names the last block of a prompt by all of it.
func path(prompt []uint64) string {
	var p []byte
	for _, hash := range prompt {
		p = binary.BigEndian.AppendUint64(p, hash)
	}
	return string(p)
}

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
		if p := x.prompt[:i+1]; m.holders(p) == 0 {
			delete(m.weights, path(p))
		}
	}
}

func (m *modelRank) holders(p []uint64) int {
	n := 0
	for _, x := range m.live {
		if len(x.prompt) >= len(p) && slices.Equal(x.prompt[:len(p)], p) {
			n++
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
		if p := x.prompt[:i+1]; m.holders(p) == 1 {
			m.weights[path(p)] = weight
		}
	}
}

func (m *modelRank) blocks() int64 { return wholeBlocks(m.weight()) }

func (m *modelRank) weight() int64 {
	var sum int64
	for _, w := range m.weights {
		sum += w
	}
	for _, x := range m.live {
		for _, w := range x.outputs {
			sum += w
		}
	}
	return sum
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

// TestLongPromptsAgainstModel: prompts of up to 200 blocks part anywhere.
func TestLongPromptsAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			mt := newModelTest(t, seed)
			mt.longest = 200
			mt.run(200)
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
	serial int
	timed  bool // whether durations occur
	// longest is the length up to which a prompt goes its own way at any block
	// of one that is live; 0 for short prompts along few paths.
	longest int
}

func newModelTest(t *testing.T, seed uint64) *modelTest {
	mt := &modelTest{T: t, rng: rand.New(rand.NewPCG(seed, 7)), timed: seed%4 != 0}
	for i := range mt.ranks {
		mt.seen[i] = &recorder{t: t, live: map[string]bool{}}
		mt.ranks[i] = NewRank(mt.seen[i])
		mt.models[i] = &modelRank{weights: map[string]int64{}}
	}
	return mt
}

func (mt *modelTest) now() int64 { mt.reads++; return mt.at }

// prompt mostly follows few paths, so that sharing is common at all depths.
// Its hashes repeat along a path and under different parents.
func (mt *modelTest) prompt() []uint64 {
	if mt.longest > 0 {
		return mt.longPrompt()
	}
	p := make([]uint64, mt.rng.IntN(8))
	for i := range p {
		if mt.rng.IntN(3) == 0 {
			p[i] = mt.rng.Uint64N(2)
		}
	}
	return p
}

func (mt *modelTest) longPrompt() []uint64 {
	var p []uint64
	if n := len(mt.all); n > 0 && mt.rng.IntN(8) > 0 {
		p = mt.all[mt.rng.IntN(n)].prompt
		p = slices.Clone(p[:mt.rng.IntN(len(p)+1)])
	}
	if mt.rng.IntN(4) > 0 {
		first := mt.rng.Uint64N(4)
		for i := range mt.rng.IntN(mt.longest + 1 - len(p)) {
			p = append(p, first+uint64(i/50)) // each hash up to 50 times in a row
		}
	}
	return p
}

func (mt *modelTest) run(steps int) {
	var free []*Booking // records to use again
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
			mt.serial++
			b.ID = fmt.Sprint("b", mt.serial)
			b.Tokens = mt.rng.Int64N(60) - 5
			b.Tracked = mt.rng.IntN(5) > 0
			b.Expected = NoDuration
			if mt.timed && mt.rng.IntN(4) > 0 {
				b.Expected = time.Duration(mt.rng.Int64N(80)) * time.Duration(mt.rng.IntN(2))
			}
			mt.book(i, b, mt.prompt())
		} else if x := mt.all[mt.rng.IntN(len(mt.all))]; !mt.act(x) {
			free = append(free, x.b)
		}
		if mt.reads > 1 || !mt.timed && mt.reads > 0 {
			mt.Fatalf("the clock was read %d times", mt.reads)
		}
		mt.compare()
	}
	mt.finish()
}

func (mt *modelTest) book(i int, b *Booking, prompt []uint64) *modelBooking {
	x := &modelBooking{b: b, prompt: prompt, tokens: b.Tokens, expected: b.Expected, tracked: b.Tracked}
	given := slices.Clone(prompt)
	mt.ranks[i].Book(b, given, mt.now)
	for i := range given {
		given[i] = ^uint64(0) // the caller's to use again
	}
	mt.models[i].book(x, mt.at)
	mt.all = append(mt.all, x)
	return x
}

// finish releases all and looks for what is left over.
func (mt *modelTest) finish() {
	mt.compare()
	for len(mt.all) > 0 {
		mt.release(mt.all[0])
		mt.compare()
	}
	for i, r := range mt.ranks {
		if r.Load() != (Load{}) || len(r.blocks.runs) != 0 || r.blocks.weight != 0 || r.prefill != (prefillList{}) {
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
		mt.output(x)
	case 4, 5:
		mt.decay(x, mt.rng.Int64N(BlockUnit+1))
	case 6:
		mt.transfer(x, mt.rng.IntN(len(mt.ranks)), tokens)
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

func (mt *modelTest) output(x *modelBooking) {
	r, m := mt.rankOf(x)
	r.AddOutputBlock(x.b)
	m.output(x, BlockUnit, false)
}

func (mt *modelTest) decay(x *modelBooking, weight int64) {
	r, m := mt.rankOf(x)
	r.AddOutputBlockWithDecay(x.b, weight)
	m.output(x, weight, true)
}

func (mt *modelTest) transfer(x *modelBooking, to int, tokens int64) {
	r, m := mt.rankOf(x)
	r.Transfer(x.b, mt.ranks[to], tokens, mt.now)
	if mt.models[to] == m {
		return
	}
	m.release(x, mt.at)
	x.tokens = tokens
	mt.models[to].book(x, mt.at)
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
		if got, want := r.blocks.weight, m.weight(); got != want {
			mt.Fatalf("weight %d, want %d", got, want)
		}
		if err := r.Check(); err != nil {
			mt.Fatal(err)
		}
		mt.seen[i].compare(m)
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
