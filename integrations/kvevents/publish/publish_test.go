package publish_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents"
	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents/publish"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWhatIsPublishedIsUnderstood: an index that follows a publisher on real sockets knows
// what it said, in each namespace, across the publisher's death and its next life.
func TestWhatIsPublishedIsUnderstood(t *testing.T) {
	t.Parallel()
	x, err := kvevents.New(kvevents.Config{BlockSize: 2, Audit: 20 * time.Millisecond})
	require.NoError(t, err)
	p := publish.New(100)
	defer p.Close()
	events, replay, err := p.Listen("127.0.0.1:0", "127.0.0.1:0")
	require.NoError(t, err)
	id := sched.RankID{Worker: 1, Rank: 3}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		if err := x.Follow(ctx, kvevents.Source{Rank: id, Events: events, Replay: replay}); err != nil {
			t.Error(err)
		}
	})
	defer following.Wait()
	defer cancel()
	tell := func(events ...publish.Event) { p.Publish(publish.Batch(time.Now(), id.Rank, events...)) }
	prompt := []uint32{1, 2, 3, 4, 5, 6}
	holds := func(space kvevents.Namespace, want float64) {
		t.Helper()
		require.Eventually(t, func() bool {
			got := 0.0
			for _, o := range x.Overlaps(nil, x.Hashes(nil, space, prompt)) {
				got += o.Device
			}
			return got == want
		}, time.Minute, time.Millisecond, "want %v: %+v", want, x.Stats())
	}
	spaces := []kvevents.Namespace{{}, {Salt: "s"}, {LoRA: "a"}, {LoRA: "a", Salt: "s"}}
	for i, space := range spaces {
		first := uint64(10 * i)
		tell(publish.Stored{Hashes: []uint64{first}, Tokens: prompt[:2], BlockSize: 2, Adapter: space.LoRA, Salt: space.Salt},
			publish.Stored{Hashes: []uint64{first + 1, first + 2}, Parent: &first, Tokens: prompt[2:], BlockSize: 2, Adapter: space.LoRA, Salt: space.Salt})
		for j, space := range spaces {
			holds(space, map[bool]float64{true: 3}[j <= i])
		}
	}
	tell(publish.Removed{Hashes: []uint64{2, 11}})
	holds(spaces[0], 2)
	holds(spaces[1], 1)
	p.Lose(publish.Batch(time.Now(), id.Rank, publish.Removed{Hashes: []uint64{31}}))
	p.Cut()
	holds(spaces[3], 1)
	tell(publish.Cleared{})
	for _, space := range spaces {
		holds(space, 0)
	}
	tell(publish.Stored{Hashes: []uint64{1}, Tokens: prompt[:2], BlockSize: 2})
	holds(spaces[0], 1)
	p.Kill()
	p.Restart()
	holds(spaces[0], 0)
	require.EqualValues(t, 1, x.Stats()[0].Resets)
}
