package status_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rules = `
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: all, quantum: 8192, prefill_busy_threshold: 100, request_queue_limit_per_worker: 20}
`

const hostile = "</script><img src=x onerror=alert(1)>\"'&\u202e\x00"

// scheduler returns one with a busy rank on which hostile waits.
func scheduler(t *testing.T, opts ...sched.Option) *sched.Scheduler {
	t.Helper()
	file, err := policy.Parse([]byte(rules))
	require.NoError(t, err)
	s, err := sched.New(sched.Config{BlockSize: 16, Policy: file}, opts...)
	require.NoError(t, err)
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1 << 60, Ranks: 1, Endpoint: "http://<b>"}))
	b, err := s.Schedule(t.Context(), &sched.Request{ID: "busy", ISL: 500})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Schedule(context.Background(), &sched.Request{ID: hostile + strings.Repeat("x", 1000), ISL: 10})
		ended <- err
	}()
	require.Eventually(t, func() bool { return s.Stats().Classes[0].Pending == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, s.Settle(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, sched.ErrClosed)
		require.NoError(t, b.Release())
	})
	return s
}

func get(t *testing.T, h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestViews(t *testing.T) {
	t.Parallel()
	h := status.New(scheduler(t), status.Config{Title: "<pool>", Recent: status.NewRecent(3)})
	for _, test := range []struct {
		method, target, accept string
		code                   int
		contentType, contains  string
	}{
		{"GET", "/", "", 200, "text/html; charset=utf-8", "<title>&lt;pool&gt;</title>"},
		{"GET", "/any/where", "text/html,application/json", 200, "text/html; charset=utf-8", `id="recent"`},
		{"GET", "/", "application/json", 200, "application/json", `"title":"\u003cpool\u003e"`},
		{"GET", "/?view=json", "text/html", 200, "application/json", `"waiting":1`},
		{"GET", "/?view=script", "", 200, "text/javascript; charset=utf-8", "use strict"},
		{"GET", "/?view=style", "", 200, "text/css; charset=utf-8", "prefers-color-scheme"},
		{"GET", "/?view=other", "", 404, "text/plain; charset=utf-8", "no such view"},
		{"POST", "/", "", 405, "text/plain; charset=utf-8", "only GET and HEAD"},
		{"DELETE", "/?view=json", "", 405, "text/plain; charset=utf-8", "only GET and HEAD"},
	} {
		name := fmt.Sprint(test.method, " ", test.target, " ", test.accept)
		r := get(t, h, test.method, test.target, "Accept", test.accept)
		require.Equal(t, test.code, r.Code, name)
		require.Equal(t, test.contentType, r.Header().Get("Content-Type"), name)
		require.Equal(t, "nosniff", r.Header().Get("X-Content-Type-Options"), name)
		require.Equal(t, "no-store", r.Header().Get("Cache-Control"), name)
		require.Contains(t, r.Header().Get("Content-Security-Policy"), "default-src 'none'", name)
		require.Equal(t, test.code == 405, r.Header().Get("Allow") == "GET, HEAD", name)
		require.Contains(t, r.Body.String(), test.contains, name)
	}
	require.NotContains(t, get(t, status.New(scheduler(t), status.Config{}), "GET", "/").Body.String(), `id="recent"`)
}

// A server answers HEAD as GET, without the body.
func TestHead(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(status.New(scheduler(t), status.Config{}))
	defer server.Close()
	r, err := server.Client().Head(server.URL + "/?view=json")
	require.NoError(t, err)
	require.Equal(t, 200, r.StatusCode)
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	data, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Empty(t, data)
	server.Client().CloseIdleConnections()
}

// The page brings nothing from elsewhere and nothing inline, as its policy asks.
func TestPageNeedsNothingElse(t *testing.T) {
	t.Parallel()
	h := status.New(scheduler(t), status.Config{})
	for _, view := range []string{"", "script", "style"} {
		text := get(t, h, "GET", "/?view="+view).Body.String()
		for _, not := range []string{"http:", "https:", "//cdn", "onclick", "<style", "style=\"", "innerHTML", "eval(", "@import"} {
			require.NotContains(t, text, not, view)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	recent := status.NewRecent(3)
	s := scheduler(t, sched.WithObserver(recent.Observe))
	h := status.New(s, status.Config{Recent: recent, Heads: 1})
	for i := range 4 {
		_, err := s.Schedule(t.Context(), &sched.Request{ID: fmt.Sprint("no", i), ISL: 1, Pin: &sched.RankID{Worker: 9}})
		require.ErrorIs(t, err, sched.ErrNoEndpoints)
	}
	require.Eventually(t, func() bool {
		events := recent.Events()
		return len(events) == 3 && events[0].Request == "no3"
	}, time.Minute, time.Millisecond)
	text := get(t, h, "GET", "/?view=json").Body.String()
	require.NotContains(t, text, "<")
	var got status.Status
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Equal(t, "Turnstile", got.Title)
	require.Equal(t, sched.RankID{Worker: 1 << 60}, got.Ranks[0].Rank)
	require.True(t, got.Ranks[0].Busy[0].Busy)
	require.EqualValues(t, 1, got.Stats.Waiting)
	require.NotEmpty(t, got.Stats.Version)
	require.Contains(t, get(t, h, "GET", "/").Body.String(), "Turnstile "+got.Stats.Version)
	require.Len(t, got.Classes[0].Heads, 1)
	head := got.Classes[0].Heads[0].Request
	require.True(t, strings.HasPrefix(head, hostile) && strings.HasSuffix(head, "…"), head)
	require.Less(t, len(head), 400)
	require.Len(t, got.Recent, 3)
	require.Equal(t, "rejected", got.Recent[0].Kind)
	require.Equal(t, "no-endpoints: rank 9/0: the pinned rank is not eligible: the rank does not exist", got.Recent[0].Error)
	require.Equal(t, []string{"no3", "no2", "no1"}, []string{got.Recent[0].Request, got.Recent[1].Request, got.Recent[2].Request})
}

// TestFailuresStay: traffic does not wash them away, and cancellations are none.
func TestFailuresStay(t *testing.T) {
	t.Parallel()
	r := status.NewRecent(2)
	at := time.Unix(1000, 0)
	r.Observe(sched.Event{Kind: sched.EventRejected, Request: "refused", Class: "c", Time: at, Err: &sched.Error{Code: sched.ErrQueueFull}})
	r.Observe(sched.Event{Kind: sched.EventExpired, Request: "expired", Class: "c", Time: at, Err: sched.ErrExpired})
	for range 10 {
		r.Observe(sched.Event{Kind: sched.EventGranted, Request: "traffic", Class: "c", Time: at, Granted: at, Arrival: at.Add(-time.Second)})
		r.Observe(sched.Event{Kind: sched.EventReleased, Request: "traffic", Class: "c", Time: at})
		r.Observe(sched.Event{Kind: sched.EventRejected, Request: "gave up", Class: "c", Time: at, Err: &sched.Error{Code: sched.ErrCanceled}})
	}
	failures := r.Failures()
	require.Len(t, failures, 2)
	require.Equal(t, "expired", failures[0].Request)
	require.Equal(t, "refused", failures[1].Request)
	var none *status.Recent
	require.Empty(t, none.Failures())
	require.Empty(t, none.History(at))
}

func TestHistory(t *testing.T) {
	t.Parallel()
	r := status.NewRecent(1)
	at := time.Unix(1000, 0) // where a slot begins
	tell := func(class string, kind sched.EventKind, after, waited time.Duration) {
		e := sched.Event{Kind: kind, Class: class, Time: at.Add(after), Arrival: at.Add(after - waited)}
		if kind == sched.EventGranted {
			e.Granted = e.Time
		} else {
			e.Err = &sched.Error{Code: sched.ErrQueueFull}
		}
		r.Observe(e)
	}
	tell("b", sched.EventGranted, 0, 0)
	tell("a", sched.EventGranted, 9*time.Second, 3*time.Second)
	tell("a", sched.EventGranted, 9*time.Second, time.Second)
	tell("a", sched.EventRejected, 10*time.Second, 0)
	tell("", sched.EventRejected, 10*time.Second, 0) // of no class
	history := r.History(at.Add(15 * time.Second))
	require.Len(t, history, 2)
	require.Equal(t, "a", history[0].Class)
	require.Len(t, history[0].Slots, 30)
	require.Equal(t, status.Slot{Admitted: 2, Waited: 3 * time.Second}, history[0].Slots[28])
	require.Equal(t, status.Slot{Refused: 1}, history[0].Slots[29])
	require.Equal(t, status.Slot{Admitted: 1}, history[1].Slots[28])
	// Five minutes later they are gone, and the places are used again.
	tell("a", sched.EventGranted, 5*time.Minute, 0)
	history = r.History(at.Add(5 * time.Minute))
	require.Equal(t, status.Slot{Admitted: 1}, history[0].Slots[29])
	require.Equal(t, status.Slot{Refused: 1}, history[0].Slots[0])
	require.Equal(t, make([]status.Slot, 30), r.History(at.Add(time.Hour))[0].Slots)

	for i := range 1000 {
		tell(fmt.Sprint("class-", i), sched.EventGranted, 0, 0)
	}
	require.Len(t, r.History(at), 256, "names do not pile up")
}

func TestAbout(t *testing.T) {
	t.Parallel()
	since := time.Unix(7, 0).UTC()
	h := status.New(scheduler(t), status.Config{Notes: func() []string { return []string{strings.Repeat("n", 400)} }, About: func(worker uint64) status.About {
		return status.About{Name: fmt.Sprint("gpu-", worker>>60), Reason: hostile, Since: since}
	}})
	var got status.Status
	require.NoError(t, json.Unmarshal(get(t, h, "GET", "/?view=json").Body.Bytes(), &got))
	require.Equal(t, []status.About{{Worker: 1 << 60, Name: "gpu-1", Reason: hostile, Since: since}}, got.Workers)
	require.Positive(t, got.Uptime)
	require.Equal(t, []string{strings.Repeat("n", 300) + "…"}, got.Notes)
	require.WithinDuration(t, time.Now(), got.Started, time.Minute)
}

func TestRecentTellsWhere(t *testing.T) {
	t.Parallel()
	r := status.NewRecent(0) // keeps one
	at := time.Unix(5, 0)
	r.Observe(sched.Event{Kind: sched.EventQueued, Request: "a", Class: "c", Time: at, Arrival: at})
	require.Equal(t, []status.Event{{Time: at, Number: 1, Kind: "queued", Request: "a", Class: "c"}}, r.Events())
	r.Observe(sched.Event{
		Kind: sched.EventGranted, Request: "a", Time: at, Arrival: at, Granted: at.Add(time.Second),
		Placement: sched.Placement{Rank: sched.RankID{Worker: 3, Rank: 1}},
	})
	require.Equal(t, []status.Event{{
		Time: at, Number: 2, Kind: "granted", Request: "a", Rank: &sched.RankID{Worker: 3, Rank: 1}, Waited: time.Second,
	}}, r.Events())
	for want, err := range map[string]error{
		"queue-full: limit requests: usage 4 of 4":  &sched.Error{Code: sched.ErrQueueFull, Request: "a", Class: "c", Limit: "requests", Usage: 4, Bound: 4},
		`duplicate: request "other": class another`: &sched.Error{Code: sched.ErrDuplicate, Request: "other", Class: "another"},
		"worker-removed": sched.ErrWorkerRemoved,
	} {
		r.Observe(sched.Event{Kind: sched.EventRejected, Request: "a", Class: "c", Err: err})
		require.Equal(t, want, r.Events()[0].Error)
	}
	var none *status.Recent
	require.Empty(t, none.Events())
}
