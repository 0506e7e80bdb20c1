package storm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/stress/engines"
)

// stopper is embedder's code that stops when told to.
type stopper struct {
	selector.Selector
	// at is the input length of the request at which Pick stops.
	at      int64
	stopped chan struct{}
	proceed chan struct{}
	once    sync.Once
}

func newStopper(at int64) *stopper {
	return &stopper{Selector: selector.KV(), at: at, stopped: make(chan struct{}), proceed: make(chan struct{})}
}

func (s *stopper) stop() {
	s.once.Do(func() {
		close(s.stopped)
		<-s.proceed
	})
}

func (s *stopper) Pick(in *selector.Input) (selector.Pick, error) {
	if in.ISL == s.at {
		s.stop()
	}
	return s.Selector.Pick(in)
}

func newPlain(t *testing.T, name string, sel selector.Selector, hook func(sched.Decision)) engine.Engine {
	t.Helper()
	list, err := profiles(ProfileOn)
	require.NoError(t, err)
	config := sched.Config{BlockSize: blockSize, Profile: list[0].parsed, Selector: sel}
	var e engine.Engine
	if name == engines.Sharded {
		var opts []sched.Option
		if hook != nil {
			opts = append(opts, sched.WithDecisionHook(hook))
		}
		e, err = engine.NewSharded(config, opts...)
	} else {
		direct := name == engines.ActorDirect
		e, err = actor.New(actor.Config{Config: config, Direct: direct, OnDecision: hook, Buffer: 64})
	}
	require.NoError(t, err)
	for id := range uint64(8) {
		require.NoError(t, e.UpsertWorker(sched.Worker{ID: id + 1, Ranks: 1}))
	}
	return e
}

// stage is an engine with a booking on each of its ranks but the last, and one
// request that waits for the first.
type stage struct {
	t        *testing.T
	e        engine.Engine
	bookings []engine.Booking
	cancel   context.CancelFunc
	left     chan error
}

func newStage(t *testing.T, e engine.Engine) *stage {
	t.Helper()
	s := &stage{t: t, e: e, left: make(chan error, 1)}
	for i := range uint64(7) {
		b, err := e.Schedule(t.Context(), &sched.Request{ID: fmt.Sprint(i), ISL: 10, Pin: &sched.RankID{Worker: i + 1}})
		require.NoError(t, err)
		s.bookings = append(s.bookings, b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	go func() {
		_, err := e.Schedule(ctx, &sched.Request{ID: "leaves", ISL: 10, Pin: &sched.RankID{Worker: 1}})
		s.left <- err
	}()
	require.Eventually(t, func() bool {
		classes := e.Stats().Classes
		return slices.ContainsFunc(classes, func(c sched.ClassStats) bool { return c.Pending == 1 })
	}, time.Minute, time.Millisecond)
	// It has the turn no more, else it would be the one who is stopped.
	require.NoError(t, e.Settle(t.Context()))
	return s
}

// calls are what others do meanwhile. Each is made once, in this order.
func (s *stage) calls() []namedCall {
	ctx := s.t.Context()
	return []namedCall{
		{"PrefillDone", func() error { return s.bookings[1].PrefillDone() }},
		{"AddOutputBlock", func() error { return s.bookings[2].AddOutputBlock() }},
		{"Touch", func() error { return s.e.Touch("3", 0) }},
		{"Transfer", func() error { _, err := s.bookings[4].Transfer(sched.RankID{Worker: 1}); return err }},
		{"Release", func() error { return s.bookings[5].Release() }},
		{"Select", func() error { _, err := s.e.Select(ctx, &sched.Request{ISL: 1}); return err }},
		{"Loads", func() error { s.e.Loads(); return nil }},
		{"Stats", func() error { s.e.Stats(); return nil }},
		{"leaving", func() error {
			s.cancel()
			if err := <-s.left; !errors.Is(err, sched.ErrCanceled) {
				return fmt.Errorf("left with %w", err)
			}
			return nil
		}},
	}
}

type namedCall struct {
	name string
	make func() error
}

// requireHeldUp makes the calls while the engine stands still and requires that
// those named do not come back before it goes on, and that all others do.
func requireHeldUp(t *testing.T, calls []namedCall, proceed chan struct{}, want []string) {
	t.Helper()
	done := make([]chan error, len(calls))
	for i, c := range calls {
		done[i] = make(chan error, 1)
		go func() { done[i] <- c.make() }()
	}
	patience := time.After(time.Minute)
	for i, c := range calls {
		if slices.Contains(want, c.name) {
			continue
		}
		select {
		case err := <-done[i]:
			require.NoError(t, err, c.name)
		case <-patience:
			require.Fail(t, "held up", c.name)
		}
	}
	time.Sleep(50 * time.Millisecond)
	for i, c := range calls {
		if slices.Contains(want, c.name) {
			require.Empty(t, done[i], "%s was not held up", c.name)
		}
	}
	close(proceed)
	for i, c := range calls {
		if slices.Contains(want, c.name) {
			require.NoError(t, <-done[i], c.name)
		}
	}
}

func (s *stage) end() {
	for i := range s.bookings {
		err := s.e.Release(fmt.Sprint(i), 0)
		if err != nil {
			assert.ErrorIs(s.t, err, sched.ErrNotFound)
		}
	}
	require.NoError(s.t, s.e.Settle(s.t.Context()))
	require.Zero(s.t, s.e.Stats().Live)
	require.NoError(s.t, s.e.Close())
}

// Whoever has the turn is stopped in the embedder's selector: invariant 9. The
// library holds nobody up but the callers that selector works for; the actor
// holds up whoever needs the actor.
func TestSelectorStopsInTheTurn(t *testing.T) {
	for name, want := range map[string][]string{
		engines.Sharded:     nil,
		engines.ActorDirect: {"Stats", "leaving"},
		engines.Actor:       {"PrefillDone", "AddOutputBlock", "Touch", "Transfer", "Release", "Select", "Loads", "Stats", "leaving"},
	} {
		t.Run(name, func(t *testing.T) {
			sel := newStopper(77)
			s := newStage(t, newPlain(t, name, sel, nil))
			// It stands in line, as somebody waits, and can run: in the turn.
			stopped := make(chan error, 1)
			go func() {
				b, err := s.e.Schedule(t.Context(), &sched.Request{ID: "stops", ISL: 77, Allowed: []uint64{8}})
				if err == nil {
					err = b.Release()
				}
				stopped <- err
			}()
			<-sel.stopped
			requireHeldUp(t, s.calls(), sel.proceed, want)
			require.NoError(t, <-stopped)
			s.end()
		})
	}
}

// The decision hook stops. In the library it stops one caller, who tells; in the
// actor it stops the actor.
func TestHookStops(t *testing.T) {
	for name, want := range map[string][]string{
		engines.Sharded:     nil,
		engines.ActorDirect: {"Stats", "leaving", "schedule"},
		engines.Actor:       {"PrefillDone", "AddOutputBlock", "Touch", "Transfer", "Release", "Select", "Loads", "Stats", "leaving", "schedule"},
	} {
		t.Run(name, func(t *testing.T) {
			hook := newStopper(0)
			s := newStage(t, newPlain(t, name, nil, func(d sched.Decision) {
				if d.Request == "stops" {
					hook.stop()
				}
			}))
			go func() { // refused at the door
				_, err := s.e.Schedule(t.Context(), &sched.Request{ID: "stops", ISL: -1})
				assert.ErrorIs(t, err, sched.ErrInvalid)
			}()
			<-hook.stopped
			calls := append(s.calls(), namedCall{"schedule", func() error {
				b, err := s.e.Schedule(t.Context(), &sched.Request{ID: "new", ISL: 10, Pin: &sched.RankID{Worker: 8}})
				if err == nil {
					err = b.Release()
				}
				return err
			}})
			requireHeldUp(t, calls, hook.proceed, want)
			s.end()
		})
	}
}

// A full channel holds up the actor's callers, even those that only report.
func TestFullChannelHoldsUpTheActor(t *testing.T) {
	sel := newStopper(77)
	s := newStage(t, newPlain(t, engines.Actor, sel, nil))
	go func() { _, _ = s.e.Schedule(t.Context(), &sched.Request{ID: "stops", ISL: 77, Allowed: []uint64{8}}) }()
	<-sel.stopped
	ended, end := context.WithCancel(t.Context())
	end()
	for range 10_000 { // each leaves a message by an even chance, until there is no room
		_ = s.e.Recheck(ended)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := s.e.Schedule(ctx, &sched.Request{ID: "late", ISL: 10})
	require.ErrorIs(t, err, sched.ErrDeadline, "who has a deadline gets away")
	calls := []namedCall{{"Release", func() error { return s.bookings[0].Release() }}}
	requireHeldUp(t, calls, sel.proceed, []string{"Release"})
	s.cancel()
	if err := <-s.left; err != nil { // it may have been granted before
		require.ErrorIs(t, err, sched.ErrCanceled)
	}
	require.NoError(t, s.e.Close())
}

// Panics in the embedder's code end the request they are for, and nothing else.
func TestPanicsAreSurvived(t *testing.T) {
	for _, name := range Engines() {
		t.Run(name, func(t *testing.T) {
			e := newPlain(t, name, panicAt{selector.KV()}, func(sched.Decision) { panic(errInjected) })
			_, err := e.Schedule(t.Context(), &sched.Request{ID: "dies", ISL: 77})
			require.ErrorIs(t, err, sched.ErrSelector)
			b, err := e.Schedule(t.Context(), &sched.Request{ID: "lives", ISL: 10})
			require.NoError(t, err)
			require.NoError(t, b.Release())
			require.NoError(t, e.Settle(t.Context()))
			require.Zero(t, e.Stats().Live)
			require.NoError(t, e.Close())
		})
	}
}

type panicAt struct{ selector.Selector }

func (p panicAt) Pick(in *selector.Input) (selector.Pick, error) {
	if in.ISL == 77 {
		panic(errInjected)
	}
	return p.Selector.Pick(in)
}

// An engine that is dropped without Close: the library leaves no goroutine, the
// actor leaves its own.
func TestGoroutinesWithoutClose(t *testing.T) {
	require.NoError(t, goleak.Find()) // waits for those that are ending
	for name, want := range map[string]int{engines.Sharded: 0, engines.Actor: 1, engines.ActorDirect: 1} {
		before := runtime.NumGoroutine()
		e := newPlain(t, name, nil, nil)
		b, err := e.Schedule(t.Context(), &sched.Request{ID: "r", ISL: 10})
		require.NoError(t, err)
		require.NoError(t, b.Release())
		require.Equal(t, want, runtime.NumGoroutine()-before, name)
		require.NoError(t, e.Close())
		for tries := 0; runtime.NumGoroutine() > before; tries++ {
			require.Less(t, tries, 10_000, name)
			time.Sleep(time.Millisecond)
		}
	}
}

// What the checker would say: it finds what is wrong in histories that are.
func TestOrderIsChecked(t *testing.T) {
	placed := func(rank uint64) sched.Placement {
		return sched.Placement{Rank: sched.RankID{Worker: rank}}
	}
	queued := func(id string) sched.Decision { return sched.Decision{Kind: sched.DecisionQueued, Request: id} }
	granted := func(id string, rank uint64) sched.Decision {
		return sched.Decision{Kind: sched.DecisionAdmitted, Request: id, Placement: placed(rank)}
	}
	left := func(id string) sched.Decision {
		return sched.Decision{Kind: sched.DecisionRejected, Request: id, Err: sched.ErrCanceled}
	}
	a, b := ticketID("f", laneFree, 0, 1, 1), ticketID("f", laneFree, 0, 2, 1)
	urgent, pinned := ticketID("f", laneFree, 1, 3, 1), ticketID("f", lanePinned(sched.RankID{Worker: 1}), 0, 4, 1)
	for _, test := range []struct {
		name  string
		exact bool
		told  []sched.Decision
		want  int64
	}{
		{"in order", false, []sched.Decision{queued(a), queued(b), granted(a, 1), granted(b, 1)}, 0},
		{"passed", false, []sched.Decision{queued(a), queued(b), granted(b, 1), granted(a, 1)}, 1},
		{"passed by one that did not wait", false, []sched.Decision{queued(a), granted(b, 1), granted(a, 1)}, 1},
		{"passed one that had left", false, []sched.Decision{queued(a), queued(b), granted(b, 1), left(a)}, 0},
		{"priority", false, []sched.Decision{queued(a), queued(urgent), granted(urgent, 1), granted(a, 1)}, 0},
		{"priority passed", false, []sched.Decision{queued(urgent), queued(a), granted(a, 1), granted(urgent, 1)}, 1},
		{"pinned passes", false, []sched.Decision{queued(a), queued(pinned), granted(pinned, 1), granted(a, 1)}, 1},
		{"passes the pinned", false, []sched.Decision{queued(pinned), queued(a), granted(a, 1), granted(pinned, 1)}, 0},
		{"passes the pinned on its rank", true, []sched.Decision{queued(pinned), queued(a), granted(a, 1), granted(pinned, 1)}, 1},
		{"passes the pinned elsewhere", true, []sched.Decision{queued(pinned), queued(a), granted(a, 2), granted(pinned, 1)}, 0},
	} {
		var v violations
		o := newOrder(&v, test.exact)
		for _, d := range slices.Clone(test.told) {
			o.told(&d)
		}
		require.Equal(t, test.want, v.count(), test.name)
		o.checkEmpty()
		require.Equal(t, test.want, v.count(), test.name)
	}
	var v violations
	o := newOrder(&v, false)
	d := queued(a)
	o.told(&d)
	o.checkEmpty()
	require.EqualValues(t, 1, v.count())
}
