package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// exchange is one request and what becomes of it. Its fields belong to the
// goroutine that serves the request; the workers are tried one after the other.
type exchange struct {
	p      *Proxy
	w      http.ResponseWriter
	r      *http.Request
	id     string // the same everywhere; see flight.begin
	body   []byte
	prompt *prompt.Request
	line   *Line  // of its model
	asked  string // the class that was asked for

	waiting *time.Timer // ends the wait for a turn; nil once that has come, or if only the timeout does

	pulse *pulse // nil if no comments are sent

	came    time.Time
	booked  time.Time // zero until a booking was made
	first   time.Time // zero until the first token came
	tries   int
	tried   []uint64      // workers at which it failed
	faults  int           // of them, those that had been sound
	after   time.Duration // least Retry-After of theirs; 0: none
	class   string        // it was admitted in
	rank    sched.RankID
	cached  int64
	tokens  int64
	status  int   // what the client was told, or statusClientGone
	problem error // why the answer was not what was asked for
}

// completion returns the handler of one kind of completion.
func (p *Proxy) completion(read func([]byte) (*prompt.Request, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{p: p, w: w, r: r, came: time.Now(), id: p.flight.begin(r.Header.Get("X-Request-Id"))}
		defer p.flight.end(x.id)
		defer func() {
			if x.pulse != nil {
				x.pulse.end()
			}
		}()
		defer x.tell() // also when an answer breaks off, which is a panic
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			x.refuse(&refusal{status: http.StatusMethodNotAllowed, kind: kindRequest, code: "method_not_allowed",
				message: "method " + r.Method + ": must be POST"})
			return
		}
		if err := x.serve(read); err != nil {
			x.problem = err
			f := refusalFor(err)
			if full := new(sched.Error); f.status == http.StatusTooManyRequests && errors.As(err, &full) {
				f.retryAfter = x.line.waits.retryAfter(x.line.Scheduler, full.Class, time.Now())
			}
			if x.after > 0 && f.status != http.StatusGatewayTimeout {
				f.retryAfter = int(x.after / time.Second) // the workers' own word
			}
			x.refuse(f)
		}
	}
}

func (x *exchange) refuse(f *refusal) {
	x.status = f.status
	if f.status == statusClientGone {
		return
	}
	x.w.Header().Set("X-Request-Id", x.id)
	if x.tries > 0 {
		x.w.Header().Set(HeaderTries, strconv.Itoa(x.tries))
	}
	if x.p.closing.Load() {
		x.w.Header().Set("Connection", "close") // the next request is better off elsewhere
	}
	refuse(x.w, f)
}

// serve returns an error if nothing was answered yet.
func (x *exchange) serve(read func([]byte) (*prompt.Request, error)) error {
	request := &sched.Request{ID: x.id}
	wait, timeout, err := steer(x.r.Header, request)
	if err != nil {
		return err
	}
	if timeout == 0 || timeout > x.p.Timeout {
		timeout = x.p.Timeout
	}
	x.asked = request.Class
	if x.body, err = x.readBody(); err != nil {
		return err
	}
	if x.prompt, err = read(x.body); err != nil {
		return err
	}
	if x.prompt.Stream && x.p.KeepAlive > 0 {
		x.pulse = newPulse(x.w, x.id, x.p.KeepAlive)
		x.w = x.pulse
	}
	if x.line = x.p.Lines.Line(x.prompt.Model); x.line == nil && x.prompt.Model == "" {
		return &prompt.FieldError{Field: "model", Rule: "must name a model: there are several"}
	}
	if x.line == nil || !serves(x.line, x.prompt.Model) {
		x.refuse(unknownModel(x.prompt.Model))
		return nil
	}
	if len(x.line.Fleet.Models()) > 0 && x.prompt.Model != "" {
		request.RequiredTaints = []string{fleet.ModelTaint(x.prompt.Model)}
	}
	request.ISL = x.prompt.Tokens
	request.ExpectedOSL = x.prompt.MaxTokens
	request.Blocks = x.prompt.Blocks
	request.Overlaps = x.line.Cache.Overlaps(x.prompt.Blocks)

	deadline := x.came.Add(timeout)
	ctx, cancel := context.WithDeadline(x.r.Context(), deadline)
	defer cancel()
	// A client that does not read would else hold its place as long as it likes. A
	// second is for the refusal of one that was too late.
	control := http.NewResponseController(x.w)
	_ = control.SetWriteDeadline(deadline.Add(time.Second))
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	return x.inTime(ctx, wait, request)
}

// errWaited is why a request ends that has waited as long as it may.
var errWaited = errors.New("the request has waited for its turn as long as it may")

// inTime has the request wait for its turn no longer than it may. That is a bound and
// no due time: it does not move the request forward in its class.
func (x *exchange) inTime(whole context.Context, wait time.Duration, request *sched.Request) error {
	if wait == 0 {
		return x.anywhere(whole, request)
	}
	ctx, cancel := context.WithCancelCause(whole)
	defer cancel(nil)
	timer := time.AfterFunc(wait-time.Since(x.came), func() { cancel(errWaited) })
	defer timer.Stop()
	x.waiting = timer
	err := x.anywhere(ctx, request)
	if err != nil && !errors.Is(err, errWaited) && errors.Is(context.Cause(ctx), errWaited) {
		return fmt.Errorf("%w: %w", errWaited, err)
	}
	return err
}

// anywhere tries all workers before it gives up: those that are set aside last.
func (x *exchange) anywhere(ctx context.Context, request *sched.Request) error {
	var failed error
	for {
		before := len(x.tried)
		request.Excluded = x.tried
		err := x.line.Scheduler.Do(ctx, request, x.try)
		nowhere := errors.Is(err, sched.ErrOverloaded) || errors.Is(err, sched.ErrNoEndpoints)
		stuck := failed != nil && len(x.tried) == before
		failed = errors.Join(failed, err)
		switch {
		case err == nil, !nowhere:
			return err
		case stuck, !x.line.Fleet.Recall(x.tried):
			return failed
		}
	}
}

// readBody reads the whole body before anything is booked, so that a slow client
// holds nothing.
func (x *exchange) readBody() ([]byte, error) {
	control := http.NewResponseController(x.w)
	_ = control.SetReadDeadline(x.came.Add(x.p.BodyTimeout)) // refused by recorders in tests only
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, x.p.MaxBody))
	_ = control.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &large):
		return body, err
	case x.r.Context().Err() != nil:
		return nil, context.Canceled
	default:
		return nil, fmt.Errorf("%w: %w", &prompt.FieldError{Rule: "the body could not be read"}, err)
	}
}

// tell tells what became of the request.
func (x *exchange) tell() {
	if x.p.Count != nil {
		x.p.Count(x.outcome())
	}
	x.log()
}

// log tells of the request in one line.
func (x *exchange) log() {
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.String("id", x.id), slog.Int("status", x.status), slog.Duration("took", time.Since(x.came)),
	}
	if x.prompt != nil {
		attrs = append(attrs, slog.Int64("prompt_tokens", x.prompt.Tokens))
	}
	if x.asked != "" {
		attrs = append(attrs, slog.String("class_asked", x.asked))
		if x.classUnknown() {
			level = slog.LevelWarn
			attrs = append(attrs, slog.Bool("class_unknown", true))
		}
	}
	if x.tries > 0 {
		attrs = append(attrs, slog.String("class", x.class), slog.String("worker", x.rank.String()), slog.Int("tries", x.tries),
			slog.Int64("cached_tokens", x.cached), slog.Duration("waited", x.booked.Sub(x.came)))
	}
	if !x.first.IsZero() {
		attrs = append(attrs, slog.Duration("first_token", x.first.Sub(x.came)), slog.Int64("events", x.tokens))
	}
	if x.problem == nil && x.r.Context().Err() != nil {
		attrs = append(attrs, slog.String("problem", "the client went away"))
	}
	if x.problem != nil {
		attrs = append(attrs, slog.Any("problem", x.problem))
	}
	if x.status == 0 || x.status >= http.StatusInternalServerError || x.problem != nil && x.status/100 == 2 {
		level = slog.LevelWarn
	}
	x.p.Log.LogAttrs(context.WithoutCancel(x.r.Context()), level, x.r.URL.Path, attrs...)
}
