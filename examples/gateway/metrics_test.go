package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMetrics: requests by code, model and class, backends by state, and a class that
// nobody knows counts.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := start(t, "-demo", "-policy", "policy.yaml")
	ask := func(class string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(chat))
		require.NoError(t, err)
		request.Header.Set("X-Turnstile-Class", class)
		response, err := r.client.Do(request)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, http.StatusOK, ask("no-such-class"))
	status, _ := r.ask(http.MethodPost, "/v1/chat/completions", `{"model": "unknown", "messages": [{"role": "user", "content": "x"}]}`)
	require.Equal(t, http.StatusNotFound, status)
	var text string
	r.until("what is counted is there", func() bool {
		_, text = r.ask(http.MethodGet, "/metrics", "")
		return strings.Contains(text, `code="404"`)
	})
	for _, want := range []string{
		`(?m)^gateway_requests_total\{class="[a-z-]+",code="200",model="[a-z]*"\} 1$`,
		`(?m)^gateway_unknown_class_total 1$`,
		`(?m)^gateway_first_byte_seconds_count\{model="[a-z]*"\} 1$`,
		`(?m)^gateway_retries_total 0$`,
		`(?m)^gateway_backend_state\{backend="http://127\.0\.0\.1:\d+",model="[a-z]*",state="up",worker="1"\} 1$`,
		`(?m)^gateway_backends_usable\{model="[a-z]*"\} 3$`,
		`(?m)^process_start_time_seconds `, `(?m)^go_goroutines `,
	} {
		assert.Regexp(t, regexp.MustCompile(want), text)
	}
	assert.Contains(t, r.log.String(), "class_unknown=true", "the log has the name")
	assert.Contains(t, r.log.String(), "class_asked=no-such-class")
	_, text = r.ask(http.MethodGet, "/status?view=json", "")
	assert.Contains(t, text, `Requests ask for classes that the policy does not have: \"no-such-class\".`, "the status page shows it")
	r.stop()
	require.NoError(t, <-r.done)
}

// TestAdminListen: status and metrics have an address of their own.
func TestAdminListen(t *testing.T) {
	t.Parallel()
	r := start(t, "-demo", "-admin-listen", "127.0.0.1:0")
	admin := regexp.MustCompile(`status and metrics on (\S+)`).FindStringSubmatch(r.stdout.String())
	require.Len(t, admin, 2)
	for path, want := range map[string]int{"/metrics": 200, "/status": 200, "/": 200, "/v1/models": 404} {
		response, err := r.client.Get(admin[1] + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, want, response.StatusCode, path)
	}
	for path, want := range map[string]int{"/metrics": 404, "/status": 404, "/": 404, "/v1/models": 200, "/healthz": 200} {
		status, _ := r.ask(http.MethodGet, path, "")
		assert.Equal(t, want, status, path)
	}
	r.stop()
	require.NoError(t, <-r.done)
}

// TestDashboard: it is JSON, and asks for what is exported.
func TestDashboard(t *testing.T) {
	t.Parallel()
	board, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.True(t, json.Valid(board))
	source, err := os.ReadFile("metrics.go")
	require.NoError(t, err)
	exported := map[string]bool{}
	for _, name := range regexp.MustCompile(`"(gateway_[a-z_]+)"`).FindAllSubmatch(source, -1) {
		exported[string(name[1])] = true
	}
	shown := map[string]bool{}
	for _, name := range regexp.MustCompile(`gateway_[a-z_]+`).FindAllString(string(board), -1) {
		shown[strings.TrimSuffix(name, "_bucket")] = true
	}
	require.Equal(t, exported, shown)
}

// TestUnknownClassesMakeRoom: few names are kept, and old ones give way.
func TestUnknownClassesMakeRoom(t *testing.T) {
	t.Parallel()
	var u unknownClasses
	at := time.Unix(0, 0)
	for _, name := range strings.Split("abcdefgh", "") {
		u.asked(name, at)
	}
	require.NotContains(t, u.note(at), `"f"`)
	u.asked("later", at.Add(unknownFor+1))
	require.Contains(t, u.note(at.Add(unknownFor+1)), `have: "later".`)
	require.Empty(t, u.note(at.Add(3*unknownFor)))
}
