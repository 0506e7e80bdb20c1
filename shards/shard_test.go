package shards_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-3c5df8a4/turnstile/capacity"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

func TestViewFollowsTheBookings(t *testing.T) {
	t.Parallel()
	now := int64(1000)
	env := newEnv(&now)
	s := shards.NewShard(rank(3, 1), env)
	if s.ID() != rank(3, 1) || s.Ordinal() != 1 || s.View() != (shards.View{}) {
		t.Fatalf("%v is generation %d with %+v", s.ID(), s.Ordinal(), s.View())
	}
	b := booked(s, &lifecycle.Booking{Tokens: 100, Tracked: true, Expected: 50}, 1, 2)
	v := s.View()
	if v.Requests != 1 || v.Blocks != 2 || v.Prefill.Active(now) != 100 || v.Prefill.Active(now+25) != 50 || v.Version == 0 {
		t.Fatalf("%+v", v)
	}
	s.Lock()
	if s.LoadLocked() != v.Load || s.LivePrefixLocked([]uint64{1, 2, 3}) != 2 || s.LivePrefixLocked([]uint64{2}) != 0 {
		t.Error("what is under the lock is another load")
	}
	load, live := s.WithoutLocked(b, []uint64{1})
	if load != (lifecycle.Load{}) || live != 0 {
		t.Errorf("without the booking: %+v, %d", load, live)
	}
	last := v.Version
	changed := func(what string, blocks, requests int64) {
		t.Helper()
		v := s.View()
		if v.Blocks != blocks || v.Requests != requests || v.Version <= last || v.Version != s.Version() {
			t.Errorf("%s: %+v", what, v)
		}
		last = v.Version
	}
	s.AddOutputBlockLocked(b)
	changed("an output block", 3, 1)
	s.AddDecayedOutputBlockLocked(b, 0)
	changed("a block that weighs nothing", 0, 1) // the prompt's blocks decay too
	if !s.PrefillDoneLocked(b) || s.View().Prefill.HasAnchor {
		t.Error("the prefill is not done")
	}
	changed("prefill done", 0, 1)
	if s.PrefillDoneLocked(b) || s.Version() != last {
		t.Error("done twice")
	}
	s.TouchLocked(b)
	for other := range s.BookingsLocked() {
		if other != b {
			t.Error("somebody else is booked")
		}
	}
	s.ReleaseLocked(b)
	changed("released", 0, 0)
	if err := s.CheckLocked(); err != nil {
		t.Error(err)
	}
	s.Unlock()
}

type hintRing = capacity.Ring[*shards.Shard]

// A hint is left exactly when prefill load goes down or decays otherwise than
// before.
func TestHints(t *testing.T) {
	t.Parallel()
	modelled := func(n int64, d time.Duration) *lifecycle.Booking {
		return &lifecycle.Booking{Tokens: n, Tracked: true, Expected: d}
	}
	untracked := &lifecycle.Booking{Tokens: 50, Expected: lifecycle.NoDuration}
	for _, test := range []struct {
		name  string
		setup []*lifecycle.Booking
		do    func(s *shards.Shard, b []*lifecycle.Booking, hints *hintRing)
		want  bool
	}{
		{"the first booking", nil, func(s *shards.Shard, _ []*lifecycle.Booking, _ *hintRing) { s.BookLocked(tokens(10), nil) }, false},
		{"a modelled prefill on an empty rank", nil, func(s *shards.Shard, _ []*lifecycle.Booking, _ *hintRing) { s.BookLocked(modelled(10, 5), nil) }, true},
		{"a modelled prefill on another", []*lifecycle.Booking{tokens(10)}, func(s *shards.Shard, _ []*lifecycle.Booking, _ *hintRing) { s.BookLocked(modelled(10, 5), nil) }, false},
		{"a second", []*lifecycle.Booking{tokens(10)}, func(s *shards.Shard, _ []*lifecycle.Booking, _ *hintRing) { s.BookLocked(tokens(10), nil) }, false},
		{
			"one that makes the rest decay no more", []*lifecycle.Booking{modelled(10, 5)},
			func(s *shards.Shard, _ []*lifecycle.Booking, _ *hintRing) { s.BookLocked(tokens(10), nil) }, false,
		},
		{"prefill done", []*lifecycle.Booking{tokens(10)}, func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.PrefillDoneLocked(b[0]) }, true},
		{
			"prefill of a later one done", []*lifecycle.Booking{tokens(10), tokens(10)},
			func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.PrefillDoneLocked(b[1]) }, true,
		},
		{"released", []*lifecycle.Booking{tokens(10)}, func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.ReleaseLocked(b[0]) }, true},
		{
			"released after its prefill", []*lifecycle.Booking{tokens(10)},
			func(s *shards.Shard, b []*lifecycle.Booking, hints *hintRing) {
				s.PrefillDoneLocked(b[0])
				hints.Drain(func(*shards.Shard) {})
				s.ReleaseLocked(b[0])
			}, false,
		},
		{"released untracked", []*lifecycle.Booking{untracked}, func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.ReleaseLocked(b[0]) }, false},
		{
			"prefill of an untracked one done", []*lifecycle.Booking{untracked},
			func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.PrefillDoneLocked(b[0]) }, false,
		},
		{"an output block", []*lifecycle.Booking{tokens(10)}, func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.AddOutputBlockLocked(b[0]) }, false},
		{
			"decayed blocks", []*lifecycle.Booking{tokens(10)},
			func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.AddDecayedOutputBlockLocked(b[0], 0) }, false,
		},
		{"fewer tokens", []*lifecycle.Booking{tokens(10)}, func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.SetTokensLocked(b[0], 9) }, true},
		{
			"fewer of a later one", []*lifecycle.Booking{tokens(10), tokens(10)},
			func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.SetTokensLocked(b[1], 9) }, true,
		},
		{
			"more of a later one", []*lifecycle.Booking{tokens(10), tokens(10)},
			func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.SetTokensLocked(b[1], 11) }, false,
		},
		// It decays at another pace now.
		{"more of the anchor", []*lifecycle.Booking{modelled(10, 5)}, func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.SetTokensLocked(b[0], 11) }, true},
		{"as many tokens", []*lifecycle.Booking{modelled(10, 5)}, func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.SetTokensLocked(b[0], 10) }, false},
		{"a touch", []*lifecycle.Booking{tokens(10)}, func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) { s.TouchLocked(b[0]) }, false},
		{
			"a removed rank", []*lifecycle.Booking{tokens(10)},
			func(s *shards.Shard, b []*lifecycle.Booking, _ *hintRing) {
				s.KillLocked()
				s.ReleaseLocked(b[0])
				if !s.DeadLocked() {
					panic("alive")
				}
			}, false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			env := timeless()
			env.EnableHints()
			s := shards.NewShard(rank(1, 0), env)
			s.Lock()
			defer s.Unlock()
			for _, b := range test.setup {
				c := *b // the table is shared
				s.BookLocked(&c, nil)
			}
			var live []*lifecycle.Booking
			for b := range s.BookingsLocked() {
				live = append(live, b)
			}
			env.Hints().Drain(func(*shards.Shard) {}) // of a modelled prefill that was the first
			test.do(s, live, env.Hints())
			if got := s.HintedLocked(); got != test.want {
				t.Fatalf("hint: %t", got)
			}
			if got := env.Hints().Pending(); got != test.want {
				t.Fatalf("pending: %t", got)
			}
		})
	}
}

// A decrease of requests or blocks leaves a hint while a profile asks for it, and
// only then.
func TestHintsOfWhatIsWatched(t *testing.T) {
	t.Parallel()
	release := func(s *shards.Shard, b *lifecycle.Booking) { s.ReleaseLocked(b) }
	decay := func(s *shards.Shard, b *lifecycle.Booking) { s.AddDecayedOutputBlockLocked(b, 0) }
	grow := func(s *shards.Shard, b *lifecycle.Booking) { s.AddOutputBlockLocked(b) }
	requests, blocks := lifecycle.Watched{Requests: true}, lifecycle.Watched{Blocks: true}
	for _, test := range []struct {
		name    string
		watched lifecycle.Watched
		blocks  []uint64
		do      func(*shards.Shard, *lifecycle.Booking)
		want    bool
	}{
		{"released, nothing watched", lifecycle.Watched{}, []uint64{1, 2}, release, false},
		{"released, requests watched", requests, nil, release, true},
		{"released without blocks, blocks watched", blocks, nil, release, false},
		{"released with blocks, blocks watched", blocks, []uint64{1, 2}, release, true},
		{"decayed, requests watched", requests, []uint64{1, 2}, decay, false},
		{"decayed, blocks watched", blocks, []uint64{1, 2}, decay, true},
		{"an output block, both watched", requests.Or(blocks), []uint64{1, 2}, grow, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			env := timeless()
			env.EnableHints()
			env.Watch(test.watched)
			if env.Watched() != test.watched {
				t.Fatalf("watched: %+v", env.Watched())
			}
			s := shards.NewShard(rank(1, 0), env)
			b := booked(s, &lifecycle.Booking{ID: "untracked", Tokens: 10}, test.blocks...)
			s.Lock()
			defer s.Unlock()
			if s.HintedLocked() {
				t.Fatal("a hint before anything happened")
			}
			if test.do(s, b); s.HintedLocked() != test.want {
				t.Fatalf("hint: %t", !test.want)
			}
		})
	}
}

func TestTransferHintsAtTheRankItLeaves(t *testing.T) {
	t.Parallel()
	env := timeless()
	env.EnableHints()
	from, to := shards.NewShard(rank(1, 0), env), shards.NewShard(rank(2, 0), env)
	b := booked(from, tokens(10), 7, 8)
	shards.LockBoth(to, from)
	from.TransferLocked(b, to, 4)
	if !from.HintedLocked() || to.HintedLocked() {
		t.Errorf("hints: %t, %t", from.HintedLocked(), to.HintedLocked())
	}
	shards.UnlockBoth(to, from)
	if f, v := from.View(), to.View(); f.Load != (lifecycle.Load{}) || v.Requests != 1 || v.Prefill.Sum != 4 || v.Blocks != 2 {
		t.Errorf("moved %+v to %+v", f, v)
	}
	var seen []lifecycle.RankID
	env.Hints().Drain(func(s *shards.Shard) { seen = append(seen, s.ID()) })
	if fmt.Sprint(seen) != "[1/0]" {
		t.Errorf("hints about %v", seen)
	}
}

func TestHintsAreOffUntilEnabled(t *testing.T) {
	t.Parallel()
	env := timeless()
	s := shards.NewShard(rank(1, 0), env)
	b := booked(s, tokens(5))
	s.Lock()
	s.ReleaseLocked(b)
	if s.HintedLocked() || env.Hints() != nil {
		t.Error("a hint without a ring")
	}
	s.Unlock()
	env.EnableHints()
	ring := env.Hints()
	if env.EnableHints(); ring == nil || env.Hints() != ring {
		t.Error("enabled twice makes two rings")
	}
}

func TestRemovedRankLeavesNoMark(t *testing.T) {
	t.Parallel()
	env := timeless()
	env.EnableHints()
	s := shards.NewShard(rank(1, 0), env)
	b := booked(s, tokens(5))
	s.Lock()
	s.PrefillDoneLocked(b)
	if !s.HintedLocked() {
		t.Error("no hint")
	}
	s.KillLocked()
	if s.HintedLocked() || env.Hints().Pending() {
		t.Error("the mark outlives the rank")
	}
	s.Unlock()
}

func TestLockOrder(t *testing.T) {
	t.Parallel()
	env := timeless()
	a, b, c := shards.NewShard(rank(1, 1), env), shards.NewShard(rank(2, 0), env), shards.NewShard(rank(1, 1), env)
	for _, pair := range [][2]*shards.Shard{{a, b}, {a, c}, {c, b}} { // of one id, the older first
		if !pair[0].Before(pair[1]) || pair[1].Before(pair[0]) {
			t.Errorf("%v, %v: not in order", pair[0].ID(), pair[1].ID())
		}
	}
	if a.Before(a) {
		t.Error("a rank is before itself")
	}
	shards.LockBoth(a, a)
	shards.UnlockBoth(a, a)
}

// Transfers in all directions at once: nobody blocks anybody for good, and the
// load is conserved.
func TestTransfersInAllDirections(t *testing.T) {
	t.Parallel()
	n := 4_000
	if testing.Short() {
		n /= 10
	}
	env := timeless()
	env.EnableHints()
	list := make([]*shards.Shard, 4)
	for i := range list {
		list[len(list)-1-i] = shards.NewShard(rank(uint64(i/2), uint32(i%2)), env)
	}
	const movers = 8
	var wg sync.WaitGroup
	for m := range movers {
		wg.Go(func() {
			rnd := seeded(uint64(m))
			at := rnd.IntN(len(list))
			b := booked(list[at], tokens(10), uint64(m%3), 5)
			for range n {
				to := rnd.IntN(len(list))
				shards.LockBoth(list[at], list[to])
				list[at].TransferLocked(b, list[to], 10)
				shards.UnlockBoth(list[at], list[to])
				at = to
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("deadlock")
	}
	var requests, sum int64
	for _, s := range list {
		requests += s.View().Requests
		sum += s.View().Prefill.Sum
		s.Lock()
		if err := s.CheckLocked(); err != nil {
			t.Error(err)
		}
		for b := range s.BookingsLocked() {
			s.ReleaseLocked(b)
		}
		if s.View().Load != (lifecycle.Load{}) {
			t.Errorf("%v keeps %+v", s.ID(), s.View().Load)
		}
		s.Unlock()
	}
	if requests != movers || sum != 10*movers {
		t.Fatalf("%d requests with %d tokens", requests, sum)
	}
}
