package script

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// Setup is what a script asks of an engine. Every value is meant as it stands:
// a zero is a zero and no default, so that BlockSize 0 is invalid. Ties always
// go to the lowest rank.
type Setup struct {
	BlockSize     int
	TTL           time.Duration
	OverlapCredit float64
	PrefillScale  float64
	CreditDecay   float64
	RequestWeight float64
	// Selector is kv, round-robin or least-loaded.
	Selector string
	// Role is both or decode.
	Role string
	// PolicyYAML is nil when the script gives no policy.
	PolicyYAML []byte
	Clock      clock.Clock
	// OnDecision must be called for each decision, in decision order.
	OnDecision func(sched.Decision)
	// Fleet, if not nil, is told that there is something to tell the peers.
	Fleet sched.Fleet
}

// Factory makes an engine for a script.
type Factory func(Setup) (engine.Engine, error)

// commandTimeout is how long, in real time, a command may take. A sound engine
// needs microseconds: a script that runs into it has lost a wake-up.
const commandTimeout = 30 * time.Second

// Runner runs the commands of one script. It is not safe for concurrent use.
type Runner struct {
	factory Factory
	timeout time.Duration
	session *session
}

// New returns a runner that makes its engines with factory.
func New(factory Factory) *Runner {
	return &Runner{factory: factory, timeout: commandTimeout}
}

// Run runs one command and returns its output, without a final newline. An
// error means that the script is malformed or that the engine does not answer;
// it names file and line.
func (r *Runner) Run(d *datadriven.TestData) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	lines, err := r.run(ctx, d)
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", d.Pos, d.Cmd, err)
	}
	if len(lines) == 0 {
		return "ok", nil
	}
	return strings.Join(lines, "\n"), nil
}

// Close ends the engine and every call that waits in it.
func (r *Runner) Close() error {
	if r.session == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	err := r.session.end(ctx)
	r.session = nil
	return err
}

// command does one command. What it returns is printed before the decisions
// that it caused.
type command func(*session, context.Context, *args) ([]string, error)

var commands = map[string]command{
	"worker":        (*session).worker,
	"remove-worker": (*session).removeWorker,
	"drain-worker":  (*session).drainWorker,
	"set-aside":     (*session).setAside,
	"overloaded":    (*session).overloaded,
	"available":     (*session).available,
	"schedule":      (*session).schedule,
	"select":        (*session).selectRank,
	"prefill-done":  (*session).prefillDone,
	"release":       (*session).release,
	"touch":         (*session).touch,
	"output-block":  (*session).outputBlock,
	"transfer":      (*session).transfer,
	"cancel":        (*session).cancel,
	"advance":       (*session).advance,
	"recheck":       (*session).recheck,
	"close":         (*session).close,
	"loads":         (*session).loads,
	"queue":         (*session).queue,
}

func (r *Runner) run(ctx context.Context, d *datadriven.TestData) ([]string, error) {
	a := newArgs(d.CmdArgs)
	if d.Cmd == "new" {
		return r.renew(ctx, a, d.Input)
	}
	do, known := commands[d.Cmd]
	switch {
	case d.Cmd == "profile":
		do = profile(d.Input)
	case d.Cmd == "workers":
		do = workers(d.Input)
	case !known:
		return nil, errors.New("unknown command")
	case d.Input != "":
		return nil, fmt.Errorf("takes no input lines, has %q", firstLine(d.Input))
	}
	if r.session == nil {
		return nil, errors.New("there is no scheduler yet: begin with new")
	}
	return r.session.do(ctx, a, do)
}

// renew replaces the engine, unless there is a fault in what is asked for.
func (r *Runner) renew(ctx context.Context, a *args, policy string) ([]string, error) {
	setup := Setup{
		BlockSize:     int(a.int("block", 16)),
		OverlapCredit: a.float("overlap-credit", 1),
		PrefillScale:  a.float("prefill-scale", 1),
		CreditDecay:   a.float("credit-decay", 0),
		RequestWeight: a.float("request-weight", 0),
		Selector:      "kv",
		Role:          "both",
	}
	setup.TTL, _ = a.duration("ttl")
	if s, ok := a.text("selector"); ok {
		setup.Selector = s
	}
	if s, ok := a.text("role"); ok {
		setup.Role = s
	}
	if policy != "" {
		setup.PolicyYAML = []byte(policy)
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	if a.invalid {
		return resultLines(sched.ErrInvalid), nil
	}
	next, err := newSession(r.factory, setup)
	if err != nil {
		return resultLines(err), nil
	}
	previous := r.session
	r.session = next
	if previous == nil {
		return nil, nil
	}
	return nil, previous.end(ctx)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
