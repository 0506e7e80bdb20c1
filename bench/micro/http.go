package micro

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/report"
)

// The http row: does it save or cost CPU to yield before an inline pick? The pick
// is made in the handlers of a net/http server in a process of its own, over many
// keep-alive connections; CPU is that of the server.

const (
	httpConnections = 256
	// shortestHTTP is the shortest round: asking the server for its CPU time takes a
	// few milliseconds while it is busy.
	shortestHTTP = 400 * time.Millisecond
	yielding     = "yield first"
)

// httpPicks are what handlers do: nothing, an advisory selection, or a booking
// that is released once the response is written.
var httpPicks = []struct{ name, engine, variant string }{
	{"none", "floor", ""},
	{"select", Turnstile, "select"},
	{"schedule", Turnstile, "schedule and release"},
}

func httpRow(engines []Engine) []Spec {
	for _, e := range engines {
		if e.Name == Turnstile {
			return []Spec{inHTTP(16)}
		}
	}
	return nil
}

func inHTTP(ranks int) Spec {
	spec := Spec{
		Scenario: "http", Weight: 15, least: shortestHTTP, Callers: httpConnections, Ranks: ranks,
		About:  "one GET over a keep-alive connection, the pick inline in its handler; CPU of the server's process alone",
		remark: httpRemarks,
	}
	server := &server{ranks: ranks}
	for _, pick := range httpPicks {
		for _, yield := range []bool{false, true} {
			path, variant := "/"+pick.name, pick.variant
			if yield {
				path, variant = "/yield"+path, strings.TrimPrefix(variant+", "+yielding, ", ")
			}
			spec.contenders = append(spec.contenders, contender{
				engine: pick.engine, variant: variant, done: server.stop,
				run: func(ctx context.Context, s Settings) (*outcome, error) {
					t, err := server.trial(ctx, path)
					if err != nil {
						return nil, err
					}
					return drive(ctx, t, s.Duration)
				},
			})
		}
	}
	return spec
}

// httpRemarks says what a yield does, and what a pick takes with it and without.
func httpRemarks(r *report.Row) []string {
	cpu := func(engine, variant string) float64 {
		return median(r, key{engine, strings.TrimPrefix(variant, ", ")}, report.CPUPerOp)
	}
	var out []string
	floor, yielded := cpu("floor", ""), cpu("floor", yielding)
	for _, pick := range httpPicks {
		without, with := cpu(pick.engine, pick.variant), cpu(pick.engine, pick.variant+", "+yielding)
		if !(without > 0 && with > 0) { // one is not known
			continue
		}
		line := fmt.Sprintf("CPU per request with a yield to without, %s: %s", orElse(pick.variant, "no pick"), report.Times(with/without))
		if pick.name != "none" && floor > 0 && yielded > 0 {
			line += fmt.Sprintf("; the pick alone, against the floors: %s without, %s with", signed(without-floor), signed(with-yielded))
		}
		out = append(out, line)
	}
	return out
}

func signed(nanos float64) string {
	if nanos < 0 {
		return "-" + report.Nanos(-nanos)
	}
	return report.Nanos(nanos)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// server is the process that serves; it is started for the first trial.
type server struct {
	ranks   int
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	address string
}

func (s *server) start() error {
	if s.cmd != nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// It ends when its input does: with this process, at the latest.
	cmd := exec.Command(self) //nolint:noctx // see above
	cmd.Env = append(os.Environ(), serverVariable+"="+strconv.Itoa(s.ranks))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.in, s.out = cmd, in, bufio.NewReader(out)
	s.address, err = s.line()
	return err
}

func (s *server) line() (string, error) {
	text, err := s.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the server does not answer: %w", err)
	}
	return strings.TrimSpace(text), nil
}

// stop ends the server, if it runs.
func (s *server) stop() error {
	if s.cmd == nil {
		return nil
	}
	err := errors.Join(s.in.Close(), s.cmd.Wait())
	s.cmd = nil
	return err
}

// cpu is the CPU time that the server has used; 0 if it does not tell.
func (s *server) cpu() time.Duration {
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		return 0
	}
	text, err := s.line()
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n)
}

// trial is one request after the other on each of the connections.
func (s *server) trial(ctx context.Context, path string) (*trial, error) {
	if err := s.start(); err != nil {
		return nil, err
	}
	t := &trial{cpu: s.cpu}
	var conns []net.Conn
	t.end = func() error {
		var err error
		for _, c := range conns {
			if e := c.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
				err = e
			}
		}
		return err
	}
	t.abort = func() { _ = t.end() }
	var dialer net.Dialer
	for i := range httpConnections {
		conn, err := dialer.DialContext(ctx, "tcp", s.address)
		if err != nil {
			return nil, errors.Join(err, t.end())
		}
		conns = append(conns, conn)
		get := fmt.Appendf(nil, "GET %s/%d HTTP/1.1\r\nHost: %s\r\n\r\n", path, i, s.address)
		replies := bufio.NewReader(conn)
		t.callers = append(t.callers, caller{timed: func() error {
			if _, err := conn.Write(get); err != nil {
				return err
			}
			return readReply(replies)
		}})
	}
	return t, nil
}

// readReply reads a response and drops it. It is as simple as our server's
// responses allow, to leave the cores to the server.
func readReply(r *bufio.Reader) error {
	status, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("the server says %q", bytes.TrimSpace(status))
	}
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			_, err := r.Discard(length)
			return err
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
	}
}
