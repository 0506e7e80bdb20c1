package outbox_test

import (
	"bytes"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched/internal/outbox"
)

// Events come in order to each observer, and what panics is called again.
func TestEventsComeInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var first, second []int
		var panics []any
		o := outbox.New(outbox.Config[int]{
			Observers: []func(int){
				func(e int) {
					first = append(first, e)
					panic(e)
				},
				func(e int) { second = append(second, e) },
			},
			Room:           10,
			ObserverFailed: func(p any) { panics = append(panics, p) },
		})
		require.True(t, o.Observes())
		for e := range 3 {
			o.Send(&e)
		}
		require.False(t, o.Quiet())
		o.Flush()
		synctest.Wait()
		require.True(t, o.Quiet())
		require.Equal(t, []int{0, 1, 2}, first)
		require.Equal(t, first, second)
		require.Equal(t, []any{0, 1, 2}, panics)
	})
}

// What finds no room is dropped and counted; there is room left for log records.
func TestRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var events atomic.Int64
		var lines bytes.Buffer
		o := outbox.New(outbox.Config[int]{
			Observers: []func(int){func(int) { events.Add(1) }}, Logger: slog.New(slog.NewTextHandler(&lines, nil)), Room: 2,
		})
		for e := range 5 {
			o.Send(&e)
		}
		o.Log(slog.LevelWarn, "all the same", slog.Int("n", 7))
		require.Equal(t, int64(3), o.Dropped())
		o.Flush()
		synctest.Wait()
		require.Equal(t, int64(2), events.Load())
		require.Contains(t, lines.String(), `level=WARN msg="all the same" n=7`)
		o.Send(new(int))
		require.Equal(t, int64(3), o.Dropped(), "there is room again")
	})
}

// A log handler that panics is called again.
func TestLoggerThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		panics := 0
		o := outbox.New(outbox.Config[int]{
			Logger: slog.New(slog.NewTextHandler(panicking{}, nil)), LoggerFailed: func(any) { panics++ },
		})
		require.False(t, o.Observes())
		o.Log(slog.LevelInfo, "one")
		o.Log(slog.LevelInfo, "two")
		o.Flush()
		synctest.Wait()
		require.Equal(t, 2, panics)
		require.True(t, o.Quiet())
	})
}

type panicking struct{}

func (panicking) Write([]byte) (int, error) { panic("broken") }

func TestNilOutbox(t *testing.T) {
	t.Parallel()
	o := outbox.New(outbox.Config[int]{Room: 1})
	require.Nil(t, o)
	require.False(t, o.Observes())
	o.Log(slog.LevelInfo, "nothing")
	o.Flush()
	require.True(t, o.Quiet())
	require.Zero(t, o.Dropped())
}
