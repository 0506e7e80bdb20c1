package endpointpicker_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	modepb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-3c5df8a4/turnstile/integrations/endpointpicker"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// TestOrders: each order in which a gateway may send a request, and what it is
// answered, in each mode.
func TestOrders(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{})
	text := `{"prompt": "` + strings.Repeat("x", 640) + `"}`
	for name, test := range map[string]struct {
		request, response modepb.ProcessingMode_BodySendMode
		say               func(*talk)
	}{
		"duplex": {duplex, duplex, func(k *talk) {
			k.headers(false)
			k.body(text[:100], false)
			k.body(text[100:], true)
			m := k.receive()
			k.chosen(m, m.GetRequestHeaders().GetResponse())
			k.echo(text)
		}},
		"duplex, the end in a message of its own": {duplex, duplex, func(k *talk) {
			k.headers(false)
			k.body(text, false)
			k.body("", true)
			m := k.receive()
			k.chosen(m, m.GetRequestHeaders().GetResponse())
			k.echo(text)
		}},
		"duplex, the last piece twice": {duplex, duplex, func(k *talk) {
			k.headers(false)
			k.body(text, true)
			k.body(text, true)
			m := k.receive()
			k.chosen(m, m.GetRequestHeaders().GetResponse())
			k.echo(text)
		}},
		"duplex, no body": {duplex, duplex, func(k *talk) {
			k.headers(true)
			m := k.receive()
			k.chosen(m, m.GetRequestHeaders().GetResponse())
		}},
		"duplex, trailers": {duplex, duplex, func(k *talk) {
			k.headers(false)
			k.body(text, false)
			k.trailers()
			m := k.receive()
			k.chosen(m, m.GetRequestHeaders().GetResponse())
			piece := k.receive().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
			require.Equal(t, text, string(piece.GetBody()))
			require.False(t, piece.GetEndOfStream(), "the trailers are the end")
			require.NotNil(t, k.receive().GetRequestTrailers())
		}},
		"duplex, trailers alone": {duplex, duplex, func(k *talk) {
			k.headers(false)
			k.trailers()
			m := k.receive()
			k.chosen(m, m.GetRequestHeaders().GetResponse())
			require.NotNil(t, k.receive().GetRequestTrailers())
		}},
		"buffered": {buffered, streamed, func(k *talk) {
			k.headers(false)
			require.Empty(t, k.receive().GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders())
			k.body(text, true)
			m := k.receive()
			k.chosen(m, m.GetRequestBody().GetResponse())
			require.Nil(t, m.GetRequestBody().GetResponse().GetBodyMutation())
		}},
		"buffered, trailers": {buffered, none, func(k *talk) {
			k.headers(false)
			k.receive()
			k.body(text, false)
			m := k.receive()
			k.chosen(m, m.GetRequestBody().GetResponse())
			k.trailers()
			require.NotNil(t, k.receive().GetRequestTrailers())
		}},
		"buffered, no body": {buffered, buffered, func(k *talk) {
			k.headers(true)
			m := k.receive()
			k.chosen(m, m.GetRequestHeaders().GetResponse())
		}},
		"buffered in part, whole": {partial, none, func(k *talk) {
			k.headers(false)
			k.receive()
			k.body(text, true)
			m := k.receive()
			k.chosen(m, m.GetRequestBody().GetResponse())
		}},
		"streamed": {streamed, streamed, func(k *talk) {
			k.headers(false)
			m := k.receive()
			k.chosen(m, m.GetRequestHeaders().GetResponse())
			k.body(text, false)
			require.NotNil(t, k.receive().GetRequestBody())
			k.body("", true)
			require.NotNil(t, k.receive().GetRequestBody())
		}},
		"not shown": {none, none, func(k *talk) {
			k.headers(false, "content-length", "640")
			m := k.receive()
			k.chosen(m, m.GetRequestHeaders().GetResponse())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			k := r.talk(test.request, test.response)
			test.say(k)
			require.EqualValues(t, 1, r.s.Stats().Live)
			k.answerHeaders(false, 200, plain)
			if test.response != none {
				c := k.answerBody("{}", true)
				if test.response == duplex {
					require.Equal(t, "{}", string(c.GetBodyMutation().GetStreamedResponse().GetBody()))
					require.True(t, c.GetBodyMutation().GetStreamedResponse().GetEndOfStream())
				} else {
					require.Nil(t, c.GetBodyMutation())
				}
			} else {
				k.answerTrailers()
			}
			r.unloaded() // before the gateway can know that this was the end
			k.close()
			r.idle()
		})
	}
	require.Contains(t, r.log.all(), "without a look at their bodies")
}

// A gateway that does not say how it sends the bodies sends them in full duplex.
func TestNoModes(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{})
	k := r.talk(none, none)
	k.modes = nil
	require.Equal(t, address(1), k.ask())
	k.close()
	r.idle()
}

func TestLongBodyGoesBackInPieces(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{})
	text := `{"prompt": "` + strings.Repeat("x", 1<<20) + `"}`
	k := r.talk(duplex, duplex)
	k.headers(false)
	for rest := text; rest != ""; {
		n := min(len(rest), 100_000)
		k.body(rest[:n], n == len(rest))
		rest = rest[n:]
	}
	m := k.receive()
	k.chosen(m, m.GetRequestHeaders().GetResponse())
	k.echo(text)
	require.EqualValues(t, 1<<20/64, r.load(1)[1])
	k.close()
	r.idle()
}

func TestMessagesOutOfPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{})
	for name, test := range map[string]struct {
		say  func(*talk)
		code codes.Code
	}{
		"headers twice": {func(k *talk) { k.headers(false); k.headers(false) }, codes.InvalidArgument},
		"no headers":    {func(k *talk) { k.body("{}", true) }, codes.FailedPrecondition},
		"nothing":       {func(k *talk) { k.send(&extproc.ProcessingRequest{}) }, codes.InvalidArgument},
		"observed":      {func(k *talk) { k.send(&extproc.ProcessingRequest{ObservabilityMode: true}) }, codes.FailedPrecondition},
	} {
		k := r.talk(duplex, duplex)
		test.say(k)
		require.Equal(t, test.code, status.Code(k.ended()), name)
	}
	k := r.talk(duplex, duplex) // a gateway that answered by itself
	k.headers(false)
	k.answerHeaders(false, 408, plain)
	k.answerBody("late", true)
	k.close()
	r.idle()
}

func TestSubset(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{Fallbacks: 5})
	for name, test := range map[string]struct {
		hint any
		want string // empty: refused
	}{
		"list":                 {[]any{address(3), address(2)}, address(2) + "," + address(3)},
		"text":                 {address(3) + ", " + address(2), address(2) + "," + address(3)},
		"list of texts":        {[]any{address(3) + "," + address(2)}, address(2) + "," + address(3)},
		"one":                  {address(3), address(3)},
		"one that is known":    {[]any{"10.9.9.9:1", address(3)}, address(3)},
		"empty list":           {[]any{}, ""},
		"empty text":           {"", ""},
		"nothing":              {nil, ""},
		"a number":             {7, ""},
		"none that is known":   {[]any{"10.9.9.9:1"}, ""},
		"the host of a worker": {"10.0.0.3", ""},
	} {
		k := r.talk(duplex, duplex)
		k.meta = subset(t, test.hint)
		if test.want == "" {
			k.headers(false)
			k.body("{}", true)
			k.refused(http.StatusServiceUnavailable, "no_endpoints")
			continue
		}
		require.Equal(t, test.want, k.ask(), name)
		k.close()
		r.idle()
	}
	// An address is held against the worker as it is.
	require.NoError(t, r.s.UpsertWorker(sched.Worker{ID: 3, Ranks: 1, Endpoint: "10.0.0.7:8000"}))
	require.NoError(t, r.s.RemoveWorker(2))
	k := r.talk(duplex, duplex)
	k.meta = subset(t, []any{address(2), address(3), "10.0.0.7:8000"})
	require.Equal(t, "10.0.0.7:8000", k.ask())
	k.close()
	r.idle()
}

func TestSubsetCutsWhatTheCallbackAllows(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{Request: func(context.Context, http.Header, []byte) (*sched.Request, error) {
		return &sched.Request{Allowed: []uint64{1, 2}}, nil
	}})
	k := r.talk(duplex, duplex)
	k.meta = subset(t, []any{address(2), address(3)})
	require.Equal(t, address(2), k.ask())
	k.close()
	k = r.talk(duplex, duplex)
	k.meta = subset(t, []any{address(3)})
	k.headers(true)
	k.refused(http.StatusServiceUnavailable, "no_endpoints")
	r.idle()
}

func TestFallbacks(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{Fallbacks: 1})
	first := r.talk(duplex, duplex)
	require.Equal(t, address(1)+","+address(2), first.ask())
	second := r.talk(duplex, duplex)
	require.Equal(t, address(2)+","+address(3), second.ask(), "the first has a load")
	require.EqualValues(t, 2, r.s.Stats().Live, "only the first of each list is booked")
	first.close()
	second.close()
	r.idle()

	r = newRig(t, "", endpointpicker.Config{Fallbacks: 1, Request: func(context.Context, http.Header, []byte) (*sched.Request, error) {
		return &sched.Request{Pin: &sched.RankID{Worker: 2}}, nil
	}})
	k := r.talk(duplex, duplex)
	require.Equal(t, address(2), k.ask(), "a pinned request goes nowhere else")
	k.close()
	r.idle()
}

func TestHeadersOfTheRequest(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	r := newRig(t, "", endpointpicker.Config{
		Hidden: []string{"x-secret"},
		Request: func(_ context.Context, h http.Header, body []byte) (*sched.Request, error) {
			seen <- h
			assert.Nil(t, body)
			return &sched.Request{ID: "mine"}, nil
		},
		Endpoint: func(p sched.Placement) (string, http.Header) {
			return strings.TrimPrefix(p.Endpoint, "http://"), http.Header{"X-Data-Parallel-Rank": {"0"}}
		},
	})
	k := r.talk(duplex, duplex)
	k.headers(true, "x-gateway-destination-endpoint", "10.6.6.6:1", "accept", "a", "accept", "b")
	c := k.receive().GetRequestHeaders().GetResponse()
	h := <-seen
	assert.Equal(t, "/v1/completions", h.Get(":path"))
	assert.Equal(t, []string{"a", "b"}, h.Values("Accept"))
	assert.Equal(t, []string{"x-secret"}, c.GetHeaderMutation().GetRemoveHeaders())
	assert.Equal(t, http.Header{"X-Data-Parallel-Rank": {"0"}, "X-Gateway-Destination-Endpoint": {address(1)}}, setHeaders(c.GetHeaderMutation()))
	require.NoError(t, r.s.Touch("mine", 0))
	k.close()
	r.idle()
}

func TestIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneAtATime, endpointpicker.Config{})
	var talks []*talk
	for range 3 {
		k := r.talk(duplex, duplex)
		k.ask("x-request-id", "again")
		talks = append(talks, k)
	}
	require.NoError(t, r.s.Touch("again", 0))
	waiting := r.talk(duplex, duplex)
	waiting.headers(true, "x-request-id", strings.Repeat("x", 129))
	r.waiting(1)
	assert.Regexp(t, "^[A-Z2-7]{26}$", r.s.Snapshot(1).Classes[0].Heads[0].Request)
	waiting.cancel()
	for _, k := range talks {
		k.close()
	}
	r.idle()
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1001)
	config := endpointpicker.Config{MaxBody: 1000}
	for name, test := range map[string]struct {
		before func(*rig)
		ask    func(*talk)
		status int
		code   string
	}{
		"no JSON":        {nil, func(k *talk) { k.headers(false); k.body("{", true) }, 400, "invalid_value"},
		"wrong JSON":     {nil, func(k *talk) { k.headers(false); k.body(`{"model": 7}`, true) }, 400, "invalid_value"},
		"wrong priority": {nil, func(k *talk) { k.headers(true, "x-turnstile-priority", "high") }, 400, "invalid_value"},
		"wrong no-queue": {nil, func(k *talk) { k.headers(true, "x-turnstile-no-queue", "perhaps") }, 400, "invalid_value"},
		"large":          {nil, func(k *talk) { k.headers(false); k.body(large, true) }, 413, "request_too_large"},
		"large, in pieces": {nil, func(k *talk) {
			k.headers(false)
			k.body(large[:600], false)
			k.body(large[:600], false)
		}, 413, "request_too_large"},
		"no workers":   {func(r *rig) { require.NoError(t, r.s.SetWorkers(nil)) }, func(k *talk) { k.headers(true) }, 503, "no_endpoints"},
		"overloaded":   {func(r *rig) { require.NoError(t, r.s.SetOverloaded([]uint64{1, 2, 3})) }, func(k *talk) { k.headers(true) }, 503, "overloaded"},
		"closed":       {func(r *rig) { require.NoError(t, r.s.Close()) }, func(k *talk) { k.headers(true) }, 503, "shutting_down"},
		"would wait":   {func(r *rig) { r.fill(3) }, func(k *talk) { k.headers(true, "x-turnstile-no-queue", "true") }, 429, "would_queue"},
		"too many":     {func(r *rig) { r.fill(6) }, func(k *talk) { k.headers(true) }, 429, "queue_full"},
		"no addresses": {func(r *rig) { require.NoError(t, r.s.SetWorkers([]sched.Worker{{ID: 1, Ranks: 1}})) }, func(k *talk) { k.headers(true) }, 500, "internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, oneAtATime, config)
			if test.before != nil {
				test.before(r)
			}
			live := r.s.Stats().Live
			k := r.talk(duplex, duplex)
			test.ask(k)
			k.refused(test.status, test.code)
			require.Equal(t, live, r.s.Stats().Live)
			require.EqualValues(t, 1, r.picker.Stats().Refused)
		})
	}
	t.Run("a part of a body", func(t *testing.T) {
		t.Parallel()
		k := newRig(t, "", config).talk(partial, none)
		k.headers(false)
		k.receive()
		k.body("{", false)
		k.refused(413, "request_too_large")
	})
	t.Run("trailers instead of a body", func(t *testing.T) {
		t.Parallel()
		k := newRig(t, "", config).talk(buffered, none)
		k.headers(false)
		k.receive()
		k.trailers()
		k.refused(400, "invalid_value")
	})
}

// fill books and waits for n requests in all.
func (r *rig) fill(n int) {
	var talks []*talk
	for i := range n {
		k := r.talk(duplex, duplex)
		talks = append(talks, k)
		if i < 3 {
			k.ask()
		} else {
			k.headers(false)
			k.body(`{"prompt": "x"}`, true)
			r.waiting(int64(i - 2))
		}
	}
	r.t.Cleanup(func() {
		for _, k := range talks {
			k.cancel()
		}
		r.idle()
	})
}

// What a callback says, and what it does.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	type answer = func(context.Context, http.Header, []byte) (*sched.Request, error)
	for name, test := range map[string]struct {
		request answer
		status  int
		code    string
	}{
		"an error": {func(context.Context, http.Header, []byte) (*sched.Request, error) { return nil, errors.New("no") }, 400, "invalid_value"},
		"a refusal": {func(context.Context, http.Header, []byte) (*sched.Request, error) {
			return nil, &endpointpicker.RefusalError{Status: 404, Code: "model_not_found", Message: "no such model"}
		}, 404, "model_not_found"},
		"no status": {func(context.Context, http.Header, []byte) (*sched.Request, error) {
			return nil, &endpointpicker.RefusalError{Status: 200}
		}, 500, "internal_error"},
		"nothing": {func(context.Context, http.Header, []byte) (*sched.Request, error) { return nil, nil }, 500, "internal_error"},
		"a panic": {func(context.Context, http.Header, []byte) (*sched.Request, error) { panic("ouch") }, 500, "internal_error"},
		"invalid": {func(context.Context, http.Header, []byte) (*sched.Request, error) {
			return &sched.Request{ISL: -1}, nil
		}, 400, "invalid_value"},
		"too late": {func(context.Context, http.Header, []byte) (*sched.Request, error) {
			return &sched.Request{Due: time.Now().Add(-time.Second)}, nil
		}, 504, "timeout"},
		"pinned elsewhere": {func(context.Context, http.Header, []byte) (*sched.Request, error) {
			return &sched.Request{Pin: &sched.RankID{Worker: 1}, Allowed: []uint64{2}}, nil
		}, 503, "no_endpoints"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "", endpointpicker.Config{Request: test.request})
			k := r.talk(duplex, duplex)
			k.headers(true)
			k.refused(test.status, test.code)
			r.idle()
		})
	}
	t.Run("a panic for the address", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, "", endpointpicker.Config{Endpoint: func(sched.Placement) (string, http.Header) { panic("ouch") }})
		k := r.talk(duplex, duplex)
		k.headers(true)
		k.refused(500, "internal_error")
		r.idle()
		require.EqualValues(t, 1, r.picker.Stats().Panics)
		require.Contains(t, r.log.all(), "ouch")
	})
	t.Run("a panic for what was computed", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, "", endpointpicker.Config{Computed: func(sched.RankID, *sched.Request) { panic("ouch") }})
		k := r.talk(duplex, duplex)
		k.ask()
		k.answerHeaders(false, 200, sse)
		k.answerBody("data: {}\n\n", true)
		k.close()
		r.idle()
		require.EqualValues(t, 1, r.picker.Stats().Panics)
	})
}

// TestLeavers: whatever way a stream ends, nothing stays.
func TestLeavers(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*talk){
		"cancelled": func(k *talk) { k.cancel() },
		"closed":    func(k *talk) { require.NoError(t, k.stream.CloseSend()); require.NoError(t, k.ended()) },
	}
	points := map[string]func(*rig, *talk){
		"before anything": func(*rig, *talk) {},
		"after headers":   func(_ *rig, k *talk) { k.headers(false) },
		"in the body":     func(_ *rig, k *talk) { k.headers(false); k.body("{", false) },
		"in line": func(r *rig, k *talk) {
			k.headers(false)
			k.body("{}", true)
			r.waiting(1)
		},
		"before the response": func(r *rig, k *talk) { r.free(); k.ask() },
		"in the response":     func(r *rig, k *talk) { r.free(); k.ask(); k.answerHeaders(false, 200, sse) },
		"in its body": func(r *rig, k *talk) {
			r.free()
			k.ask()
			k.answerHeaders(false, 200, sse)
			k.answerBody("data: {}\n\n", false)
		},
		"after its end": func(r *rig, k *talk) {
			r.free()
			k.ask()
			k.answerHeaders(false, 200, sse)
			k.answerBody("data: {}\n\n", true)
		},
	}
	for end, leave := range ends {
		for point, reach := range points {
			t.Run(end+" "+point, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, oneAtATime, endpointpicker.Config{})
				for w := range 3 {
					_, err := r.s.Schedule(t.Context(), &sched.Request{ID: "holder" + address(w), ISL: 100})
					require.NoError(t, err)
				}
				k := r.talk(duplex, duplex)
				reach(r, k)
				leave(k)
				require.Eventually(t, func() bool { return r.picker.Stats().Open == 0 }, time.Minute, time.Millisecond)
				require.Zero(t, r.s.Stats().Waiting)
				r.free()
				r.idle()
			})
		}
	}
}

// free releases what TestLeavers holds.
func (r *rig) free() {
	for w := range 3 {
		_ = r.s.Release("holder"+address(w), 0)
	}
}

// A gateway that has answered by itself, as when its own time is up, does not wait.
func TestGatewayAnswersItself(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneAtATime, endpointpicker.Config{})
	r.fill(3)
	k := r.talk(duplex, duplex)
	k.headers(false)
	k.body("{}", true)
	r.waiting(1)
	k.answerHeaders(false, 504, plain)
	require.Zero(t, r.s.Stats().Waiting)
	k.answerBody("late", true)
	k.close()
	require.EqualValues(t, 3, r.picker.Stats().Chosen)
	require.Zero(t, r.picker.Stats().Refused)
}

func TestDeadlineInLine(t *testing.T) {
	t.Parallel()
	due := make(chan time.Time, 1)
	due <- time.Now().Add(20 * time.Millisecond)
	r := newRig(t, oneAtATime, endpointpicker.Config{Request: func(context.Context, http.Header, []byte) (*sched.Request, error) {
		return &sched.Request{ISL: 1, Due: <-due}, nil
	}})
	for w := range 3 {
		b, err := r.s.Schedule(t.Context(), &sched.Request{ID: address(w), ISL: 100})
		require.NoError(t, err)
		defer runtime.KeepAlive(b)
	}
	k := r.talk(duplex, duplex)
	k.headers(true)
	k.refused(http.StatusGatewayTimeout, "timeout")
}
