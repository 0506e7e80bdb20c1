package endpointpicker_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/seed-3c5df8a4/turnstile/integrations/endpointpicker"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// bodyOf is a prompt of 80 tokens, which are 5 blocks.
func bodyOf(prompt string) string { return `{"prompt": "` + strings.Repeat(prompt, 319) + `"}` }

func (k *talk) put(text string) (endpoint string) {
	k.t.Helper()
	k.headers(false)
	k.body(text, true)
	m := k.receive()
	endpoint = k.chosen(m, m.GetRequestHeaders().GetResponse())
	k.echo(text)
	return endpoint
}

func TestLoadFollowsTheStream(t *testing.T) {
	t.Parallel()
	computed := make(chan sched.RankID, 10)
	r := newRig(t, "", endpointpicker.Config{Computed: func(rank sched.RankID, q *sched.Request) {
		assert.Len(t, q.Blocks, 5)
		computed <- rank
	}})
	k := r.talk(duplex, duplex)
	k.put(bodyOf("x"))
	require.Equal(t, [3]int64{80, 5, 1}, r.load(1))
	k.answerHeaders(false, 200, sse)
	k.answerBody(": still alive\n\n", false)
	require.Equal(t, [3]int64{80, 5, 1}, r.load(1), "a comment is no token")
	k.answerBody("da", false)
	k.answerBody("ta: {", false)
	require.Equal(t, [3]int64{0, 5, 1}, r.load(1), "the first token")
	require.Equal(t, sched.RankID{Worker: 1}, <-computed)
	k.answerBody("}\n", false)
	k.answerBody("\n", false)
	k.answerBody(strings.Repeat("data: {}\r\n\r\n", 14), false)
	require.Equal(t, [3]int64{0, 5, 1}, r.load(1))
	k.answerBody("data: {}\ndata: {}\n", false)
	require.Equal(t, [3]int64{0, 5, 1}, r.load(1))
	k.answerBody("\n", false)
	require.Equal(t, [3]int64{0, 6, 1}, r.load(1), "sixteen events are a block")
	k.answerBody(strings.Repeat("event: x\ndata: {}\n\n", 15)+"data: [DONE]\n\n", false)
	require.Equal(t, [3]int64{0, 6, 1}, r.load(1), "the closing one is no token")
	k.answerBody("", true)
	r.unloaded()
	k.close()
	r.idle()
	require.Empty(t, computed)
}

// What is no stream of events with a good status shows no token.
func TestNoTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{})
	for _, test := range []struct {
		status       int
		kind, prompt string
	}{{200, plain, "a"}, {404, sse, "b"}, {429, plain, "c"}} {
		k := r.talk(duplex, streamed)
		k.put(bodyOf(test.prompt))
		k.answerHeaders(false, test.status, test.kind)
		k.answerBody("data: {}\n\n", false)
		require.Equal(t, [3]int64{80, 5, 1}, r.load(1))
		k.answerBody("", true)
		r.unloaded()
		k.close()
		r.idle()
	}
}

func TestFailuresRelease(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{})
	k := r.talk(duplex, duplex)
	k.ask()
	k.answerHeaders(false, 503, plain)
	r.unloaded() // at the head
	k.answerBody("sorry", true)
	k.close()

	k = r.talk(duplex, duplex)
	k.ask()
	k.answerHeaders(true, 204, plain)
	r.unloaded()
	k.close()
	r.idle()
}

func TestSamePromptGoesWhereItIsCached(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(*talk){
		"first token": func(k *talk) { k.answerBody("data: {}\n\n", true) },
		"trailers":    func(k *talk) { k.answerTrailers() },
		"end":         func(*talk) {},
	} {
		r := newRig(t, "", endpointpicker.Config{})
		response := duplex
		if name != "first token" {
			response = none
		}
		var open []*talk
		for i, text := range []string{"a", "b", "c"} {
			k := r.talk(duplex, response)
			require.Equal(t, address(i+1), k.put(bodyOf(text)), "the others have loads")
			open = append(open, k)
		}
		for _, k := range open {
			k.answerHeaders(false, 200, sse)
			finish(k)
			k.close()
		}
		r.idle()
		for i, text := range []string{"a", "b", "c"} {
			k := r.talk(duplex, response)
			require.Equal(t, address(i+1), k.put(bodyOf(text)), name)
			k.close()
			r.idle()
		}
	}
}

func TestServed(t *testing.T) {
	t.Parallel()
	computed := make(chan sched.RankID, 1)
	r := newRig(t, "", endpointpicker.Config{Fallbacks: 2, Computed: func(rank sched.RankID, _ *sched.Request) { computed <- rank }})
	k := r.talk(duplex, duplex)
	require.Equal(t, strings.Join([]string{address(1), address(2), address(3)}, ","), k.put(bodyOf("x")))
	k.meta = served(t, address(2))
	k.answerHeaders(false, 200, sse)
	require.Equal(t, [3]int64{0, 0, 0}, r.load(1))
	require.Equal(t, [3]int64{80, 5, 1}, r.load(2))
	k.answerBody("data: {}\n\n", true)
	require.Equal(t, sched.RankID{Worker: 2}, <-computed)
	k.close()
	require.EqualValues(t, 1, r.picker.Stats().Transferred)

	k = r.talk(duplex, duplex)
	k.ask()
	k.meta = served(t, address(1))
	k.answerHeaders(false, 200, sse)
	require.EqualValues(t, 1, r.load(1)[2], "as it was chosen")
	k.close()

	k = r.talk(duplex, duplex)
	k.ask()
	k.meta = served(t, "10.9.9.9:1")
	k.answerHeaders(false, 200, sse)
	r.unloaded()
	k.answerBody("data: {}\n\n", true)
	k.close()
	r.idle()
	require.EqualValues(t, 1, r.picker.Stats().Strange)
	require.EqualValues(t, 1, r.picker.Stats().Transferred)
	require.Contains(t, r.log.all(), "10.9.9.9:1")
}

// A worker that is removed may still answer: its stream goes on.
func TestWorkerRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{})
	k := r.talk(duplex, duplex)
	k.ask()
	require.NoError(t, r.s.RemoveWorker(1))
	k.answerHeaders(false, 200, sse)
	k.answerBody("data: {}\n\n", false)
	k.answerBody("data: {}\n\n", true)
	k.close()
	r.idle()
	require.EqualValues(t, 1, r.picker.Stats().Dropped)
	require.Contains(t, r.log.all(), "worker-removed")
}

func TestMisconfigured(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{})
	check := func() string {
		var header metadata.MD
		answer, err := healthpb.NewHealthClient(r.conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: endpointpicker.Readiness}, grpc.Header(&header))
		require.NoError(t, err)
		require.Equal(t, healthpb.HealthCheckResponse_SERVING, answer.GetStatus())
		return strings.Join(header.Get(endpointpicker.HeaderMisconfigured), "")
	}
	stream := func(status int, kind string, before func(*talk)) {
		k := r.talk(duplex, none)
		k.ask()
		k.answerHeaders(false, status, kind)
		before(k)
		k.close()
		r.idle()
	}
	atOnce := func(*talk) {}
	for _, well := range []func(*talk){
		func(k *talk) { k.answerTrailers() },
		func(*talk) { time.Sleep(25 * time.Millisecond) }, // as it makes tokens
	} {
		stream(200, sse, atOnce)
		stream(200, sse, atOnce)
		stream(200, plain, atOnce) // comes in one piece
		stream(404, sse, atOnce)
		require.Empty(t, check(), "there are short responses")
		stream(200, sse, well)
	}
	require.Eventually(t, func() bool {
		stream(200, sse, atOnce)
		return check() != ""
	}, time.Minute, time.Millisecond)
	require.Contains(t, check(), "response_trailer_mode")
	require.Equal(t, check(), r.picker.Stats().Misconfigured)
	logged := r.log.all()
	require.Equal(t, 1, strings.Count(logged, "misconfigured"), logged)
	require.Equal(t, 1, strings.Count(logged, "first tokens are not seen"), logged)
	stream(200, sse, func(k *talk) { k.answerTrailers() })
	require.Empty(t, check())
}

func TestHealthAndDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneAtATime, endpointpicker.Config{})
	health := healthpb.NewHealthClient(r.conn)
	check := func(service string) healthpb.HealthCheckResponse_ServingStatus {
		answer, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		return answer.GetStatus()
	}
	const (
		up   = healthpb.HealthCheckResponse_SERVING
		down = healthpb.HealthCheckResponse_NOT_SERVING
	)
	for _, service := range []string{"", "liveness", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"} {
		require.Equal(t, up, check(service), service)
	}
	_, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "other"})
	require.Error(t, err)
	watch, err := health.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "readiness"})
	require.NoError(t, err)
	first, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, up, first.GetStatus())

	var open []*talk
	for range 3 {
		k := r.talk(duplex, duplex)
		k.ask()
		open = append(open, k)
	}
	waits := r.talk(duplex, duplex)
	waits.headers(true)
	r.waiting(1)
	drained := make(chan error, 1)
	go func() { drained <- r.picker.Drain(context.Background()) }()
	second, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, down, second.GetStatus())
	require.Eventually(t, func() bool { return check("envoy.service.ext_proc.v3.ExternalProcessor") == down }, time.Minute, time.Millisecond)
	require.Equal(t, up, check("liveness"))
	late := r.talk(duplex, duplex)
	late.headers(true)
	late.refused(http.StatusServiceUnavailable, "shutting_down")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.picker.Drain(ended), context.Canceled)

	require.Empty(t, drained)
	open[0].close()
	m := waits.receive()
	waits.chosen(m, m.GetRequestHeaders().GetResponse())
	for _, k := range append(open[1:], waits) {
		k.close()
	}
	require.NoError(t, <-drained)
	require.NoError(t, r.picker.Drain(t.Context()), "nothing is open any more")
	r.idle()
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := endpointpicker.New(endpointpicker.Config{BlockSize: -1, MaxBody: 1<<30 + 1, Fallbacks: -1})
	for _, field := range []string{"Scheduler", "BlockSize", "MaxBody", "Fallbacks"} {
		require.ErrorContains(t, err, field)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"10.0.0.1:8000": "10.0.0.1:8000", "http://10.0.0.1:8000/x": "10.0.0.1:8000", "http://10.0.0.1": "10.0.0.1:80",
		"https://[fd00::1]": "[fd00::1]:443", "[fd00::1]:8000": "[fd00::1]:8000", "http://[fd00::1]:8000": "[fd00::1]:8000", "://": "", "http://": "",
	} {
		r := newRig(t, "", endpointpicker.Config{})
		require.NoError(t, r.s.SetWorkers([]sched.Worker{{ID: 1, Ranks: 1, Endpoint: endpoint}}))
		k := r.talk(duplex, duplex)
		k.headers(true)
		m := k.receive()
		if want == "" {
			require.EqualValues(t, 500, m.GetImmediateResponse().GetStatus().GetCode(), endpoint)
			continue
		}
		require.Equal(t, want, k.chosen(m, m.GetRequestHeaders().GetResponse()))
		k.close()
	}
}

// A value may stand in either field of a header.
func TestValuesOfHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", endpointpicker.Config{})
	k := r.talk(duplex, duplex)
	k.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{
		EndOfStream: true, Headers: &corepb.HeaderMap{Headers: []*corepb.HeaderValue{{Key: "x-request-id", Value: "old"}}},
	}}})
	k.receive()
	require.NoError(t, r.s.Touch("old", 0))
	k.close()
	r.idle()
}
