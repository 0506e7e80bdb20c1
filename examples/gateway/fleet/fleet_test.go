package fleet_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		Log: slog.New(slog.DiscardHandler), Transport: transport, Interval: time.Hour, Timeout: time.Minute,
		Down: func(worker uint64) { r.down = append(r.down, worker) },
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

	for range 3 {
		r.Failed(1, assert.AnError)
	}
	r.Failed(77, assert.AnError)
	_, err := r.serves()
	require.ErrorIs(t, err, sched.ErrNoEndpoints, "what the gateway could not reach counts too")
	require.NoError(t, check(200))
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

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		r.Run(ctx)
		close(done)
	}()
	cancel()
	<-done
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
	require.ErrorIs(t, r.Set([]fleet.Backend{bad, b}), sched.ErrInvalid)
	require.Error(t, r.Set(nil))
	assert.Len(t, r.s.Loads(), 1, "a bad list changes nothing")
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
		"backends: [{url: 'http://a', ranks: -1, models: m}]":           "line 1: int `-1` must be a whole number in range\nbackends file: line 1: str `m` must be a list of names",
		"backends: []\n---\nbackends: []":                               "must be a single YAML document",
		"backends: [{url: a:1}]":                                        `backends[0].url "a:1": must be like http://host:port`,
		"backends: [{url: 'http://'}]":                                  "must be like",
		"backends: [{url: 'http://a?b'}]":                               "must be like",
		"backends: [{url: 'http://a'}, {url: 'http://a/'}]":             `backends[1].url "http://a/": is named twice`,
		"backends: [{url: 'http://a', models: [m]}, {url: 'http://b'}]": "1 of 2 list their models",
		"backends: [": "backends file: line 1: ",
	} {
		_, err := fleet.Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "struct", text)
	}
}
