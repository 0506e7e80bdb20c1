package micro

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/internal/cputime"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// serverVariable is set in the environment of a process that is to be the server
// of the http row, so that its CPU time is that of nothing else. It says how many
// ranks there are.
const serverVariable = "TURNSTILE_BENCH_HTTP_SERVER"

// ServeHTTP is called first in main. It returns false at once unless this process
// was started to be the server of the http row; then it serves until its standard
// input ends. It writes its address, and after each line it reads the CPU time it
// has used, in nanoseconds.
func ServeHTTP() bool {
	ranks, err := strconv.Atoi(os.Getenv(serverVariable))
	if err != nil {
		return false
	}
	// An interrupt from the terminal goes to both processes; that one ends this one.
	signal.Ignore(os.Interrupt)
	if err := serveHTTP(ranks, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "bench: server of the http row: %v\n", err)
		os.Exit(1)
	}
	return true
}

func serveHTTP(ranks int, in io.Reader, out io.Writer) error {
	runtime.GOMAXPROCS(Processors)
	eng, err := engine.NewSharded(sched.Config{BlockSize: blockSize})
	if err != nil {
		return err
	}
	if err := eng.SetWorkers(workers(ranks)); err != nil {
		return err
	}
	held, err := standing(eng, ranks, 0)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := &picker{engine: eng}
	for _, own := range prompts(httpConnections, ranks, 0) {
		h.requests = append(h.requests, own[0])
	}
	server := &http.Server{Handler: h} //nolint:gosec // no timeouts: its clients are ours, and a timer would be measured too
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	_, err = fmt.Fprintln(out, listener.Addr())
	for lines := bufio.NewScanner(in); err == nil && lines.Scan(); {
		_, err = fmt.Fprintln(out, int64(cputime.Now()))
	}
	err = errors.Join(err, server.Shutdown(context.Background()))
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return errors.Join(err, finish(eng, held))
}

// picker is a handler that does what a gateway does inline. The path says what,
// and for which of the connections: /select/17, or /yield/select/17.
type picker struct {
	engine   engine.Engine
	requests []sched.Request // of each connection; only read
}

// ServeHTTP implements http.Handler.
func (p *picker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, yield := strings.CutPrefix(r.URL.Path, "/yield")
	what, number, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	at, err := strconv.Atoi(number)
	if err != nil || at < 0 || at >= len(p.requests) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	if yield {
		runtime.Gosched()
	}
	request := &p.requests[at]
	var to sched.Placement
	switch what {
	case "none":
	case "select":
		to, err = p.engine.Select(r.Context(), request)
	case "schedule":
		var b engine.Booking
		if b, err = p.engine.Schedule(r.Context(), request); err == nil {
			to = b.Placement()
			defer func() { _ = b.Release() }()
		}
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, to.Endpoint+"\n") // a client that has gone is nothing to us
}
