package lifecycle

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

const second = int64(time.Second)

// bigActive is the formula once more, in exact rationals.
func bigActive(p Prefill, now int64) int64 {
	if !p.HasAnchor {
		return 0
	}
	n := big.NewInt
	sum, tokens, duration := n(p.Sum), n(p.AnchorTokens), n(int64(p.AnchorDuration))
	elapsed := new(big.Int).Sub(n(now), n(p.AnchorSince))
	if elapsed.Sign() < 0 {
		elapsed.SetInt64(0)
	}
	switch {
	case p.AnchorDuration < 0:
		return sum.Int64()
	case p.AnchorDuration == 0:
		return sum.Sub(sum, tokens).Int64()
	case p.Unmodelled == 0:
		done := new(big.Int).Mul(tokens, elapsed)
		sum.Sub(sum, done.Div(done, duration))
		if sum.Sign() < 0 {
			return 0
		}
		return sum.Int64()
	default:
		left := new(big.Int).Sub(duration, elapsed)
		if left.Sign() < 0 {
			left.SetInt64(0)
		}
		left.Mul(left, tokens)
		left.Add(left, duration).Sub(left, n(1)).Div(left, duration)
		return sum.Sub(sum, tokens).Add(sum, left).Int64()
	}
}

func TestPrefillActive(t *testing.T) {
	t.Parallel()
	mk := func(sum, unmodelled, tokens int64, d time.Duration, since int64) Prefill {
		return Prefill{sum, unmodelled, tokens, d, since, true, 0}
	}
	tests := map[string]struct {
		p      Prefill
		now    int64
		want   int64
		decays bool
	}{
		"empty":                              {Prefill{}, 5, 0, false},
		"before the anchor began":            {mk(100, 0, 100, 10*time.Second, 7*second), 0, 100, true},
		"half way":                           {mk(140, 0, 100, 10*time.Second, 0), 5 * second, 90, true},
		"eats into the later ones":           {mk(140, 0, 100, 10*time.Second, 0), 12 * second, 20, true},
		"not below zero":                     {mk(140, 0, 100, 10*time.Second, 0), 15 * second, 0, true},
		"done is rounded down":               {mk(3, 0, 3, 10, 0), 3, 3, true},
		"done is rounded down, next":         {mk(3, 0, 3, 10, 0), 4, 2, true},
		"anchor of no time":                  {mk(140, 0, 100, 0, 0), 0, 40, false},
		"anchor of no time, later":           {mk(140, 0, 100, 0, 0), 99 * second, 40, false},
		"unmodelled: only the anchor decays": {mk(84, 1, 64, 8*time.Second, 0), 4 * second, 52, true},
		"unmodelled: the anchor is used up":  {mk(84, 1, 64, 8*time.Second, 0), 90 * second, 20, true},
		"unmodelled: left is rounded up":     {mk(10, 1, 3, 10, 0), 1, 10, true},
		"unmodelled: left is rounded up, 4":  {mk(10, 1, 3, 10, 0), 4, 9, true},
		"unmodelled anchor stays whole":      {mk(84, 1, 64, NoDuration, 0), 99 * second, 84, false},
		"unmodelled, anchor of no time":      {mk(84, 1, 64, 0, 0), 0, 20, false},
		"128-bit quotient":                   {mk(math.MaxInt64, 0, math.MaxInt64, 1, math.MinInt64), math.MaxInt64, 0, true},
		"128-bit product": {
			mk(math.MaxInt64, 0, math.MaxInt64, math.MaxInt64, 0), math.MaxInt64 - 1, 1, true,
		},
		"elapsed beyond int64": {
			mk(math.MaxInt64, 0, 1, math.MaxInt64, math.MinInt64), math.MaxInt64, math.MaxInt64 - 2, true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.p.Active(tt.now); got != tt.want {
				t.Errorf("Active(%d) = %d, want %d", tt.now, got, tt.want)
			}
			if got := bigActive(tt.p, tt.now); got != tt.want {
				t.Errorf("the model gives %d, want %d", got, tt.want)
			}
			if got := tt.p.Decays(); got != tt.decays {
				t.Errorf("Decays() = %t, want %t", got, tt.decays)
			}
		})
	}
}

// randomInt64 gives values ≥ least of all magnitudes, often at an edge.
func randomInt64(rng *rand.Rand, least int64) int64 {
	switch rng.IntN(8) {
	case 0:
		return least
	case 1:
		return math.MaxInt64 - rng.Int64N(3)
	default:
		return max(least, int64(rng.Uint64()>>1>>rng.IntN(63)))
	}
}

func randomPrefill(rng *rand.Rand) Prefill {
	p := Prefill{HasAnchor: true, AnchorDuration: NoDuration}
	p.AnchorTokens = randomInt64(rng, 1)
	p.Sum = p.AnchorTokens
	if others := randomInt64(rng, 0); others <= math.MaxInt64-p.Sum {
		p.Sum += others
	}
	if rng.IntN(2) == 0 {
		p.Unmodelled = 1 + rng.Int64N(3)
	}
	if p.Unmodelled == 0 || rng.IntN(4) > 0 {
		p.AnchorDuration = time.Duration(randomInt64(rng, 0))
	}
	if p.AnchorDuration > 0 {
		p.AnchorSince = randomInt64(rng, 0)
		if rng.IntN(3) == 0 {
			p.AnchorSince = -p.AnchorSince
		}
	}
	return p
}

func TestPrefillActiveIsExact(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50_000 {
		p := randomPrefill(rng)
		now := randomInt64(rng, 0)
		if rng.IntN(2) == 0 && p.AnchorDuration > 0 { // near where it matters
			now = addSaturated(p.AnchorSince, rng.Int64N(int64(p.AnchorDuration)))
		}
		got := p.Active(now)
		if want := bigActive(p, now); got != want {
			t.Fatalf("%+v: Active(%d) = %d, want %d", p, now, got, want)
		}
		if later := randomInt64(rng, 0); later > now {
			if next := p.Active(later); next > got || !p.Decays() && next != got {
				t.Fatalf("%+v: Active is %d at %d and %d at %d", p, got, now, next, later)
			}
		}
	}
}

func TestFallsTo(t *testing.T) {
	t.Parallel()
	decaying := Prefill{130, 0, 100, 10 * time.Second, 0, true, 0}
	mixed := Prefill{84, 1, 64, 8 * time.Second, second, true, 0}
	tests := map[string]struct {
		p         Prefill
		threshold int64
		at        int64
		ok        bool
	}{
		"empty":                     {Prefill{}, 0, 0, true},
		"below zero":                {Prefill{}, -1, math.MaxInt64, false},
		"already":                   {decaying, 130, 0, true},
		"130 tokens fall to 50":     {decaying, 50, 8 * second, true},
		"to nothing":                {decaying, 0, 13 * second, true},
		"never below nothing":       {decaying, -1, math.MaxInt64, false},
		"mixed, from the start":     {mixed, 84, second, true},
		"mixed, half the anchor":    {mixed, 52, 5 * second, true},
		"mixed, all of the anchor":  {mixed, 20, 9 * second, true},
		"mixed, no more than that":  {mixed, 19, math.MaxInt64, false},
		"mixed, far below":          {mixed, math.MinInt64, math.MaxInt64, false},
		"no decay":                  {Prefill{84, 1, 64, NoDuration, 0, true, 0}, 83, math.MaxInt64, false},
		"no decay, already":         {Prefill{84, 1, 64, NoDuration, 0, true, 0}, 84, 0, true},
		"anchor of no time":         {Prefill{84, 0, 64, 0, 0, true, 0}, 20, 0, true},
		"anchor of no time, no way": {Prefill{84, 0, 64, 0, 0, true, 0}, 19, math.MaxInt64, false},
		"beyond the end of time": {
			Prefill{math.MaxInt64, 0, 1, math.MaxInt64, 0, true, 0}, 0, math.MaxInt64, false,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, ok := tt.p.FallsTo(tt.threshold)
			if at != tt.at || ok != tt.ok {
				t.Errorf("FallsTo(%d) = %d, %t, want %d, %t", tt.threshold, at, ok, tt.at, tt.ok)
			}
		})
	}
}

func TestFallsToInvertsActive(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	hits := 0
	for range 50_000 {
		p := randomPrefill(rng)
		threshold := randomInt64(rng, 0) - 1
		if rng.IntN(2) == 0 {
			threshold = rng.Int64N(p.Sum)
		}
		at, ok := p.FallsTo(threshold)
		if !ok {
			if got := p.Active(math.MaxInt64); got <= threshold {
				t.Fatalf("%+v: never falls to %d, but is %d at last", p, threshold, got)
			}
			continue
		}
		if got := p.Active(at); got > threshold {
			t.Fatalf("%+v: FallsTo(%d) = %d, but is %d then", p, threshold, at, got)
		}
		if at < p.AnchorSince {
			t.Fatalf("%+v: FallsTo(%d) = %d, before it began", p, threshold, at)
		}
		if at > p.AnchorSince {
			hits++
			if got := p.Active(at - 1); got <= threshold {
				t.Fatalf("%+v: FallsTo(%d) = %d, but is %d before", p, threshold, at, got)
			}
		}
	}
	if hits < 2_000 {
		t.Errorf("only %d of the cases decayed to their threshold", hits)
	}
}

// TestPrefillDecay follows the worked example of two decaying prefills and the
// later ones that join them.
func TestPrefillDecay(t *testing.T) {
	t.Parallel()
	var r Rank
	var at int64
	now := func() int64 { return at }
	book := func(tokens int64, d time.Duration) *Booking {
		b := &Booking{Tokens: tokens, Expected: d, Tracked: true}
		r.Book(b, nil, now)
		return b
	}
	expect := func(what string, want int64) {
		t.Helper()
		if got := r.Load().Prefill.Active(at); got != want {
			t.Fatalf("%s: %d prefill tokens, want %d", what, got, want)
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
	}
	a := book(100, 10*time.Second)
	b := book(40, 4*time.Second)
	at += 5 * second
	expect("both decay", 90)
	r.Release(b, now)
	expect("one that is not the oldest leaves without a jump", 90)
	at += 3 * second
	expect("the oldest decays on", 60)
	c := book(64, 8*time.Second)
	if !r.PrefillDone(a, now) {
		t.Fatal("prefill done: unchanged")
	}
	expect("the next starts afresh", 64)
	at += 2 * second
	expect("and decays", 48)
	d := book(20, NoDuration)
	at += 2 * second
	expect("with one unknown", 52)
	at += 10 * second
	expect("only the oldest decays", 20)
	r.PrefillDone(c, now)
	if r.PrefillDone(c, now) {
		t.Fatal("prefill done twice: changed")
	}
	expect("the unknown one stays whole", 20)
	e := &Booking{Tokens: 500, Expected: NoDuration}
	r.Book(e, nil, now)
	f := book(0, NoDuration)
	expect("untracked and fully cached add nothing", 20)
	for _, x := range []*Booking{a, c, d, e, f} {
		r.Release(x, now)
	}
	expect("all released", 0)
	if r.Load() != (Load{}) {
		t.Fatalf("load %+v, want none", r.Load())
	}
}

func TestPrefillAnchor(t *testing.T) {
	t.Parallel()
	type entry struct {
		tokens   int64
		expected time.Duration
	}
	known, unknown := entry{10, 100}, entry{20, NoDuration}
	tests := map[string]struct {
		entries []entry // booked at 1000
		remove  int     // at 1000 + after
		after   int64
		tokens  int64 // of the anchor then
		since   int64
		reads   int // of the clock during the removal
	}{
		"oldest, next known":           {[]entry{known, {5, 70}}, 0, 30, 5, 1030, 1},
		"oldest, next unknown":         {[]entry{known, unknown}, 0, 30, 20, 0, 0},
		"oldest, next of no time":      {[]entry{known, {5, 0}}, 0, 30, 5, 0, 0},
		"the only one":                 {[]entry{known}, 0, 30, 0, 0, 0},
		"other known, credited":        {[]entry{known, {5, 70}}, 1, 90, 10, 1070, 1},
		"other known, capped at now":   {[]entry{known, {5, 70}}, 1, 30, 10, 1030, 1},
		"other known, endless":         {[]entry{known, {5, math.MaxInt64}}, 1, 30, 10, 1030, 1},
		"other unknown":                {[]entry{known, unknown}, 1, 90, 10, 1000, 0},
		"other known, anchor unknown":  {[]entry{unknown, known}, 1, 90, 20, 0, 0},
		"middle one, one more unknown": {[]entry{known, {5, 70}, unknown}, 1, 90, 10, 1070, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r Rank
			var list []*Booking
			for _, e := range tt.entries {
				b := &Booking{Tokens: e.tokens, Expected: e.expected, Tracked: true}
				r.Book(b, nil, func() int64 { return 1000 })
				list = append(list, b)
			}
			reads := 0
			now := func() int64 { reads++; return 1000 + tt.after }
			want := r.LoadWithout(list[tt.remove], now)
			if reads != tt.reads {
				t.Errorf("LoadWithout read the clock %d times, want %d", reads, tt.reads)
			}
			reads = 0
			r.Release(list[tt.remove], now)
			if reads != tt.reads {
				t.Errorf("Release read the clock %d times, want %d", reads, tt.reads)
			}
			p := r.Load().Prefill
			if p.AnchorTokens != tt.tokens || p.AnchorSince != tt.since {
				t.Errorf("anchor %d since %d, want %d since %d", p.AnchorTokens, p.AnchorSince, tt.tokens, tt.since)
			}
			if want.Prefill != p {
				t.Errorf("LoadWithout foretold %+v, got %+v", want.Prefill, p)
			}
			if err := r.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHugeTokens: a total beyond int64 is shown as its maximum and still comes
// back to exactly zero.
func TestHugeTokens(t *testing.T) {
	t.Parallel()
	var r Rank
	var list [4]Booking
	for i := range list {
		list[i] = Booking{Tokens: math.MaxInt64, Expected: NoDuration, Tracked: true}
		r.Book(&list[i], nil, nil)
		if got := r.Load().Prefill.Active(0); got != math.MaxInt64 {
			t.Fatalf("%d prefill tokens", got)
		}
	}
	for i := range list {
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		r.Release(&list[i], nil)
	}
	if r.Load() != (Load{}) {
		t.Fatalf("load %+v, want none", r.Load())
	}
}
