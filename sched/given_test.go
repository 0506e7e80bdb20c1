package sched_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

var (
	errorType   = reflect.TypeFor[error]()
	contextType = reflect.TypeFor[context.Context]()
)

// callMethods calls every exported method of what receiver makes, anew for each, with
// zero values or, if withContext is set, with those and a context. It returns the
// errors of the methods that have one, by their names.
func callMethods(t *testing.T, receiver func() any, withContext bool) map[string]error {
	t.Helper()
	errs := make(map[string]error)
	typ := reflect.TypeOf(receiver())
	for i := range typ.NumMethod() {
		method := typ.Method(i)
		in := []reflect.Value{reflect.ValueOf(receiver())}
		for p := 1; p < method.Type.NumIn(); p++ {
			switch arg := method.Type.In(p); {
			case method.Type.IsVariadic() && p == method.Type.NumIn()-1:
			case arg == contextType && withContext:
				in = append(in, reflect.ValueOf(t.Context()))
			default:
				in = append(in, reflect.Zero(arg))
			}
		}
		var out []reflect.Value
		require.NotPanics(t, func() { out = method.Func.Call(in) }, "%s of %v", method.Name, typ)
		if n := len(out); n > 0 && out[n-1].Type() == errorType {
			errs[method.Name], _ = out[n-1].Interface().(error)
		}
	}
	return errs
}

// Methods of a scheduler or booking that this package did not make return an error
// and do nothing; there is no method of which that is not true.
func TestWhatWasNotMadeIsAnError(t *testing.T) {
	t.Parallel()
	for name, receiver := range map[string]func() any{
		"nil scheduler":  func() any { return (*sched.Scheduler)(nil) },
		"zero scheduler": func() any { return new(sched.Scheduler) },
		"nil booking":    func() any { return (*sched.Booking)(nil) },
		"zero booking":   func() any { return new(sched.Booking) },
	} {
		for _, withContext := range []bool{false, true} {
			errs := callMethods(t, receiver, withContext)
			require.Greater(t, len(errs), 6, name)
			for method, err := range errs {
				require.ErrorIs(t, err, sched.ErrInvalid, "%s: %s", name, method)
				require.ErrorContains(t, err, "must be made by", "%s: %s", name, method)
			}
		}
	}
	var zero sched.Booking
	select {
	case <-zero.Done():
	default:
		t.Error("who waits for the end of a booking that was never made waits for ever")
	}
}

// Methods of a working scheduler, of a closed one and of a booking stand any zero
// value.
func TestZeroValuesAreNoPanic(t *testing.T) {
	t.Parallel()
	scheduler := func() *sched.Scheduler {
		s := under(t, queueing, 1)
		return s
	}
	closed := func() any {
		s := scheduler()
		require.NoError(t, s.Close())
		return s
	}
	booking := func() any { return schedule(t, scheduler(), sched.Request{ID: "r", ISL: 5}) }
	for _, withContext := range []bool{false, true} {
		for _, receiver := range []func() any{func() any { return scheduler() }, closed, booking} {
			errs := callMethods(t, receiver, withContext)
			for _, method := range []string{"Schedule", "Query", "Select", "Do", "Recheck", "Shutdown", "Settle"} {
				if err, ok := errs[method]; ok && !withContext {
					require.ErrorIs(t, err, sched.ErrInvalid, "%s without a context", method)
				}
			}
		}
	}
}

// Values that mean nothing are errors, or mean nothing.
func TestNonsenseIsNoPanic(t *testing.T) {
	t.Parallel()
	s, err := sched.New(sched.Config{BlockSize: 16, Profile: policyOf(t, queueing)},
		nil, sched.WithClock(nil), sched.WithRand(nil), sched.WithObserver(nil), sched.WithLogger(nil),
		sched.WithDecisionHook(nil), sched.WithOverlapRefresher(nil), sched.WithPrefillEstimator(nil))
	require.NoError(t, err)
	addWorkers(t, s, 1)
	hold := schedule(t, s, sched.Request{ID: "hold", ISL: 5})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, _ = s.Schedule(ctx, &sched.Request{ID: "waits", ISL: 5}) }()
	waitFor(t, s, 1)
	require.Empty(t, s.Snapshot(-1).Classes[0].Heads)
	require.Len(t, s.Snapshot(1).Classes[0].Heads, 1)
	require.ErrorIs(t, s.Recheck(nil), sched.ErrInvalid) //nolint:staticcheck // that is what is tested
	cancel()
	waitFor(t, s, 0)
	require.NoError(t, hold.Release())
	requireIdle(t, s)

	for _, text := range []fmt.Stringer{&sched.Explanation{}, sched.EventKind(99), sched.DecisionKind(99)} {
		require.NotPanics(t, func() { _ = text.String() })
	}
	require.Equal(t, "turnstile: error without a code", (&sched.Error{}).Error())
	require.NotErrorIs(t, &sched.Error{}, sched.ErrInvalid)
	require.Zero(t, (&sched.Histogram{}).Count())
	require.NoError(t, sched.RetryElsewhere(nil))
}

// go vet reports a struct as copied that has a field with a pointer's Lock and Unlock.
func TestBookingIsMarkedAgainstCopies(t *testing.T) {
	t.Parallel()
	marked := false
	for field := range reflect.TypeFor[sched.Booking]().NumField() {
		typ := reflect.TypeFor[sched.Booking]().Field(field).Type
		marked = marked || reflect.PointerTo(typ).Implements(reflect.TypeFor[sync.Locker]())
	}
	require.True(t, marked)
}

// waitFor waits until so many requests stand in line.
func waitFor(t testing.TB, s *sched.Scheduler, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return inLine(s) == n }, time.Minute, time.Millisecond)
}
