package pool

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// custom is a selector of an embedder's.
type custom func(*selector.Input) (selector.Pick, error)

func (c custom) Pick(in *selector.Input) (selector.Pick, error) { return c(in) }

// mustNotBeAsked fails the test when it is.
func mustNotBeAsked(t *testing.T) selector.Selector {
	return custom(func(*selector.Input) (selector.Pick, error) {
		t.Error("the selector was asked")
		return selector.Pick{}, nil
	})
}

func threeWorkers(t *testing.T) *fleet {
	return newFleet(t, shards.Worker{ID: 1, Ranks: 1}, shards.Worker{ID: 2, Ranks: 1, Endpoint: "two"}, shards.Worker{ID: 3, Ranks: 1})
}

func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// choose looks and chooses.
func (f *fleet) choose(r *Request, s selector.Selector) (*Look, Choice, *Failure) {
	f.t.Helper()
	w := *f.world
	if s != nil {
		w.Selector = s
	}
	l := new(Look)
	l.Take(w.Made(), r, -1, At(0))
	c, failed := l.Choose(seeded())
	return l, c, failed
}

func (f *fleet) chosen(r *Request, s selector.Selector) lifecycle.RankID {
	f.t.Helper()
	l, c, failed := f.choose(r, s)
	if failed != nil {
		f.t.Fatalf("%+v", failed)
	}
	return l.Candidate(c.Candidate).Rank
}

func TestPinIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	f := threeWorkers(t)
	f.book(rank(2, 0), 1000, lifecycle.NoDuration)
	r := &Request{Params: params(), Constraints: shards.Constraints{Pinned: true, Pin: rank(2, 0)}, HasPrefer: true, Prefer: rank(1, 0)}
	l, c, failed := f.choose(r, mustNotBeAsked(t))
	if failed != nil || !c.Forced || l.Candidate(c.Candidate).Rank != rank(2, 0) {
		t.Fatalf("%+v, %+v", c, failed)
	}
}

func TestPreferenceHoldsWhileItsRankIsEligible(t *testing.T) {
	t.Parallel()
	f := threeWorkers(t)
	f.book(rank(2, 0), 1000, lifecycle.NoDuration)
	f.book(rank(3, 0), 10, lifecycle.NoDuration)
	r := &Request{ISL: 8, Tracked: true, Params: params(), HasPrefer: true, Prefer: rank(2, 0)}
	l, c, failed := f.choose(r, mustNotBeAsked(t))
	if failed != nil || !c.Forced || l.Candidate(c.Candidate).Rank != rank(2, 0) {
		t.Fatalf("%+v, %+v", c, failed)
	}
	for _, prefer := range []lifecycle.RankID{rank(2, 1), rank(9, 0)} {
		r.Prefer = prefer
		if got := f.chosen(r, nil); got != rank(1, 0) {
			t.Errorf("prefers %v, which does not exist: %v was chosen", prefer, got)
		}
	}
	r.Prefer = rank(2, 0)
	r.Constraints.Excluded = []uint64{2}
	if got := f.chosen(r, nil); got != rank(1, 0) {
		t.Errorf("prefers an excluded rank: %v was chosen", got)
	}
	r.Constraints.Excluded = nil
	f.change(func(table *shards.Table) *shards.Table { return table.WithOverloaded([]uint64{2}) })
	if got := f.chosen(r, nil); got != rank(1, 0) {
		t.Errorf("prefers an overloaded rank: %v was chosen", got)
	}
}

func TestSelectorIsToldAll(t *testing.T) {
	t.Parallel()
	f := threeWorkers(t)
	f.book(rank(1, 0), 30, lifecycle.NoDuration)
	f.book(rank(2, 0), 20, lifecycle.NoDuration)
	f.book(rank(3, 0), 10, lifecycle.NoDuration)
	f.change(func(table *shards.Table) *shards.Table { return table.WithOverloaded([]uint64{3}) })
	r := &Request{ISL: 8, Tracked: true, Params: params()}
	r.Params.OverlapCredit = 0.5
	got := f.chosen(r, custom(func(in *selector.Input) (selector.Pick, error) {
		// The least is of those that can be chosen.
		if in.ISL != 8 || !in.TrackPrefill || in.Params != r.Params || in.LeastPrefill != 20 || len(in.Candidates) != 2 || in.Rand == nil {
			t.Errorf("%+v", in)
		}
		return selector.Pick{Index: 1}, nil
	}))
	if got != rank(2, 0) {
		t.Fatalf("%v was chosen", got)
	}
}

func TestSelectorThatFails(t *testing.T) {
	t.Parallel()
	own := errors.New("out of ideas")
	at := func(i int) custom {
		return func(*selector.Input) (selector.Pick, error) { return selector.Pick{Index: i}, nil }
	}
	for _, test := range []struct {
		name string
		s    selector.Selector
		want string // in the cause
	}{
		{"panics", custom(func(*selector.Input) (selector.Pick, error) { panic("boo") }), "panicked: boo"},
		{"panics with an index", custom(func(in *selector.Input) (selector.Pick, error) {
			past := len(in.Candidates)
			return selector.Pick{Index: int(in.Candidates[past].Requests)}, nil
		}), "out of range"},
		{"fails", custom(func(*selector.Input) (selector.Pick, error) { return selector.Pick{}, own }), own.Error()},
		{"chooses one too many", at(3), "candidate 3 of 3"},
		{"chooses one too few", at(-1), "candidate -1 of 3"},
		{"chooses far out", at(math.MinInt), "of 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := threeWorkers(t)
			_, _, failed := f.choose(&Request{Params: params()}, test.s)
			if failed == nil || failed.Reason != SelectorFailed || failed.HasRank || !strings.Contains(failed.Cause.Error(), test.want) {
				t.Fatalf("%+v", failed)
			}
			if test.name == "fails" && !errors.Is(failed.Cause, own) {
				t.Fatal("the cause is lost")
			}
		})
	}
}

func TestCostThatIsNotFinite(t *testing.T) {
	t.Parallel()
	f := threeWorkers(t)
	f.book(rank(2, 0), 5, lifecycle.NoDuration)
	r := &Request{ISL: 8, Tracked: true, Params: params()}
	r.Params.RequestWeight = math.Inf(1) // 0 times that on the idle ranks is no number
	_, _, failed := f.choose(r, nil)
	if failed == nil || failed.Reason != NonFinite || !failed.HasRank || failed.Rank != rank(1, 0) || !errors.Is(failed.Cause, selector.ErrNonFinite) {
		t.Fatalf("%+v", failed)
	}
	if failed.Rule != "cost NaN: must be finite" {
		t.Fatalf("rule %q", failed.Rule)
	}
	// The others' cost makes no choice either, but a rank that is no candidate does
	// not matter.
	r.Params.RequestWeight = 0
	r.Overlaps = []lifecycle.Overlap{{Rank: rank(2, 0), Device: math.Inf(-1)}}
	if _, _, failed = f.choose(r, nil); failed == nil || failed.Reason != NonFinite || failed.Rank != rank(2, 0) {
		t.Fatalf("%+v", failed)
	}
	r.Constraints.Excluded = []uint64{2}
	if _, _, failed = f.choose(r, nil); failed != nil {
		t.Fatalf("%+v", failed)
	}
}

func TestNobodyToChoose(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		overloaded []uint64
		c          shards.Constraints
		want       Reason
		rule       string
	}{
		{"none allowed", nil, shards.Constraints{Allowed: []uint64{9}}, NoEndpoints, "3 ranks: none eligible (3 not in the allowed set or excluded)"},
		{"all overloaded", []uint64{1, 2, 3}, shards.Constraints{}, Overloaded, "every eligible rank is overloaded"},
		{"all allowed overloaded", []uint64{2}, shards.Constraints{Allowed: []uint64{2}}, Overloaded, "every eligible rank is overloaded"},
		{"overloaded, but excluded too", []uint64{2}, shards.Constraints{Allowed: []uint64{2}, Excluded: []uint64{2}}, NoEndpoints, "3 ranks: none eligible (3 not in the allowed set or excluded)"},
		{
			"pin overloaded", []uint64{2}, shards.Constraints{Pinned: true, Pin: rank(2, 0)}, PinnedOverloaded,
			"the pinned rank is overloaded",
		},
		{
			"pin away", nil, shards.Constraints{Pinned: true, Pin: rank(2, 1)}, NoEndpoints,
			"the pinned rank is not eligible: the rank does not exist",
		},
		{
			"pin excluded", []uint64{2}, shards.Constraints{Pinned: true, Pin: rank(2, 0), Excluded: []uint64{2}}, NoEndpoints,
			"the pinned rank is not eligible: not in the allowed set or excluded",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := threeWorkers(t)
			f.change(func(table *shards.Table) *shards.Table { return table.WithOverloaded(test.overloaded) })
			_, _, failed := f.choose(&Request{Params: params(), Constraints: test.c}, mustNotBeAsked(t))
			if failed == nil || failed.Reason != test.want || failed.Rule != test.rule || failed.HasRank != test.c.Pinned {
				t.Fatalf("%+v", failed)
			}
			if test.c.Pinned && failed.Rank != test.c.Pin {
				t.Fatalf("it names %v", failed.Rank)
			}
		})
	}
}

// standing looks, chooses, lets something happen and asks whether the choice
// stands.
func (f *fleet) standing(r *Request, s selector.Selector, happens func(chosen lifecycle.RankID)) bool {
	f.t.Helper()
	l, c, failed := f.choose(r, s)
	if failed != nil {
		f.t.Fatalf("%+v", failed)
	}
	id := l.Candidate(c.Candidate).Rank
	happens(id)
	shard := f.shard(id)
	shard.Lock()
	defer shard.Unlock()
	have := shard.LoadLocked()
	return l.StandsLocked(c, &have)
}

func TestChoiceStandsWhileItsCostIsNotAboveTheNext(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		tokens int64 // booked on the chosen rank meanwhile; the others have 40 more
		blocks []uint64
		want   bool
	}{
		{"nothing", 0, nil, true},
		{"less", 39, nil, true},
		{"as much", 40, nil, true},
		{"more", 41, nil, false},
		{"as much, and a block of its own", 40, []uint64{9}, false},
		// A block of the prompt that is live there is no more to add.
		{"as much, and a block of the prompt", 40, []uint64{1}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := threeWorkers(t)
			f.book(rank(1, 0), 40, lifecycle.NoDuration)
			f.book(rank(3, 0), 40, lifecycle.NoDuration)
			r := &Request{ISL: 8, Tracked: true, Params: params(), Blocks: []uint64{1, 2}}
			got := f.standing(r, nil, func(id lifecycle.RankID) {
				if id != rank(2, 0) {
					t.Fatalf("%v was chosen", id)
				}
				if test.tokens > 0 {
					f.book(id, test.tokens, lifecycle.NoDuration, test.blocks...)
				}
			})
			if got != test.want {
				t.Fatalf("stands: %t", got)
			}
		})
	}
}

func TestChoiceOfAnotherSelectorStandsWithTheVersion(t *testing.T) {
	t.Parallel()
	second := custom(func(*selector.Input) (selector.Pick, error) { return selector.Pick{Index: 1}, nil })
	warm := params()
	warm.Temperature = 1
	for name, test := range map[string]struct {
		s      selector.Selector
		params selector.Params
		r      func(*Request)
		moved  bool // whether the choice stands when its rank has changed
	}{
		"an embedder's":    {second, params(), nil, false},
		"with temperature": {selector.KV(), warm, nil, false},
		"round robin":      {selector.RoundRobin(), params(), nil, true},
		"random":           {selector.Random(), params(), nil, true},
		"least loaded":     {selector.LeastLoaded(), params(), nil, false}, // it has one more than the others now
		"pinned":           {second, params(), func(r *Request) { r.Constraints.Pinned, r.Constraints.Pin = true, rank(2, 0) }, true},
		"preferred":        {second, params(), func(r *Request) { r.HasPrefer, r.Prefer = true, rank(2, 0) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := threeWorkers(t)
			r := &Request{ISL: 8, Tracked: true, Params: test.params}
			if test.r != nil {
				test.r(r)
			}
			if !f.standing(r, test.s, func(id lifecycle.RankID) {
				other := rank(1, 0)
				if id == other {
					other = rank(3, 0)
				}
				f.book(other, 1000, lifecycle.NoDuration)
			}) {
				t.Error("another rank has changed, and the choice does not stand")
			}
			f = threeWorkers(t)
			if got := f.standing(r, test.s, func(id lifecycle.RankID) { f.book(id, 1, lifecycle.NoDuration) }); got != test.moved {
				t.Errorf("its rank has changed: stands %t", got)
			}
		})
	}
}

// A custom selector's own Confirm and Booked are never called under a lock.
type foreign struct {
	custom
	t *testing.T
}

func (f foreign) Confirm(*selector.Input, selector.Pick, selector.Candidate) bool {
	f.t.Error("asked to confirm under a lock")
	return true
}

func (f foreign) Booked(*selector.Input, selector.Pick, lifecycle.RankID, bool) bool {
	f.t.Error("told under a lock")
	return false
}

func TestForeignCodeIsNotCalledUnderLocks(t *testing.T) {
	t.Parallel()
	f := threeWorkers(t)
	s := foreign{func(*selector.Input) (selector.Pick, error) { return selector.Pick{Index: 1}, nil }, t}
	r := &Request{Params: params()}
	if f.standing(r, s, func(id lifecycle.RankID) { f.book(id, 1, lifecycle.NoDuration) }) {
		t.Error("its rank has changed, and the choice stands")
	}
	l, c, _ := f.choose(r, s)
	if l.BuiltinSelector() || !l.TrackLocked(c) {
		t.Error("taken for one of our own, or refused")
	}
}

func TestRoundRobinMovesWithBookingsOnly(t *testing.T) {
	t.Parallel()
	f := threeWorkers(t)
	s := selector.RoundRobin()
	next := func(r *Request, book bool) lifecycle.RankID {
		l, c, failed := f.choose(r, s)
		if failed != nil {
			t.Fatalf("%+v", failed)
		}
		if book && !l.TrackLocked(c) {
			t.Fatal("a race was lost against nobody")
		}
		return l.Candidate(c.Candidate).Rank
	}
	free, pin := &Request{Params: params()}, &Request{Params: params(), Constraints: shards.Constraints{Pinned: true, Pin: rank(3, 0)}}
	for i, want := range []uint64{1, 1, 2, 2, 3} {
		if got := next(free, i%2 == 1); got != rank(want, 0) {
			t.Fatalf("look %d: %v, want worker %d", i, got, want)
		}
	}
	next(pin, true) // was not its choice
	if got := next(free, true); got != rank(3, 0) {
		t.Fatalf("%v after a pin", got)
	}
	// Two that saw the same: only one of them books.
	la, a, _ := f.choose(free, s)
	lb, b, _ := f.choose(free, s)
	if !la.TrackLocked(a) || lb.TrackLocked(b) {
		t.Fatal("both booked the same turn, or neither")
	}
}

func TestPlaced(t *testing.T) {
	t.Parallel()
	f := threeWorkers(t)
	f.book(rank(2, 0), 1, lifecycle.NoDuration, 1, 9)
	r := &Request{
		ISL: 10, Tracked: true, Params: params(), Blocks: []uint64{1, 2},
		Overlaps: []lifecycle.Overlap{{Rank: rank(2, 0), Device: 1, Host: 1, Disk: 2}},
	}
	l, _, _ := f.choose(r, nil)
	at := l.Find(rank(2, 0))
	want := Placed{
		Rank: rank(2, 0), Endpoint: "two", Cached: 9, // (1 + 0.75 + 0.5)·4
		Overlap: r.Overlaps[0], Potential: 3,
	}
	if got := *l.Placed(at); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
}
