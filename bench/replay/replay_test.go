package replay

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/simrank"
	"github.com/seed-3c5df8a4/turnstile/bench/workload"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testConfig(requests int) Config {
	return Config{
		Requests:    workload.Generate(workload.Config{Requests: requests, Seed: 1, Block: 64, Rate: 100}),
		Workers:     2,
		Ranks:       2,
		Rank:        simrank.Config{PrefillRate: 50_000, DecodeRate: 100, DecodeSlots: 64, KVBlocks: 4096, Block: 64},
		Speed:       40,
		MaxOverlaps: 3,
	}
}

// fake counts what it is told, over a Floor, and can be made to fail.
type fake struct {
	*Floor
	mu struct {
		sync.Mutex
		prefills, blocks, releases, overlaps int
		classes                              map[string]int
	}
	refuse   func(*sched.Request) error
	lose     bool // keep every tenth caller waiting for ever
	deaf     bool // also when the caller's context ends
	unbooked bool // leave bookings behind
	free     chan struct{}
}

func newFake() *fake {
	f := &fake{Floor: NewFloor(), free: make(chan struct{})}
	f.mu.classes = map[string]int{}
	return f
}

func (f *fake) build() (engine.Engine, error) { return f, nil }

func (f *fake) Schedule(ctx context.Context, r *sched.Request) (engine.Booking, error) {
	f.mu.Lock()
	f.mu.classes[r.Class]++
	f.mu.overlaps += len(r.Overlaps)
	f.mu.Unlock()
	if f.refuse != nil {
		if err := f.refuse(r); err != nil {
			return nil, err
		}
	}
	if f.lose && strings.HasSuffix(r.ID, "7") {
		if f.deaf {
			<-f.free
		} else {
			<-ctx.Done()
		}
		return nil, &sched.Error{Code: sched.ErrCanceled, Request: r.ID, Cause: ctx.Err()}
	}
	b, err := f.Floor.Schedule(ctx, r)
	if err != nil {
		return nil, err
	}
	return &fakeBooking{b, f}, nil
}

type fakeBooking struct {
	engine.Booking
	fake *fake
}

func (b *fakeBooking) PrefillDone() error { return b.count(&b.fake.mu.prefills) }

func (b *fakeBooking) AddOutputBlock() error { return b.count(&b.fake.mu.blocks) }

func (b *fakeBooking) Release() error {
	if b.fake.unbooked {
		return nil
	}
	return errors.Join(b.count(&b.fake.mu.releases), b.Booking.Release())
}

func (b *fakeBooking) count(n *int) error {
	b.fake.mu.Lock()
	defer b.fake.mu.Unlock()
	*n++
	return nil
}

func TestReplayToTheEnd(t *testing.T) {
	f, cfg := newFake(), testConfig(600)
	told := 0
	cfg.Progress = func(ended int) { told = max(told, ended) }
	got, err := Run(context.Background(), f.build, cfg)
	require.NoError(t, err)
	require.NoError(t, got.Err)
	require.Equal(t, 600, got.Completed)
	require.Zero(t, got.Unscheduled+got.CutShort)
	require.Equal(t, Leftovers{}, got.Left)
	require.False(t, got.Interrupted || got.Stalled || got.Stuck)
	require.Len(t, got.Schedule, 600)
	require.Len(t, got.FirstToken, 600)
	require.Positive(t, got.Wall)
	require.Positive(t, got.MostWaiting)
	require.GreaterOrEqual(t, got.Balance, 1.0)
	require.LessOrEqual(t, got.Balance, 4.0)

	sum := workload.Summarize(cfg.Requests, 64)
	blocks := 0
	for _, r := range cfg.Requests {
		blocks += int(r.OSL / 64)
	}
	require.Equal(t, sum.Input, got.Prompt)
	require.Positive(t, got.Cached)
	require.LessOrEqual(t, got.Cached, sum.Input-sum.Uncached)
	require.Equal(t, 600, f.mu.prefills)
	require.Equal(t, 600, f.mu.releases)
	require.Equal(t, blocks, f.mu.blocks)
	require.Positive(t, f.mu.overlaps)
	require.Len(t, f.mu.classes, 2)
	for _, ttft := range got.FirstToken {
		require.GreaterOrEqual(t, ttft, time.Duration(0))
	}
}

func TestReplayCountsRefusals(t *testing.T) {
	f := newFake()
	f.refuse = func(r *sched.Request) error {
		if r.ID == "r3" || r.ID == "r44" {
			return &sched.Error{Code: sched.ErrQueueFull, Request: r.ID}
		}
		return nil
	}
	got, err := Run(context.Background(), f.build, testConfig(100))
	require.NoError(t, err)
	require.Equal(t, 98, got.Completed)
	require.Equal(t, 2, got.Unscheduled)
	require.ErrorIs(t, got.Err, sched.ErrQueueFull)
	require.ErrorContains(t, got.Err, `"r3"`)
	require.Zero(t, got.Left.Total())
}

// Where a replay ends because nothing happens for a while, that while is a bubble's:
// on a busy machine nothing may happen for long.
func TestReplayEndsWhenCallersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := newFake(), testConfig(100)
		f.lose = true
		cfg.Stall = 300 * time.Millisecond
		got, err := Run(context.Background(), f.build, cfg)
		require.NoError(t, err)
		require.True(t, got.Stalled)
		require.Equal(t, 90, got.Completed)
		require.Equal(t, 10, got.Unscheduled)
		require.ErrorIs(t, got.Err, sched.ErrCanceled)
		require.Zero(t, inBubble(got.Left).Total())
	})
}

// inBubble leaves out the goroutines: a bubble does not end before those in it have,
// and the count is of the whole process, in which the runtime may just run a finalizer.
func inBubble(l Leftovers) Leftovers {
	l.Goroutines = 0
	return l
}

func TestReplayEndsWhenCallersAreStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := newFake(), testConfig(100)
		f.lose, f.deaf = true, true
		cfg.Stall, cfg.Grace = 300*time.Millisecond, 300*time.Millisecond
		got, err := Run(context.Background(), f.build, cfg)
		require.NoError(t, err)
		require.True(t, got.Stuck)
		require.Equal(t, 90, got.Completed)
		require.Equal(t, 10, got.Unscheduled)
		require.GreaterOrEqual(t, got.Left.Goroutines, int64(10))
		close(f.free)
	})
}

func TestReplayIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := newFake(), testConfig(2000)
		cfg.Speed = 1
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(400*time.Millisecond, cancel)
		began := time.Now()
		got, err := Run(ctx, f.build, cfg)
		require.NoError(t, err)
		require.Less(t, time.Since(began), 3*time.Second)
		require.True(t, got.Interrupted)
		require.NoError(t, got.Err)
		require.Zero(t, got.Unscheduled)
		require.Positive(t, got.CutShort)
		require.Equal(t, 2000, got.Completed+got.CutShort)
		require.Zero(t, inBubble(got.Left).Total(), "what was booked is released")
	})
}

func TestReplaySeesLeftovers(t *testing.T) {
	f := newFake()
	f.unbooked = true
	got, err := Run(context.Background(), f.build, testConfig(50))
	require.NoError(t, err)
	require.Equal(t, Leftovers{Live: 50, Loaded: 4}, got.Left)
	require.Equal(t, int64(54), got.Left.Total())
}

func TestRunFailsToBuild(t *testing.T) {
	want := errors.New("no")
	_, err := Run(context.Background(), func() (engine.Engine, error) { return nil, want }, testConfig(1))
	require.ErrorIs(t, err, want)
}
