package simengine_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/simengine"
)

// asker asks an engine that serves the model m.
func asker(t *testing.T) func(method, path, body string) (status int, text string) {
	server := httptest.NewServer(simengine.New(simengine.Config{Model: "m"}))
	t.Cleanup(server.Close)
	return func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		response, err := server.Client().Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode, string(text)
	}
}

type choice struct {
	Index   int
	Text    string
	Message struct {
		Role    string
		Content *string
		Calls   []call `json:"tool_calls"`
	}
	Delta struct {
		Role    string
		Content *string
		Calls   []call `json:"tool_calls"`
	}
	Reason *string `json:"finish_reason"`
}

type call struct {
	Function struct{ Name, Arguments string }
}

type answer struct {
	Created int64
	Object  string
	Choices []choice
	Usage   *struct {
		Completion int `json:"completion_tokens"`
	}
}

func TestWholeAnswers(t *testing.T) {
	t.Parallel()
	ask := asker(t)
	whole := func(path, body string) (a answer) {
		t.Helper()
		status, text := ask("POST", path, body)
		require.Equal(t, http.StatusOK, status, text)
		require.NoError(t, json.Unmarshal([]byte(text), &a))
		return a
	}
	a := whole("/v1/chat/completions", `{"model":"m","n":3,"max_tokens":2,"messages":[{"role":"user","content":"x"}]}`)
	require.Len(t, a.Choices, 3)
	for i, c := range a.Choices {
		require.Equal(t, i, c.Index)
		require.Equal(t, "assistant", c.Message.Role)
		require.Equal(t, "Every request ", *c.Message.Content)
		require.Equal(t, "length", *c.Reason)
	}
	require.Equal(t, 6, a.Usage.Completion)
	require.InDelta(t, time.Now().Unix(), a.Created, 60)

	a = whole("/v1/completions", `{"prompt":["a","b"],"n":2,"max_tokens":1}`)
	require.Len(t, a.Choices, 4, "each prompt has its choices")
	require.Equal(t, "Every ", a.Choices[3].Text)
	a = whole("/v1/completions", `{"prompt":[1,2,3]}`)
	require.Len(t, a.Choices, 1, "tokens are one prompt")
	require.Equal(t, "stop", *a.Choices[0].Reason, "nobody bounded it")

	tools := `{"tools":[{"type":"function","function":{"name":"time"}},{"type":"function","function":{"name":"place"}}],"messages":[{"role":"user","content":"x"}]`
	a = whole("/v1/chat/completions", tools+`}`)
	require.Equal(t, "time", a.Choices[0].Message.Calls[0].Function.Name)
	require.Equal(t, "{}", a.Choices[0].Message.Calls[0].Function.Arguments)
	require.Nil(t, a.Choices[0].Message.Content)
	require.Equal(t, "tool_calls", *a.Choices[0].Reason)
	a = whole("/v1/chat/completions", tools+`,"tool_choice":{"type":"function","function":{"name":"place"}}}`)
	require.Equal(t, "place", a.Choices[0].Message.Calls[0].Function.Name)
	require.Empty(t, whole("/v1/chat/completions", tools+`,"tool_choice":"none"}`).Choices[0].Message.Calls)
	result := strings.Replace(tools, `"content":"x"}`, `"content":"x"},{"role":"tool","content":"12:00","tool_call_id":"1"}`, 1)
	require.Empty(t, whole("/v1/chat/completions", result+`}`).Choices[0].Message.Calls, "the result is there")
}

func TestStreams(t *testing.T) {
	t.Parallel()
	ask := asker(t)
	stream := func(path, body string) (pieces []answer) {
		t.Helper()
		status, text := ask("POST", path, body)
		require.Equal(t, http.StatusOK, status, text)
		events := strings.Split(strings.TrimSpace(text), "\n\n")
		require.Equal(t, "data: [DONE]", events[len(events)-1])
		for _, event := range events[:len(events)-1] {
			var a answer
			require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &a))
			pieces = append(pieces, a)
		}
		return pieces
	}
	const body = `{"stream":true,"n":2,"max_tokens":2,"messages":[{"role":"user","content":"x"}]`
	pieces := stream("/v1/chat/completions", body+`}`)
	require.Len(t, pieces, 8, "of two choices the role, two tokens and the end")
	for i, p := range pieces {
		require.Equal(t, "chat.completion.chunk", p.Object)
		require.Equal(t, i%2, p.Choices[0].Index)
		require.Equal(t, i < 2, p.Choices[0].Delta.Role == "assistant")
		require.Equal(t, i >= 6, p.Choices[0].Reason != nil)
		require.Nil(t, p.Usage, "nobody asked")
	}
	pieces = stream("/v1/chat/completions", body+`,"stream_options":{"include_usage":true}}`)
	last := pieces[len(pieces)-1]
	require.Empty(t, last.Choices)
	require.Equal(t, 4, last.Usage.Completion)

	pieces = stream("/v1/chat/completions", body+`,"tools":[{"type":"function","function":{"name":"time"}}],"n":1}`)
	require.Len(t, pieces, 3)
	require.Equal(t, "time", pieces[1].Choices[0].Delta.Calls[0].Function.Name)
	require.Equal(t, "tool_calls", *pieces[2].Choices[0].Reason)
	require.Len(t, stream("/v1/completions", `{"stream":true,"prompt":"x","max_tokens":3}`), 4)
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	ask := asker(t)
	for body, want := range map[string]struct {
		status      int
		param, code string
	}{
		`{"prompt":"x","model":"other"}`:   {404, "model", "model_not_found"},
		`{"prompt":"x","max_tokens":0}`:    {400, "max_tokens", "invalid_value"},
		`{"prompt":"x","max_tokens":1.5}`:  {400, "max_tokens", "invalid_value"},
		`{"prompt":"x","max_tokens":5000}`: {400, "max_tokens", "invalid_value"},
		`{"prompt":"x","n":0}`:             {400, "n", "invalid_value"},
		`{"model":"m"}`:                    {400, "prompt", "invalid_value"},
	} {
		status, text := ask("POST", "/v1/completions", body)
		var got struct {
			Error struct{ Message, Param, Code string }
		}
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		require.Equal(t, want.status, status, body)
		require.Equal(t, want.param, got.Error.Param, body)
		require.Equal(t, want.code, got.Error.Code, body)
		require.NotEmpty(t, got.Error.Message)
	}
	status, text := ask("GET", "/v1/models/m", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `"id":"m"`)
	status, _ = ask("GET", "/v1/models/other", "")
	require.Equal(t, http.StatusNotFound, status)
}
