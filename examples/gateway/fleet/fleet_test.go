package fleet_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var refused = &net.OpError{Op: "dial", Err: assert.AnError}

// rig is a fleet whose workers that went down are noted.
type rig struct {
	*fleet.Fleet
	s    *sched.Scheduler
	down []uint64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s, err := sched.New(sched.Config{BlockSize: 16})
	require.NoError(t, err)
	r := &rig{s: s}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	r.Fleet = fleet.New(s, fleet.Config{
		Log: slog.New(slog.DiscardHandler), Transport: transport, Timeout: time.Minute,
		Lost: func(worker uint64) { r.down = append(r.down, worker) },
	})
	return r
}

// serves tells which worker a request goes to, or why to none.
func (r *rig) serves(taints ...string) (uint64, error) {
	p, err := r.s.Select(context.Background(), &sched.Request{ID: "x", RequiredTaints: taints})
	return p.Rank.Worker, err
}

// engine is a backend whose health can be set.
func engine(t *testing.T) (fleet.Backend, *atomic.Int32) {
	t.Helper()
	var status atomic.Int32
	status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/health", r.URL.Path)
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(server.Close)
	return fleet.Backend{URL: server.URL + "/"}, &status
}

func TestHealth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b, status := engine(t)
	require.NoError(t, r.Set([]fleet.Backend{b}))
	check := func(code int32) error {
		status.Store(code)
		r.CheckHealth(t.Context())
		_, err := r.serves()
		return err
	}
	require.NoError(t, check(200))
	require.NoError(t, check(500))
	require.NoError(t, check(503))
	require.NoError(t, check(204), "a success in between starts anew")
	require.NoError(t, check(500))
	require.NoError(t, check(404))
	assert.Empty(t, r.down)
	require.ErrorIs(t, check(500), sched.ErrNoEndpoints, "the third in a row")
	require.ErrorIs(t, check(500), sched.ErrNoEndpoints)
	assert.Equal(t, []uint64{1}, r.down, "told once")
	assert.Empty(t, r.Up())
	require.NoError(t, check(200))
	assert.Len(t, r.Up(), 1)

	r.down = nil
	for range 3 {
		r.Visit(1).Failed(refused, 0)
		assert.NotEmpty(t, r.down, "whoever answers next is another process, with another cache")
	}
	r.Visit(77).Failed(refused, 0)
	r.Visit(77).Served()
	_, err := r.serves()
	require.ErrorIs(t, err, sched.ErrNoEndpoints, "what the gateway could not reach counts too")
	require.NoError(t, check(200))
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	b, status := engine(t)
	s, err := sched.New(sched.Config{BlockSize: 16})
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	f := fleet.New(s, fleet.Config{
		Failures: 2, Successes: 3, Timeout: time.Minute, Transport: transport, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, f.Set([]fleet.Backend{b}))
	for i, step := range []struct {
		code int32
		up   int
	}{{500, 1}, {200, 1}, {500, 1}, {500, 0}, {200, 0}, {200, 0}, {500, 0}, {200, 0}, {200, 0}, {200, 1}, {500, 1}} {
		status.Store(step.code)
		f.CheckHealth(t.Context())
		assert.Len(t, f.Up(), step.up, "step %d", i)
	}
}

// well makes the checks in a bubble, where there is no network.
type well struct{}

func (well) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func TestSetAsideForAGrowingTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := sched.New(sched.Config{BlockSize: 16})
		require.NoError(t, err)
		f := fleet.New(s, fleet.Config{Transport: well{}, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, f.Set([]fleet.Backend{{Name: "a", URL: "http://a"}, {Name: "b", URL: "http://b"}}))
		aside := func() time.Duration {
			for _, a := range s.Stats().Aside {
				return time.Until(a.Until)
			}
			return 0
		}
		sleepOver := func() { time.Sleep(aside() + time.Millisecond) }
		fail := func(retryAfter time.Duration) time.Duration {
			f.Visit(1).Failed(assert.AnError, retryAfter)
			return aside()
		}
		assert.Equal(t, time.Second, fail(0))
		assert.Equal(t, time.Second, fail(0), "sent before it was set aside")
		assert.Equal(t, fleet.StateAside, f.Statuses()[0].State)
		f.Visit(1).Served() // so was that
		for _, seconds := range []float64{2, 4, 8, 16, 30, 30} {
			sleepOver()
			assert.Equal(t, fleet.StateUp, f.Statuses()[0].State)
			assert.InDelta(t, seconds, fail(0).Seconds(), 0)
		}
		sleepOver()
		for range 20 {
			f.Visit(1).Served()
		}
		assert.Equal(t, 7*time.Second, fail(7*time.Second), "as it asked")
		sleepOver()
		assert.Equal(t, 30*time.Second, fail(time.Hour), "within reason")

		f.Visit(2).Failed(assert.AnError, 0)
		assert.Len(t, s.Stats().Aside, 1, "one of two is half")
		assert.False(t, f.Recall([]uint64{1}))
		assert.True(t, f.Recall([]uint64{2}))
		assert.Empty(t, s.Stats().Aside)
	})
}

func TestCheckThatIsCutShortCountsForNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b, _ := engine(t)
	require.NoError(t, r.Set([]fleet.Backend{b}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 5 {
		r.CheckHealth(ctx)
	}
	_, err := r.serves()
	require.NoError(t, err)
}

func TestSet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, _ := engine(t)
	b, _ := engine(t)
	a.Models, b.Models = []string{"x", "y"}, []string{"y", "z"}
	require.NoError(t, r.Set([]fleet.Backend{a, b}))
	assert.Equal(t, []string{"x", "y", "z"}, r.Models())
	on, err := r.serves(fleet.ModelTaint("z"))
	require.NoError(t, err)
	assert.EqualValues(t, 2, on)

	booking, err := r.s.Schedule(t.Context(), &sched.Request{ID: "r", ISL: 10, RequiredTaints: []string{fleet.ModelTaint("z")}})
	require.NoError(t, err)
	require.NoError(t, r.Set([]fleet.Backend{a}))
	_, err = r.serves(fleet.ModelTaint("z"))
	require.ErrorIs(t, err, sched.ErrNoEndpoints, "it gets nothing new")
	r.CheckHealth(t.Context())
	require.NoError(t, booking.Err(), "but finishes what it has")
	assert.Equal(t, []string{"x", "y"}, r.Models())

	require.NoError(t, r.Set([]fleet.Backend{b, a}))
	on, err = r.serves(fleet.ModelTaint("z"))
	require.NoError(t, err)
	assert.EqualValues(t, 2, on, "and comes back as what it was")

	require.NoError(t, r.Set([]fleet.Backend{a}))
	require.NoError(t, booking.Release())
	r.CheckHealth(t.Context())
	_, err = r.s.Worker(2)
	require.ErrorIs(t, err, sched.ErrNotFound)
	assert.Equal(t, []uint64{2}, r.down)
	assert.Len(t, r.s.Loads(), 1)

	bad := a
	bad.Ranks = 5000
	require.ErrorContains(t, r.Set([]fleet.Backend{bad, b}), "must be at most 1024")
	bad = a
	bad.KVBlocks = -1
	require.ErrorContains(t, r.Set([]fleet.Backend{bad, b}), "must not be negative")
	require.Error(t, fleet.Check(nil))
	assert.Len(t, r.s.Loads(), 1, "a bad list changes nothing")
	require.NoError(t, r.Set(nil))
	assert.Empty(t, r.s.Loads(), "none drains all")
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := fleet.Parse([]byte("backends:\n- url: http://a:1\n- {url: https://b/base/, ranks: 2, max_batched_tokens: 8192, kv_blocks: 7}\n"))
	require.NoError(t, err)
	assert.Equal(t, []fleet.Backend{{URL: "http://a:1"}, {URL: "https://b/base/", Ranks: 2, MaxBatchedTokens: 8192, KVBlocks: 7}}, got)
	for text, want := range map[string]string{
		"":                               "at least one",
		"backends: []":                   "at least one",
		"backend: []":                    `backends file: line 1: unknown key "backend"`,
		"policy_classes: [{a: 1}]\nx: 1": "backends file: line 1: unknown key \"policy_classes\"\nbackends file: line 2: unknown key \"x\"",
		"a: b: c":                        "backends file: mapping values are not allowed",
		"[]":                             "line 1: seq must be a mapping with the key backends",
		"backends: 7":                    "line 1: int `7` must be a list of backends",
		"backends: [http://a]":           "line 1: str `http://a` must be a mapping with the key url",
		"backends: [{url: {}}]":          "line 1: map must be text",
		"backends: [{url: 'http://a', ranks: -1, models: m}]":                "line 1: int `-1` must be a whole number in range\nbackends file: line 1: str `m` must be a list of names",
		"backends: []\n---\nbackends: []":                                    "must be a single YAML document",
		"backends: [{url: a:1}]":                                             `backends[0].url "a:1": must be like http://host:port`,
		"backends: [{url: 'http://'}]":                                       "must be like",
		"backends: [{url: 'http://a?b'}]":                                    "must be like",
		"backends: [{url: 'http://a'}, {url: 'http://a/'}]":                  `backends[1].url "http://a/": is named twice`,
		"backends: [{name: x, url: 'http://a'}, {name: x, url: 'http://b'}]": `backends[1].name "x": is given twice`,
		"backends: [{url: 'http://a', models: [m]}, {url: 'http://b'}]":      "1 of 2 list their models",
		"backends: [": "backends file: line 1: ",
	} {
		_, err := fleet.Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "struct", text)
	}
}
