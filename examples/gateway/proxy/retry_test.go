package proxy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

func TestRetryAfterFollowsTheLine(t *testing.T) {
	t.Parallel()
	file, err := policy.Parse([]byte(`
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: all, quantum: 1, prefill_busy_threshold: 0}
  - {name: batch, quantum: 1, prefill_busy_threshold: 0}
`))
	require.NoError(t, err)
	c := clock.NewManual(time.Unix(0, 0))
	s, err := sched.New(sched.Config{BlockSize: 16, Policy: file}, sched.WithClock(c))
	require.NoError(t, err)
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1}))
	hold, err := s.Schedule(t.Context(), &sched.Request{ID: "holds", ISL: 1})
	require.NoError(t, err)
	waited := make(chan error)
	go func() {
		b, err := s.Schedule(t.Context(), &sched.Request{ID: "waits", ISL: 1})
		if err == nil {
			err = b.Release()
		}
		waited <- err
	}()
	for s.Stats().Classes[0].Pending == 0 {
		time.Sleep(time.Millisecond)
	}
	var l waits
	after := func(class string) int { return l.retryAfter(s, class, c.Now()) }
	assert.Equal(t, 1, after("chat"))
	c.Advance(999 * time.Millisecond)
	assert.Equal(t, 1, after("chat"), "looked at less than a second ago")
	c.Advance(15*time.Second + 500*time.Millisecond)
	assert.Equal(t, 17, after("chat"))
	assert.Equal(t, 1, after("batch"), "nobody waits there")
	assert.Equal(t, 1, after("gone"))
	c.Advance(time.Hour)
	assert.Equal(t, 60, after("chat"))
	require.NoError(t, hold.Release())
	require.NoError(t, <-waited)
}
