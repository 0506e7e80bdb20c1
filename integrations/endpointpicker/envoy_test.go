package endpointpicker_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/seed-3c5df8a4/turnstile/integrations/endpointpicker"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// modes are the settings that the documentation names.
var modes = map[string][]string{"duplex": nil, "trailers only": trailersOnly, "buffered": inBuffers}

const small = `{"prompt": "x"}`

// TestEnvoy: what the protocol demands of a picker, in each mode.
func TestEnvoy(t *testing.T) {
	t.Parallel()
	for name, changes := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, oneAtATime, endpointpicker.Config{}, changes...)
			both := [2]string{p.engines[0].address(), p.engines[1].address()}

			// The choice is followed, whatever the client says; what is the picker's is hidden.
			for _, body := range []string{small, "", `{"prompt": "` + strings.Repeat("long ", 30_000) + `"}`, `{"prompt": "` + strings.Repeat("long ", 200_000) + `"}`} {
				response, text := p.post("", body, "X-Gateway-Destination-Endpoint", both[1], endpointpicker.HeaderClass, "chat")
				assert.Equal(t, http.StatusOK, response.StatusCode, text)
				assert.Equal(t, both[0], response.Header.Get("X-Engine"))
				assert.Equal(t, both[0], response.Header.Get("X-Told"))
				assert.Empty(t, response.Header.Get("X-Class"))
				assert.Equal(t, len(body), atoi(t, response.Header.Get("X-Length")))
				p.idle()
			}

			// A stream comes whole, and is seen to its end.
			response, text := p.post("events=100&every=1ms", small)
			assert.Equal(t, http.StatusOK, response.StatusCode)
			assert.Equal(t, 101, strings.Count(text, "data: "))
			p.idle()

			// A failure of the engine is passed on.
			response, _ = p.post("status=503", small)
			assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
			assert.Equal(t, both[0], response.Header.Get("X-Engine"))
			p.idle()

			// One runs on each, one waits for each, and no more. Who leaves, leaves nothing.
			var leave []context.CancelFunc
			for i, query := range []string{"hold=head", "hold=events", "", ""} {
				ctx, cancel := context.WithCancel(context.Background())
				leave = append(leave, cancel)
				go func() {
					response, err := p.send(ctx, query, small)
					if err == nil {
						<-ctx.Done()
						_ = response.Body.Close()
					}
				}()
				if i < 2 {
					p.held(int64(i + 1))
					if name != "trailers only" && query == "hold=events" { // its first token is seen, so that another may run
						require.Eventually(t, func() bool { return p.s.Loads()[1].PrefillTokens == 0 }, time.Minute, time.Millisecond)
						_, err := p.s.Schedule(t.Context(), &sched.Request{ID: "filler", ISL: 1})
						require.NoError(t, err)
					}
				} else {
					p.waiting(int64(i - 1))
				}
				if i == 1 {
					response, text := p.post("", small, endpointpicker.HeaderNoQueue, "true")
					assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
					assert.Contains(t, text, `"would_queue"`)
				}
			}
			response, text = p.post("", small)
			assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
			assert.Equal(t, "1", response.Header.Get("Retry-After"))
			assert.Contains(t, text, `"queue_full"`)
			for _, cancel := range leave {
				cancel()
			}
			p.held(0)
			_ = p.s.Release("filler", 0)
			p.idle()

			response, text = p.post("", "{")
			assert.Equal(t, http.StatusBadRequest, response.StatusCode)
			assert.Contains(t, text, `"invalid_value"`)
			require.NoError(t, p.s.SetOverloaded([]uint64{1, 2}))
			response, _ = p.post("", small)
			assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
			assert.Equal(t, "1", response.Header.Get("Retry-After"))
			require.NoError(t, p.s.SetOverloaded(nil))
			require.Empty(t, p.picker.Stats().Misconfigured)

			// An Envoy that dies takes its bookings along.
			go func() {
				response, err := p.send(context.Background(), "hold=events", small)
				if err == nil {
					_, _ = readAll(response)
				}
			}()
			p.held(1)
			require.NoError(t, p.envoy.cmd.Process.Kill())
			p.idle()
		})
	}
}

// Header and metadata say the same: each alone is enough.
func TestEnvoyByHeaderAndByMetadata(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][]string{"header": byHeader, "metadata": byMetadata} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, "", endpointpicker.Config{}, changes...)
			for range 4 { // by turns they would go elsewhere
				response, _ := p.post("", small)
				assert.Equal(t, p.engines[0].address(), response.Header.Get("X-Engine"))
				assert.Equal(t, p.engines[0].address(), response.Header.Get("X-Told"))
			}
			p.idle()
		})
	}
}

func TestEnvoySubset(t *testing.T) {
	t.Parallel()
	p := newPool(t, "", endpointpicker.Config{}, hinted...)
	one, two := p.engines[0].address(), p.engines[1].address()
	for name, test := range map[string]struct {
		hint any
		want string // empty: refused
	}{
		"list":  {[]any{two, one}, one},
		"one":   {[]any{two}, two},
		"text":  {"10.9.9.9:1, " + two, two},
		"empty": {[]any{}, ""},
		"blank": {"", ""},
		"none":  {[]any{"10.9.9.9:1"}, ""},
	} {
		value, err := structpb.NewValue(test.hint)
		require.NoError(t, err)
		wire, err := proto.Marshal(value)
		require.NoError(t, err)
		response, text := p.post("", small, "X-Subset", base64.StdEncoding.EncodeToString(wire))
		if test.want == "" {
			assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode, name)
			assert.Contains(t, text, `"no_endpoints"`)
			assert.NotEmpty(t, response.Header.Get("Retry-After"))
			continue
		}
		assert.Equal(t, test.want, response.Header.Get("X-Engine"), name)
	}
	p.idle()
}

// A list is tried in its order, and the booking goes to who served.
func TestEnvoyServed(t *testing.T) {
	t.Parallel()
	for name, changes := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, "", endpointpicker.Config{Fallbacks: 1}, changes...)
			p.engines[0].Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			response, err := p.send(ctx, "hold=events", small)
			require.NoError(t, err)
			defer func() { _ = response.Body.Close() }()
			assert.Equal(t, p.engines[1].address(), response.Header.Get("X-Engine"))
			require.EqualValues(t, 1, p.picker.Stats().Transferred)
			require.EqualValues(t, 0, p.load(1)[2])
			require.EqualValues(t, 1, p.load(2)[2])
			cancel()
			p.idle()

			// An address that Envoy does not have: it goes by turns, and says where.
			require.NoError(t, p.s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Endpoint: "127.0.0.1:1"}))
			require.NoError(t, p.s.DrainWorker(2))
			response, _ = p.post("", small)
			assert.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, response.StatusCode)
			p.idle()
		})
	}
}

func TestEnvoyMisconfigured(t *testing.T) {
	t.Parallel()
	p := newPool(t, "", endpointpicker.Config{}, noTrailers...)
	require.Eventually(t, func() bool {
		p.post("events=4&every=10ms", small)
		p.idle()
		return p.picker.Stats().Misconfigured != ""
	}, time.Minute, time.Millisecond)
}

// Health by a client of its own, and draining as Envoy's clients see it.
func TestEnvoyDrain(t *testing.T) {
	t.Parallel()
	p := newPool(t, "", endpointpicker.Config{})
	conn, err := grpc.NewClient(p.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	check := func(service string) healthpb.HealthCheckResponse_ServingStatus {
		answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		return answer.GetStatus()
	}
	services := []string{"liveness", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"}
	for _, service := range services {
		require.Equal(t, healthpb.HealthCheckResponse_SERVING, check(service))
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	response, err := p.send(ctx, "hold=events", small)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	drained := make(chan error, 1)
	go func() { drained <- p.picker.Drain(context.Background()) }()
	require.Eventually(t, func() bool { return check("readiness") == healthpb.HealthCheckResponse_NOT_SERVING }, time.Minute, time.Millisecond)
	refused, text := p.post("", small)
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	require.Contains(t, text, `"shutting_down"`)
	require.Equal(t, healthpb.HealthCheckResponse_SERVING, check("liveness"))
	require.Empty(t, drained)
	leave()
	require.NoError(t, <-drained)
	p.idle()
}

// What the documentation says of a picker that dies in the middle of a response.
func TestEnvoyPickerDies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"duplex", "trailers only"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, "", endpointpicker.Config{}, modes[name]...)
			response, err := p.send(t.Context(), "events=20&every=20ms", small)
			require.NoError(t, err)
			p.server.Stop()
			_, err = readAll(response)
			require.Error(t, err)
			down, _ := p.post("", small)
			require.Equal(t, http.StatusInternalServerError, down.StatusCode)
			p.idle()
		})
	}
}
