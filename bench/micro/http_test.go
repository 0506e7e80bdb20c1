package micro

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestReadReply(t *testing.T) {
	r := bufio.NewReader(strings.NewReader(
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nab\n" +
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" +
			"HTTP/1.1 503 Service Unavailable\r\n\r\n"))
	require.NoError(t, readReply(r))
	require.NoError(t, readReply(r))
	require.EqualError(t, readReply(r), `the server says "HTTP/1.1 503 Service Unavailable"`)
	require.ErrorIs(t, readReply(bufio.NewReader(strings.NewReader(""))), io.EOF)
}

// TestPicker: what the paths do, and that nothing stays booked.
func TestPicker(t *testing.T) {
	eng, err := engine.NewSharded(sched.Config{BlockSize: blockSize})
	require.NoError(t, err)
	require.NoError(t, eng.SetWorkers(workers(2)))
	h := &picker{engine: eng, requests: []sched.Request{prompts(1, 2, 0)[0][0]}}
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return w.Code, w.Body.String()
	}
	for _, path := range []string{"/select/0", "/yield/select/0", "/schedule/0", "/yield/schedule/0"} {
		code, body := get(path)
		require.Equal(t, http.StatusOK, code, path)
		require.Regexp(t, `^http://worker-[12]\n$`, body, path)
	}
	code, body := get("/none/0")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "\n", body)
	require.Equal(t, int64(2), eng.Stats().Admitted)
	for _, path := range []string{"/", "/select", "/select/1", "/select/-1", "/select/x", "/nothing/0"} {
		code, _ := get(path)
		require.Equal(t, http.StatusNotFound, code, path)
	}
	require.NoError(t, finish(eng, nil))
	code, body = get("/select/0")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "closed")
}

// TestServer: the process is started when it is needed and ends when it is told to.
func TestServer(t *testing.T) {
	s := &server{ranks: 2}
	require.NoError(t, s.stop(), "it does not run")
	trial, err := s.trial(context.Background(), "/schedule")
	require.NoError(t, err)
	before := s.cpu()
	for _, c := range trial.callers {
		require.NoError(t, c.timed())
		require.NoError(t, c.timed())
	}
	require.GreaterOrEqual(t, s.cpu(), before)
	require.NoError(t, trial.end())
	require.Error(t, trial.callers[0].timed(), "closed")
	require.NoError(t, trial.end())
	require.NoError(t, s.stop())
	require.NoError(t, s.stop())
	require.Zero(t, s.cpu())
}

func TestHTTPRemarks(t *testing.T) {
	row := &report.Row{}
	add := func(engine, variant string, cpu float64) {
		r := report.NewRound()
		r[report.CPUPerOp] = cpu
		row.Series = append(row.Series, report.Series{Engine: engine, Variant: variant, Rounds: []report.Round{r}})
	}
	require.Empty(t, httpRemarks(row))
	add("floor", "", 10_000)
	add("floor", "yield first", 11_000)
	add(Turnstile, "select", 12_000)
	add(Turnstile, "select, yield first", 10_800)
	require.Equal(t, []string{
		"CPU per request with a yield to without, no pick: 1.1 ×",
		"CPU per request with a yield to without, select: 0.9 ×; the pick alone, against the floors: 2.0 µs without, -200 ns with",
	}, httpRemarks(row))
}
