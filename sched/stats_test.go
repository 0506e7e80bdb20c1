package sched_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Only those who stood in line and were then admitted count, by the name of their
// class, whatever becomes of the profile.
func TestWaitsAreMeasuredByClass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := under(t, mixed, 1)
		stats := s.Stats()
		require.Zero(t, stats.Classes[0].Waits.Count())
		require.Zero(t, stats.EpochSizes.Count())
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 1000})
		for i := range 3 {
			go func() {
				time.Sleep(time.Duration(i) * time.Second)
				r := &sched.Request{ID: fmt.Sprint("w", i)}
				if i == 2 {
					r.Due = time.Now().Add(time.Millisecond)
				}
				if b, err := s.Schedule(t.Context(), r); err == nil {
					_ = b.Release()
				}
			}()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.NoError(t, s.SetProfile(policyOf(t, queueing)))
		require.NoError(t, hold.Release())
		synctest.Wait()
		require.NoError(t, s.SetProfile(policyOf(t, mixed)))
		stats = s.Stats()
		waits := stats.Classes[0].Waits
		require.Equal(t, "f", stats.Classes[0].Name)
		require.EqualValues(t, 2, waits.Count())
		require.InDelta(t, 9, waits.Sum, 1e-9)
		for i, bound := range waits.Bounds {
			want := int64(0)
			if bound == 4.096 || bound == 8.192 { // the buckets of 4 s and 5 s
				want = 1
			}
			require.Equal(t, want, waits.Counts[i], "up to %v s", bound)
		}
		require.Zero(t, stats.Classes[1].Waits.Count())
		require.Positive(t, stats.EpochSizes.Count())
		require.Positive(t, stats.EpochSizes.Sum)
		require.LessOrEqual(t, stats.EpochSizes.Count(), stats.Epochs)
		require.Zero(t, stats.SelectionTimes.Count())
		requireIdle(t, s)
	})
}

// What became of requests counts by the name of the class they were decided in,
// whatever becomes of the profile, and the sums count for all.
func TestDecisionsAreCountedByClass(t *testing.T) {
	t.Parallel()
	s := under(t, mixed, 1)
	class := func(name string) sched.ClassStats {
		for _, c := range s.Stats().Classes {
			if c.Name == name {
				return c
			}
		}
		return sched.ClassStats{}
	}
	refuse := func(want error, r sched.Request) {
		t.Helper()
		_, err := s.Schedule(t.Context(), &r)
		require.ErrorIs(t, err, want)
	}
	hold := schedule(t, s, sched.Request{ID: "hold", ISL: 1000})
	refuse(sched.ErrWouldQueue, sched.Request{ID: "a", DoNotQueue: true})
	refuse(sched.ErrWouldQueue, sched.Request{ID: "b", DoNotQueue: true, Class: "unknown"})
	refuse(sched.ErrNoEndpoints, sched.Request{ID: "c", Class: "open", Allowed: []uint64{}})
	refuse(sched.ErrDuplicate, sched.Request{ID: "hold", Class: "open"}) // before a class was looked for
	_, err := s.Query(t.Context(), &sched.Request{ID: "q", Class: "open"})
	require.NoError(t, err)
	open := schedule(t, s, sched.Request{ID: "open", Class: "open"})

	require.EqualValues(t, 1, class("f").Admitted)
	require.Equal(t, map[string]int64{"would-queue": 2}, class("f").Rejected)
	require.EqualValues(t, 1, class("open").Admitted)
	require.Equal(t, map[string]int64{"no-endpoints": 1}, class("open").Rejected)
	require.Zero(t, class("never").Admitted)
	require.Empty(t, class("never").Rejected)

	require.NoError(t, s.SetProfile(policyOf(t, queueing))) // which has f only
	require.NoError(t, hold.Release())
	require.NoError(t, open.Release())
	require.NoError(t, schedule(t, s, sched.Request{ID: "d"}).Release())
	require.EqualValues(t, 2, class("f").Admitted)
	require.Zero(t, class("open").Admitted)
	require.NoError(t, s.SetProfile(policyOf(t, mixed)))
	require.EqualValues(t, 1, class("open").Admitted, "kept while the class was gone")
	stats := s.Stats()
	require.EqualValues(t, 3, stats.Admitted)
	require.EqualValues(t, 1, stats.Queries)
	require.Equal(t, map[string]int64{"would-queue": 2, "no-endpoints": 1, "duplicate": 1}, stats.Rejected)
	requireIdle(t, s)
}

// Classes with ever new names come and go: the sums stay, also for bookings that
// outlive their class.
func TestClassesComeAndGo(t *testing.T) {
	t.Parallel()
	s := under(t, mixed, 1)
	held := schedule(t, s, sched.Request{ID: "held", Class: "open"})
	const swaps = 400
	for i := range swaps {
		require.NoError(t, s.SetProfile(policyOf(t, strings.ReplaceAll(mixed, "name: ", fmt.Sprintf("name: p%d-", i)))))
		require.NoError(t, schedule(t, s, sched.Request{ID: "r", Class: fmt.Sprintf("p%d-open", i)}).Release())
		_, err := s.Schedule(t.Context(), &sched.Request{ID: "none", Class: fmt.Sprintf("p%d-open", i), Allowed: []uint64{}})
		require.ErrorIs(t, err, sched.ErrNoEndpoints)
	}
	require.Equal(t, "open", held.Class())
	require.NoError(t, held.Release())
	stats := s.Stats()
	require.EqualValues(t, swaps+1, stats.Admitted)
	require.Equal(t, map[string]int64{"no-endpoints": swaps}, stats.Rejected)
	requireIdle(t, s)
}

// Every decision is timed if that is asked for, at the door and in line.
func TestSelectionTimesAreSampled(t *testing.T) {
	t.Parallel()
	c := &tickingClock{lateClock: lateClock{now: time.Now()}}
	s := newScheduler(t, sched.Config{SampleSelection: 1}, sched.WithClock(c))
	addWorkers(t, s, 1)
	for range 4 {
		require.NoError(t, schedule(t, s, sched.Request{ID: "r", ISL: 10}).Release())
	}
	times := s.Stats().SelectionTimes
	require.EqualValues(t, 4, times.Count())
	require.InDelta(t, 4e-6, times.Sum, 1e-12, "one microsecond from reading to reading")
	require.InDelta(t, 250e-9, times.Bounds[0], 1e-15)
	require.EqualValues(t, 4, times.Counts[2], "1 µs is the bound of the third bucket")
}

// tickingClock moves by a microsecond at each reading.
type tickingClock struct{ lateClock }

func (c *tickingClock) Now() time.Time {
	c.move(time.Microsecond)
	return c.lateClock.Now()
}

func TestObservabilityConfigIsChecked(t *testing.T) {
	t.Parallel()
	_, err := sched.New(sched.Config{BlockSize: 1, SampleSelection: -1, EventBuffer: -2})
	require.ErrorIs(t, err, sched.ErrInvalid)
	require.ErrorContains(t, err, "sample selection -1")
	require.ErrorContains(t, err, "event buffer -2")
}
