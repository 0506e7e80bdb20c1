package sched_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

func discarding() *slog.Logger { return slog.New(slog.DiscardHandler) }

// logTo returns a logger that writes lines without their time.
func logTo(b *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// modelsOnly is a policy file with a profile for one model and none at its top.
func modelsOnly(t *testing.T) *policy.File {
	t.Helper()
	return &policy.File{Models: map[string]*policy.Profile{"llama": policyOf(t, queueing)}}
}

func TestRareEventsAreLogged(t *testing.T) {
	t.Parallel()
	broken := pickFunc(func(*selector.Input) (selector.Pick, error) { return selector.Pick{}, errors.New("no idea") })
	for _, tt := range []struct {
		name   string
		config sched.Config
		opts   []sched.Option
		do     func(*testing.T, *sched.Scheduler)
		want   string
	}{
		{name: "nothing rare", do: func(t *testing.T, s *sched.Scheduler) {
			require.NoError(t, schedule(t, s, sched.Request{ID: "r", ISL: 10}).Release())
			require.NoError(t, s.RemoveWorker(2))
			_, err := s.Schedule(t.Context(), &sched.Request{ID: ""})
			require.ErrorIs(t, err, sched.ErrInvalid)
		}},
		{name: "worker removed", do: func(t *testing.T, s *sched.Scheduler) {
			schedule(t, s, sched.Request{ID: "a", Allowed: []uint64{1}})
			schedule(t, s, sched.Request{ID: "b", Allowed: []uint64{1}})
			require.NoError(t, s.RemoveWorker(1))
		}, want: `
level=WARN msg="turnstile: rank removed with live bookings" rank=1/0 bookings=2`},
		{name: "expired", config: sched.Config{BookingTTL: time.Minute}, do: func(t *testing.T, s *sched.Scheduler) {
			schedule(t, s, sched.Request{ID: "a", Allowed: []uint64{2}})
			time.Sleep(time.Hour)
		}, want: `
level=WARN msg="turnstile: booking expired" request=a rank=2/0 attempt=1`},
		{name: "profile", do: func(t *testing.T, s *sched.Scheduler) {
			require.NoError(t, s.SetProfile(policyOf(t, mixed)))
			require.NoError(t, s.SetProfile(policyOf(t, queueing)))
		}, want: `
level=INFO msg="turnstile: policy profile replaced" classes="[f never open half]" gone=[default] waiting=0
level=INFO msg="turnstile: policy profile replaced" classes=[f] gone="[never open half]" waiting=0`},
		{name: "no profile for the model", config: sched.Config{Model: "typo", Policy: modelsOnly(t)}, want: `
level=WARN msg="turnstile: the policy has no profile for the model, nor one at its top: no request waits" model=typo`},
		{name: "a profile for the model", config: sched.Config{Model: "llama", Policy: modelsOnly(t)}},
		{name: "a profile beside the policy", config: sched.Config{Model: "typo", Policy: modelsOnly(t), Profile: policyOf(t, mixed)}},
		{name: "selector", config: sched.Config{Selector: broken}, do: func(t *testing.T, s *sched.Scheduler) {
			for range 5 {
				_, err := s.Schedule(t.Context(), &sched.Request{ID: "r"})
				require.ErrorIs(t, err, sched.ErrSelector)
			}
		}, want: `
level=ERROR msg="turnstile: selector failed" error="turnstile: selector-failed: request \"r\": the selector must choose one of the candidates: no idea" count=1
level=ERROR msg="turnstile: selector failed" error="turnstile: selector-failed: request \"r\": the selector must choose one of the candidates: no idea" count=2
level=ERROR msg="turnstile: selector failed" error="turnstile: selector-failed: request \"r\": the selector must choose one of the candidates: no idea" count=4`},
		{name: "hooks", opts: []sched.Option{
			sched.WithPrefillEstimator(func(sched.PrefillWork) (time.Duration, bool) { panic("estimator") }),
			sched.WithDecisionHook(func(sched.Decision) { panic("hook") }),
			sched.WithObserver(func(e sched.Event) {
				if e.Kind == sched.EventReleased {
					panic(errors.New("observer"))
				}
			}),
		}, do: func(t *testing.T, s *sched.Scheduler) {
			require.NoError(t, schedule(t, s, sched.Request{ID: "r", ISL: 10}).Release())
			require.NoError(t, s.Settle(t.Context()))
			require.EqualValues(t, 3, s.Stats().HookPanics)
		}, want: `
level=ERROR msg="turnstile: hook panicked" hook="prefill estimator" panic=estimator count=1
level=ERROR msg="turnstile: hook panicked" hook="decision hook" panic=hook count=1
level=ERROR msg="turnstile: hook panicked" hook=observer panic=observer count=1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var logged bytes.Buffer
				s := newScheduler(t, tt.config, append(tt.opts, sched.WithLogger(logTo(&logged)))...)
				addWorkers(t, s, 2)
				if tt.do != nil {
					tt.do(t, s)
				}
				synctest.Wait()
				require.Equal(t, strings.TrimSpace(tt.want), strings.TrimSpace(logged.String()))
				_ = s.Close()
			})
		})
	}
}

func TestLeakIsLoggedAndTold(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	var last sched.Event
	s := newScheduler(t, sched.Config{ReclaimLeaked: true}, sched.WithLogger(logTo(&logged)),
		sched.WithObserver(func(e sched.Event) { last = e }))
	addWorkers(t, s, 1)
	schedule(t, s, sched.Request{ID: "leaked", ISL: 10})
	require.Eventually(t, func() bool {
		runtime.GC()
		return s.Stats().Leaked > 0
	}, time.Minute, time.Millisecond)
	requireIdle(t, s)
	require.Equal(t, sched.EventLeaked, last.Kind)
	require.Contains(t, logged.String(), `msg="turnstile: booking leaked" request=leaked rank=1/0 attempt=1`)
}

// Lines have room of their own, so that a flood of events hides none; and a
// handler that panics is not asked to log that.
func TestHandlerThatBreaks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		lines := 0
		s := newScheduler(t, sched.Config{EventBuffer: 1}, sched.WithObserver(func(sched.Event) { <-stuck }),
			sched.WithLogger(slog.New(handlerFunc(func() {
				lines++
				panic("handler")
			}))))
		addWorkers(t, s, 1)
		for range 10 {
			schedule(t, s, sched.Request{ID: "dropped"})
			require.NoError(t, s.RemoveWorker(1))
			addWorkers(t, s, 1)
		}
		require.EqualValues(t, 19, s.Stats().EventsDropped)
		close(stuck)
		require.NoError(t, s.Settle(t.Context()))
		require.Equal(t, 10, lines)
		require.EqualValues(t, 10, s.Stats().HookPanics)
	})
}

type handlerFunc func()

func (h handlerFunc) Enabled(context.Context, slog.Level) bool { return true }

func (h handlerFunc) Handle(context.Context, slog.Record) error { h(); return nil }

func (h handlerFunc) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h handlerFunc) WithGroup(string) slog.Handler { return h }
