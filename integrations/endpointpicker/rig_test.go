package endpointpicker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modepb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/seed-3c5df8a4/turnstile/integrations/endpointpicker"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	none     = modepb.ProcessingMode_NONE
	streamed = modepb.ProcessingMode_STREAMED
	buffered = modepb.ProcessingMode_BUFFERED
	partial  = modepb.ProcessingMode_BUFFERED_PARTIAL
	duplex   = modepb.ProcessingMode_FULL_DUPLEX_STREAMED
)

// oneAtATime lets a rank compute one prompt at a time, and one request wait for
// each worker.
const oneAtATime = `
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: all, quantum: 8192, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1}
`

// rig is a picker on a connection in memory, with three workers of which among equals
// the first is chosen.
type rig struct {
	t      *testing.T
	s      *sched.Scheduler
	picker *endpointpicker.Server
	server *grpc.Server
	conn   *grpc.ClientConn
	log    *log
}

// log keeps what is logged.
type log struct{ lines chan string }

func (l *log) Write(line []byte) (int, error) {
	l.lines <- string(line)
	return len(line), nil
}

func (l *log) all() string {
	var all strings.Builder
	for {
		select {
		case line := <-l.lines:
			all.WriteString(line)
		default:
			return all.String()
		}
	}
}

func newScheduler(t testing.TB, rules string, workers int) *sched.Scheduler {
	config := sched.Config{BlockSize: 16, Ties: selector.TiesLowest}
	if rules != "" {
		file, err := policy.Parse([]byte(rules))
		require.NoError(t, err)
		config.Policy = file
	}
	s, err := sched.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for i := range workers {
		require.NoError(t, s.UpsertWorker(sched.Worker{ID: uint64(i + 1), Ranks: 1, Endpoint: "http://" + address(i+1)}))
	}
	return s
}

func address(worker int) string { return "10.0.0." + strconv.Itoa(worker) + ":8000" }

func newRig(t *testing.T, rules string, config endpointpicker.Config) *rig {
	t.Helper()
	r := &rig{t: t, s: newScheduler(t, rules, 3), log: &log{lines: make(chan string, 1000)}}
	config.Scheduler = r.s
	config.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	var err error
	r.picker, err = endpointpicker.New(config)
	require.NoError(t, err)
	listener := bufconn.Listen(1 << 20)
	r.server = grpc.NewServer(endpointpicker.ServerOptions()...)
	r.picker.Register(r.server)
	go func() { _ = r.server.Serve(listener) }()
	t.Cleanup(r.server.Stop)
	r.conn, err = grpc.NewClient("passthrough:picker", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.conn.Close() })
	return r
}

// idle waits until nothing is booked and no stream is open.
func (r *rig) idle() {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.picker.Stats().Open == 0 }, time.Minute, time.Millisecond)
	r.unloaded()
}

func (r *rig) unloaded() {
	r.t.Helper()
	require.Zero(r.t, r.s.Stats().Live)
	for _, l := range r.s.Loads() {
		require.Equal(r.t, sched.RankLoad{Rank: l.Rank}, l)
	}
}

func (r *rig) waiting(n int64) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.s.Stats().Waiting == n }, time.Minute, time.Millisecond)
}

// load is that of a worker: prefill tokens, blocks, requests.
func (r *rig) load(worker int) [3]int64 {
	l := r.s.Loads()[worker-1]
	return [3]int64{l.PrefillTokens, l.Blocks, l.Requests}
}

// talk is a stream as a gateway has it.
type talk struct {
	t      *testing.T
	stream extproc.ExternalProcessor_ProcessClient
	cancel context.CancelFunc
	modes  *extproc.ProtocolConfiguration // sent with the first message, then nil
	meta   *corepb.Metadata               // sent with each
}

func (r *rig) talk(request, response modepb.ProcessingMode_BodySendMode) *talk {
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	stream, err := extproc.NewExternalProcessorClient(r.conn).Process(ctx)
	require.NoError(r.t, err)
	return &talk{t: r.t, stream: stream, cancel: cancel, modes: &extproc.ProtocolConfiguration{RequestBodyMode: request, ResponseBodyMode: response}}
}

func (k *talk) send(m *extproc.ProcessingRequest) {
	k.t.Helper()
	m.ProtocolConfig, k.modes = k.modes, nil
	m.MetadataContext = k.meta
	require.NoError(k.t, k.stream.Send(m))
}

func (k *talk) receive() *extproc.ProcessingResponse {
	k.t.Helper()
	m, err := k.stream.Recv()
	require.NoError(k.t, err)
	return m
}

func (k *talk) ended() error {
	k.t.Helper()
	m, err := k.stream.Recv()
	require.Error(k.t, err, "%v", m)
	if err == io.EOF {
		return nil
	}
	return err
}

// header are pairs of names and values.
func headerMap(pairs ...string) *corepb.HeaderMap {
	m := &corepb.HeaderMap{}
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &corepb.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return m
}

func (k *talk) headers(end bool, pairs ...string) {
	k.t.Helper()
	k.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{
		Headers: headerMap(append([]string{":method", "POST", ":path", "/v1/completions"}, pairs...)...), EndOfStream: end,
	}}})
}

func (k *talk) body(text string, end bool) {
	k.t.Helper()
	k.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: []byte(text), EndOfStream: end}}})
}

func (k *talk) trailers() {
	k.t.Helper()
	k.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestTrailers{RequestTrailers: &extproc.HttpTrailers{}}})
}

func (k *talk) answerHeaders(end bool, status int, kind string) {
	k.t.Helper()
	k.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{
		Headers: headerMap(":status", strconv.Itoa(status), "content-type", kind), EndOfStream: end,
	}}})
	require.NotNil(k.t, k.receive().GetResponseHeaders())
}

const (
	plain = "application/json"
	sse   = "text/event-stream; charset=utf-8"
)

func (k *talk) answerBody(text string, end bool) *extproc.CommonResponse {
	k.t.Helper()
	k.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseBody{ResponseBody: &extproc.HttpBody{Body: []byte(text), EndOfStream: end}}})
	m := k.receive()
	require.NotNil(k.t, m.GetResponseBody(), "%v", m)
	return m.GetResponseBody().GetResponse()
}

func (k *talk) answerTrailers() {
	k.t.Helper()
	k.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extproc.HttpTrailers{}}})
	require.NotNil(k.t, k.receive().GetResponseTrailers())
}

// close ends the stream as a gateway does.
func (k *talk) close() {
	k.t.Helper()
	require.NoError(k.t, k.stream.CloseSend())
	require.NoError(k.t, k.ended())
}

// ask sends a whole request in full duplex, and returns where it goes.
func (k *talk) ask(pairs ...string) (endpoints string) {
	k.t.Helper()
	k.headers(false, pairs...)
	k.body(`{"prompt": "x"}`, true)
	m := k.receive()
	require.Nil(k.t, m.GetImmediateResponse(), "%v", m)
	endpoints = k.chosen(m, m.GetRequestHeaders().GetResponse())
	k.echo(`{"prompt": "x"}`)
	return endpoints
}

// chosen looks at an answer that says where the request goes: by header and metadata.
func (k *talk) chosen(m *extproc.ProcessingResponse, c *extproc.CommonResponse) string {
	k.t.Helper()
	require.True(k.t, c.GetClearRouteCache(), "%v", m)
	endpoints := setHeaders(c.GetHeaderMutation()).Get("X-Gateway-Destination-Endpoint")
	require.NotEmpty(k.t, endpoints)
	require.Equal(k.t, endpoints, m.GetDynamicMetadata().AsMap()["envoy.lb"].(map[string]any)["x-gateway-destination-endpoint"])
	return endpoints
}

func setHeaders(m *extproc.HeaderMutation) http.Header {
	h := make(http.Header)
	for _, o := range m.GetSetHeaders() {
		if o.GetAppendAction() == corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			h.Add(o.GetHeader().GetKey(), string(o.GetHeader().GetRawValue()))
		}
	}
	return h
}

// echo takes the request's body back.
func (k *talk) echo(body string) {
	k.t.Helper()
	var got bytes.Buffer
	for {
		piece := k.receive().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		require.NotNil(k.t, piece)
		require.LessOrEqual(k.t, len(piece.GetBody()), 62<<10)
		got.Write(piece.GetBody())
		if piece.GetEndOfStream() {
			break
		}
	}
	require.Equal(k.t, len(body), got.Len())
	require.True(k.t, body == got.String())
}

// refused takes an answer to the client.
func (k *talk) refused(status int, code string) *extproc.ImmediateResponse {
	k.t.Helper()
	r := k.receive().GetImmediateResponse()
	require.NotNil(k.t, r)
	assert.EqualValues(k.t, status, r.GetStatus().GetCode())
	var body struct {
		Error struct{ Message, Type, Code string }
	}
	require.NoError(k.t, json.Unmarshal(r.GetBody(), &body))
	assert.Equal(k.t, code, body.Error.Code)
	assert.NotEmpty(k.t, body.Error.Message)
	assert.NotEmpty(k.t, body.Error.Type)
	h := setHeaders(r.GetHeaders())
	assert.Equal(k.t, plain, h.Get("Content-Type"))
	assert.Equal(k.t, status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable, h.Get("Retry-After") != "", code)
	require.NoError(k.t, k.ended())
	return r
}

// meta is metadata of one namespace with one value.
func meta(t *testing.T, space, key string, value any) *corepb.Metadata {
	t.Helper()
	fields, err := structpb.NewStruct(map[string]any{key: value})
	require.NoError(t, err)
	return &corepb.Metadata{FilterMetadata: map[string]*structpb.Struct{space: fields}}
}

func subset(t *testing.T, value any) *corepb.Metadata {
	return meta(t, "envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", value)
}

func served(t *testing.T, address string) *corepb.Metadata {
	return meta(t, "envoy.lb", "x-gateway-destination-endpoint-served", address)
}
