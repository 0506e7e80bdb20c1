package sched_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// brokenError is an error of which a nil pointer is easily returned.
type brokenError struct {
	text  string
	cause error
}

func (e *brokenError) Error() string { return e.text }
func (e *brokenError) Unwrap() error { return e.cause }

// A selector that returns a nil *brokenError as its error (Go's most common
// mistake) harms its own request alone: the id is free again and the turn too.
func TestSelectorsTypedNilErrorHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sched.Option{
		"no logger": nil, "logger": {sched.WithLogger(slog.New(slog.DiscardHandler))},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sched.New(sched.Config{BlockSize: 16, Selector: pickFunc(func(*selector.Input) (selector.Pick, error) {
				var e *brokenError
				return selector.Pick{}, e
			})}, opts...)
			require.NoError(t, err)
			require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1}))
			require.NoError(t, s.UpsertWorker(sched.Worker{ID: 2, Ranks: 1}))
			var panicked any
			func() {
				defer func() { panicked = recover() }() // as net/http does
				_, err = s.Schedule(t.Context(), &sched.Request{ID: "a", ISL: 1})
			}()
			if panicked == nil {
				require.ErrorIs(t, err, sched.ErrSelector)
			}
			require.NoError(t, s.SetSelector(nil))
			b, again := s.Schedule(t.Context(), &sched.Request{ID: "a", ISL: 1})
			require.NoError(t, again, "the id stays claimed for ever")
			require.NoError(t, b.Release())
			require.Nil(t, panicked, "a panic comes out of the public API")
		})
	}
}

// The same in the turn.
func TestSelectorsTypedNilErrorDoesNotKeepTheTurn(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t)
	s, err := sched.New(sched.Config{BlockSize: 16,
		Profile: policyOf(t, queueing),
		Selector: pickFunc(func(in *selector.Input) (selector.Pick, error) {
			if in.Request.ID == "bad" {
				var e *brokenError
				return selector.Pick{}, e
			}
			return selector.Pick{}, nil
		}),
	})
	require.NoError(t, err)
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1}))
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: 2, Ranks: 1}))
	var busy []*sched.Booking
	for _, id := range []string{"x", "y"} {
		b, err := s.Schedule(t.Context(), &sched.Request{ID: id, ISL: 100000, Pin: &sched.RankID{Worker: uint64(len(busy) + 1)}})
		require.NoError(t, err)
		busy = append(busy, b)
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- errors.New("panicked")
			}
		}()
		_, err := s.Schedule(context.Background(), &sched.Request{ID: "bad", ISL: 10})
		done <- err
	}()
	untilQueued(t, s, 1)
	func() {
		defer func() { _ = recover() }()
		_ = busy[0].Release() // this caller runs the epoch
		_ = busy[1].Release()
	}()
	select {
	case err := <-done:
		require.ErrorIs(t, err, sched.ErrSelector)
	case <-ctx.Done():
		t.Error("who waits is never told")
	}
	require.NoError(t, s.Recheck(ctx), "the turn is held for ever")
}
