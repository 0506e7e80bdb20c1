package status_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/status"
)

// The page is mounted where one likes.
func ExampleNew() {
	recent := status.NewRecent(100)
	s, err := sched.New(sched.Config{BlockSize: 16}, sched.WithObserver(recent.Observe))
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/turnstile", status.New(s, status.Config{Recent: recent}))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/turnstile?view=json", http.NoBody))
	answer := w.Result()
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	fmt.Println(answer.StatusCode, answer.Header.Get("Content-Type"))
	// Output: 200 application/json
}
