package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/simengine"
)

func engine(t *testing.T) fleet.Backend {
	return backend(t, simengine.New(simengine.Config{Model: "m"}))
}

// textOf puts an answer together, whichever way it came.
func textOf(t *testing.T, body string) string {
	t.Helper()
	type piece struct {
		Choices []struct {
			Text           string
			Message, Delta struct{ Content string }
		}
	}
	var text strings.Builder
	add := func(raw string) {
		var p piece
		require.NoError(t, json.Unmarshal([]byte(raw), &p), "%q", raw)
		for _, c := range p.Choices {
			text.WriteString(c.Text + c.Message.Content + c.Delta.Content)
		}
	}
	if !strings.HasPrefix(body, "data:") {
		add(body)
		return text.String()
	}
	require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"), "%q", body)
	for _, event := range strings.Split(strings.TrimSuffix(body, "data: [DONE]\n\n"), "\n\n") {
		if event != "" {
			add(strings.TrimPrefix(event, "data: "))
		}
	}
	return text.String()
}

func TestStreamAndPlainAnswerTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{backends: []fleet.Backend{engine(t), engine(t)}})
	for path, field := range map[string]string{
		"/v1/chat/completions": `"messages": [{"role": "user", "content": "Hello"}]`,
		"/v1/completions":      `"prompt": "Hello"`,
	} {
		plain, whole := r.post(path, `{"max_tokens": 40, `+field+`}`, nil)
		stream, pieces := r.post(path, `{"max_tokens": 40, "stream": true, `+field+`}`, nil)
		require.Equal(t, http.StatusOK, plain.StatusCode, whole)
		require.Equal(t, http.StatusOK, stream.StatusCode, pieces)
		assert.Equal(t, "application/json", plain.Header.Get("Content-Type"))
		assert.Equal(t, "text/event-stream", stream.Header.Get("Content-Type"))
		assert.Equal(t, 40, len(strings.Fields(textOf(t, whole))))
		assert.Equal(t, textOf(t, whole), textOf(t, pieces))
		r.idle()
	}
}

func TestPassesOnWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	g := newGate()
	b := backend(t, g)
	b.Ranks = 2
	r := newRig(t, setup{backends: []fleet.Backend{b}})
	body := `{ "prompt":"x", "guided_regex" : "a+",  "nested": {"b":[1,2.50]} }`
	go func() {
		g.say <- "ok" + end
	}()
	response, text := r.post("/v1/completions?beta=1", body, header{
		"Authorization": "Bearer k", "X-Custom": "c", "X-Request-Id": "mine", "Connection": "X-Hop", "X-Hop": "h",
		"X-Forwarded-For": "10.0.0.9", "X-Data-Parallel-Rank": "7", "Accept-Encoding": "gzip",
		proxy.HeaderClass: "batch", proxy.HeaderPriority: "3",
	})
	require.Equal(t, "ok", text)
	got := <-g.came
	assert.Equal(t, body, <-g.body)
	assert.Equal(t, "/v1/completions?beta=1", got.URL.String())
	assert.Equal(t, "Bearer k", got.Header.Get("Authorization"))
	assert.Equal(t, "c", got.Header.Get("X-Custom"))
	assert.Equal(t, "mine", got.Header.Get("X-Request-Id"))
	assert.Equal(t, "0", got.Header.Get("X-Data-Parallel-Rank"))
	assert.Equal(t, "10.0.0.9, 127.0.0.1", got.Header.Get("X-Forwarded-For"))
	for _, name := range []string{"X-Hop", "Connection", "Accept-Encoding", proxy.HeaderClass, proxy.HeaderPriority} {
		assert.Empty(t, got.Header.Values(name), name)
	}
	assert.Empty(t, got.TransferEncoding)
	assert.EqualValues(t, len(body), got.ContentLength)
	assert.Equal(t, "mine", response.Header.Get("X-Request-Id"))
	assert.Equal(t, "1/0", response.Header.Get(proxy.HeaderWorker))
}

// One id names a request to the client, the worker, the scheduler and the log.
func TestOneIDEverywhere(t *testing.T) {
	t.Parallel()
	g := newGate()
	logged := make(chan string, 10)
	r := newRig(t, setup{config: proxy.Config{Log: lines(logged)}, policy: oneAtATime, backends: []fleet.Backend{backend(t, g)}})
	for given, want := range map[string]string{"": "^[A-Z2-7]{26}$", strings.Repeat("x", 129): "^[A-Z2-7]{26}$", "mine": "^mine$"} {
		go func() { g.say <- "ok" + end }()
		response, _ := r.post("/v1/completions", `{"prompt":"x"}`, header{"X-Request-Id": given})
		id := response.Header.Get("X-Request-Id")
		assert.Regexp(t, want, id)
		assert.Equal(t, id, (<-g.came).Header.Get("X-Request-Id"))
		<-g.body
		assert.Contains(t, <-logged, " id="+id+" ")
	}

	letGo := r.hold(g) // of an id of its own
	answers := make(chan *http.Response)
	for i := range 2 {
		go func() {
			response, err := r.send(t.Context(), http.MethodPost, "/v1/completions", streamed, header{"X-Request-Id": "again"})
			assert.NoError(t, err)
			answers <- response
		}()
		if i == 0 {
			r.waiting(1)
		}
	}
	full := <-answers // there is room for one
	assert.Regexp(t, "^again~[A-Z2-7]{8}$", full.Header.Get("X-Request-Id"))
	assert.Equal(t, "queue_full", problemOf(t, all(t, full)).Code)
	assert.Equal(t, "again", r.s.Snapshot(1).Classes[0].Heads[0].Request)
	letGo()
	<-g.came
	g.say <- "done" + end
	waited := <-answers
	assert.Equal(t, "again", waited.Header.Get("X-Request-Id"))
	all(t, waited)
}

func TestTellsTheClassThatServed(t *testing.T) {
	t.Parallel()
	logged := make(chan string, 10)
	policy := oneAtATime + "  - {name: batch, quantum: 1}\n"
	r := newRig(t, setup{config: proxy.Config{Log: lines(logged)}, policy: policy, backends: []fleet.Backend{engine(t)}})
	for asked, served := range map[string]string{"": "chat", "batch": "batch", "bogus": "chat"} {
		response, _ := r.post("/v1/completions", streamed, header{proxy.HeaderClass: asked})
		assert.Equal(t, served, response.Header.Get(proxy.HeaderClass))
		line := <-logged
		assert.Contains(t, line, " class="+served+" ")
		assert.Equal(t, asked != "", strings.Contains(line, " class_asked="+asked+" "), line)
	}
}

func TestAnswersOfBackendsArePassedOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{backends: []fleet.Backend{backend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Engine", "e")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"error":{"message":"too long"}}`))
	}))}})
	response, text := r.post("/v1/completions", `{"prompt":"x"}`, nil)
	assert.Equal(t, http.StatusUnprocessableEntity, response.StatusCode)
	assert.Equal(t, "e", response.Header.Get("X-Engine"))
	assert.Equal(t, `{"error":{"message":"too long"}}`, text)
}

func TestSamePromptGoesWhereItIsCached(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{backends: []fleet.Backend{engine(t), engine(t), engine(t)}})
	held := make(map[string]string)
	for round := range 3 {
		for i := range 6 {
			text := fmt.Sprintf("prompt %d", i)
			response, _ := r.post("/v1/chat/completions", chatBody(round%2 == 0, text, 20), nil)
			worker := response.Header.Get(proxy.HeaderWorker)
			if round == 0 {
				assert.Equal(t, "0", response.Header.Get(proxy.HeaderCached))
				held[text] = worker
				continue
			}
			assert.Equal(t, held[text], worker)
			assert.Equal(t, "320", response.Header.Get(proxy.HeaderCached))
		}
	}
}

func TestLoadFollowsTheStream(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{backends: []fleet.Backend{backend(t, g)}})
	load := func() [3]int64 {
		l := r.s.Loads()[0]
		return [3]int64{l.PrefillTokens, l.Blocks, l.Requests}
	}
	answer := make(chan *http.Response)
	go func() {
		response, err := r.send(t.Context(), http.MethodPost, "/v1/completions", `{"prompt":"`+strings.Repeat("x", 64*5)+`","stream":true}`, nil)
		assert.NoError(t, err)
		answer <- response
	}()
	<-g.came
	assert.Equal(t, [3]int64{80, 5, 1}, load())
	g.say <- streamHead
	g.say <- ": still alive\n\n"
	response := <-answer
	assert.Equal(t, [3]int64{80, 5, 1}, load(), "a comment is no token")
	from := bufio.NewReader(response.Body)
	assert.Equal(t, ": still alive", line(t, from))
	for range 15 {
		g.say <- "data: {}\n\n"
		line(t, from)
		assert.Equal(t, [3]int64{0, 5, 1}, load())
	}
	g.say <- "data: {}\n\n"
	line(t, from)
	assert.Equal(t, [3]int64{0, 6, 1}, load(), "sixteen tokens are a block")
	g.say <- "data: [DONE]\n\n"
	line(t, from)
	g.say <- end
	assert.Empty(t, all(t, response))
	assert.Equal(t, [3]int64{0, 0, 0}, load(), "released before the client knows that this was the end")
}

func TestManyClients(t *testing.T) {
	t.Parallel()
	unlimited := strings.ReplaceAll(oneAtATime, ", request_queue_limit_per_worker: 1", "")
	r := newRig(t, setup{policy: unlimited, backends: []fleet.Backend{engine(t), engine(t), engine(t)}})
	var wg sync.WaitGroup
	for i := range 120 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			response, err := r.send(ctx, http.MethodPost, "/v1/chat/completions", chatBody(i%2 == 0, fmt.Sprint("p", i%7), i%11), nil)
			if !assert.NoError(t, err) {
				return
			}
			defer func() { assert.NoError(t, response.Body.Close()) }()
			assert.Equal(t, http.StatusOK, response.StatusCode)
			if i%5 == 0 {
				return // without having read it
			}
			assert.Equal(t, 20, len(strings.Fields(textOf(t, all(t, response)))))
		})
	}
	wg.Wait()
	r.idle()
	assert.EqualValues(t, 120, r.s.Stats().Admitted)
}
