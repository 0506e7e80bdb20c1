package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/integrations/replicas/protocol"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Replicas runs scripts about several schedulers that tell each other what load they
// cause, over a network that the script cuts, delays and freezes. Beside the commands
// of Runner, each of which stands after at and the name of a replica, there are:
//
//	replicas names=(A,B)   new replicas, with the arguments and the policy of new
//	at A COMMAND …         a command at one of them
//	advance by=5ms         time passes for all
//	delay by=5ms           each message that is sent from now on is so long on its way
//	lose next=2            the next messages are lost, each copy counting
//	cut A B                nothing gets from A to B or from B to A; with one-way, from A to B
//	heal                   all cuts are over
//	freeze A, thaw A       A stands still: it takes no message and sends none; what is sent to it waits
//	kill A, restart A      A is gone without a word, its bookings with it; another of its name starts
//	bye A                  A says good-bye and goes
//	peers                  what each holds of the others
//
// Lines are those of the replica named before them. Time stands still but for advance;
// what is sent without delay arrives within the same command.
type Replicas struct {
	factory Factory
	timeout time.Duration
	members []*member
	now     time.Duration
	flying  []flight // in the order of arrival
	delay   time.Duration
	lose    int
	cuts    map[[2]string]bool
	started uint64

	args   []datadriven.CmdArg // of replicas, for those that start again
	policy string
}

// member is a replica. It has no runner once it is gone.
type member struct {
	name    string
	runner  *Runner
	peers   peering
	core    *protocol.Core
	mark    uint64
	moved   atomic.Bool // the fleet was told that the own load has moved
	frozen  bool
	waiting []protocol.Message // while frozen
}

// peering is what a replica needs of an engine.
type peering interface {
	OwnLoads(dst []sched.CausedLoad, mark uint64) ([]sched.CausedLoad, uint64)
	SetPeerLoads(peer sched.PeerID, loads []sched.CausedLoad)
	DropPeer(peer sched.PeerID)
}

type flight struct {
	at      time.Duration
	to      string
	message protocol.Message
}

// Changed implements sched.Fleet.
func (m *member) Changed() { m.moved.Store(true) }

// NewReplicas returns a runner whose replicas are made by factory, which must heed
// Setup.Fleet.
func NewReplicas(factory Factory) *Replicas {
	return &Replicas{factory: factory, timeout: commandTimeout}
}

// Run runs one command and returns its output, as Runner.Run does.
func (g *Replicas) Run(d *datadriven.TestData) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	lines, err := g.run(ctx, d)
	if err == nil {
		var later []string
		later, err = g.rest(ctx)
		lines = append(lines, later...)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", d.Pos, d.Cmd, err)
	}
	if len(lines) == 0 {
		return "ok", nil
	}
	return strings.Join(lines, "\n"), nil
}

// Close ends all replicas.
func (g *Replicas) Close() error {
	var errs []error
	for _, m := range g.members {
		if m.runner != nil {
			errs = append(errs, m.runner.Close())
		}
	}
	g.members = nil
	return errors.Join(errs...)
}

func (g *Replicas) run(ctx context.Context, d *datadriven.TestData) ([]string, error) {
	if d.Cmd == "replicas" {
		return g.renew(ctx, d)
	}
	if len(g.members) == 0 {
		return nil, errors.New("there are no replicas yet: begin with replicas")
	}
	if d.Cmd == "at" {
		return g.at(ctx, d)
	}
	if d.Input != "" {
		return nil, fmt.Errorf("takes no input lines, has %q", firstLine(d.Input))
	}
	var names []string
	var rest []datadriven.CmdArg
	for _, arg := range d.CmdArgs {
		if len(arg.Vals) == 0 && arg.Key != "one-way" {
			names = append(names, arg.Key)
		} else {
			rest = append(rest, arg)
		}
	}
	a := newArgs(rest)
	switch d.Cmd {
	case "advance":
		return g.advance(ctx, a, names)
	case "delay":
		g.delay, _ = a.duration("by")
	case "lose":
		g.lose += int(a.int("next", 1))
	case "cut":
		if len(names) != 2 {
			return nil, errors.New("needs the names of two replicas")
		}
		g.cuts[[2]string{names[0], names[1]}] = true
		g.cuts[[2]string{names[1], names[0]}] = !a.flag("one-way")
		return nil, a.done()
	case "heal":
		clear(g.cuts)
	case "peers":
		return g.show(), a.done()
	case "freeze", "thaw", "kill", "restart", "bye":
		if len(names) != 1 {
			return nil, errors.New("needs the name of one replica")
		}
		m := g.find(names[0])
		if m == nil {
			return nil, fmt.Errorf("there is no replica %s", names[0])
		}
		return nil, errors.Join(a.done(), g.change(ctx, d.Cmd, m))
	default:
		return nil, errors.New("unknown command")
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("unknown argument %s", names[0])
	}
	return nil, a.done()
}

// renew makes new replicas.
func (g *Replicas) renew(ctx context.Context, d *datadriven.TestData) ([]string, error) {
	if err := g.Close(); err != nil {
		return nil, err
	}
	*g = Replicas{factory: g.factory, timeout: g.timeout, cuts: map[[2]string]bool{}, policy: d.Input}
	var names []string
	for _, arg := range d.CmdArgs {
		if arg.Key == "names" {
			names = arg.Vals
		} else {
			g.args = append(g.args, arg)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("argument names is missing")
	}
	for _, name := range names {
		m := &member{name: strings.TrimSpace(name)}
		g.members = append(g.members, m)
		if err := g.start(ctx, m); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// start starts a replica, as one that has just come.
func (g *Replicas) start(ctx context.Context, m *member) error {
	r := New(func(setup Setup) (engine.Engine, error) {
		setup.Fleet = m
		e, err := g.factory(setup)
		if err == nil {
			var able bool
			if m.peers, able = e.(peering); !able {
				return e, errors.New("the engine has no peers")
			}
		}
		return e, err
	})
	lines, err := r.renew(ctx, newArgs(g.args), g.policy)
	if err == nil && len(lines) > 0 {
		err = errors.New(strings.Join(lines, ", "))
	}
	if err != nil {
		return err
	}
	g.started++
	m.runner, m.mark, m.frozen, m.waiting = r, 0, false, nil
	m.core = protocol.New(protocol.Config{Name: m.name, Incarnation: g.started})
	g.did(m, m.core.Start(g.now))
	return nil
}

func (g *Replicas) find(name string) *member {
	for _, m := range g.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// at runs a command at one replica.
func (g *Replicas) at(ctx context.Context, d *datadriven.TestData) ([]string, error) {
	if len(d.CmdArgs) < 2 {
		return nil, errors.New("needs a name and a command")
	}
	m := g.find(d.CmdArgs[0].Key)
	if m == nil || m.runner == nil {
		return nil, fmt.Errorf("there is no replica %s", d.CmdArgs[0].Key)
	}
	command := *d
	command.Cmd, command.CmdArgs = d.CmdArgs[1].Key, d.CmdArgs[2:]
	if command.Cmd == "new" || command.Cmd == "advance" {
		return nil, fmt.Errorf("%s is for all", command.Cmd)
	}
	lines, err := m.runner.run(ctx, &command)
	return m.named(lines), err
}

func (m *member) named(lines []string) []string {
	for i := range lines {
		lines[i] = m.name + ": " + lines[i]
	}
	return lines
}

func (g *Replicas) change(ctx context.Context, how string, m *member) error {
	switch how {
	case "freeze":
		m.frozen = true
	case "thaw":
		m.frozen = false
		waiting := m.waiting
		m.waiting = nil
		for i := range waiting {
			g.did(m, m.core.Receive(g.now, &waiting[i]))
		}
	case "bye":
		g.did(m, m.core.Close())
		return g.end(m)
	case "kill":
		return g.end(m)
	case "restart":
		return errors.Join(g.end(m), g.start(ctx, m))
	}
	return nil
}

func (g *Replicas) end(m *member) error {
	if m.runner == nil {
		return nil
	}
	r := m.runner
	m.runner = nil
	return r.Close()
}

// did sends and applies what a core said.
func (g *Replicas) did(m *member, out protocol.Output) {
	for _, message := range out.Send {
		for _, to := range g.members {
			switch {
			case to == m || message.To != "" && message.To != to.name || g.cuts[[2]string{m.name, to.name}]:
			case g.lose > 0:
				g.lose--
			default:
				f := flight{g.now + g.delay, to.name, message}
				at := len(g.flying)
				for at > 0 && g.flying[at-1].at > f.at {
					at--
				}
				g.flying = slices.Insert(g.flying, at, f)
			}
		}
	}
	for i := range out.Effects {
		e := &out.Effects[i]
		if e.Drop {
			m.peers.DropPeer(sched.PeerID(e.Peer))
			continue
		}
		var loads []sched.CausedLoad
		for _, l := range e.Loads {
			loads = append(loads, sched.CausedLoad{
				Rank:          sched.RankID{Worker: l.Worker, Rank: l.Rank.Rank},
				PrefillTokens: l.Prefill, Blocks: l.Blocks, Requests: l.Requests, Version: l.Version,
			})
		}
		m.peers.SetPeerLoads(sched.PeerID(e.Peer), loads)
	}
	if out.Collect {
		g.collect(m)
	}
}

func (g *Replicas) collect(m *member) {
	var own []sched.CausedLoad
	own, m.mark = m.peers.OwnLoads(nil, m.mark)
	fades := false
	var loads []protocol.Load
	for i := range own {
		l := &own[i]
		fades = fades || l.Fades
		loads = append(loads, protocol.Load{
			Rank:    protocol.Rank{Worker: l.Rank.Worker, Rank: l.Rank.Rank},
			Prefill: l.PrefillTokens, Blocks: l.Blocks, Requests: l.Requests,
		})
	}
	g.did(m, m.core.Loads(g.now, loads, fades))
}

// rest has everything happen that can at this instant.
func (g *Replicas) rest(ctx context.Context) (lines []string, err error) {
	for again := true; again; {
		again = false
		for _, m := range g.members {
			if m.runner == nil {
				continue
			}
			settled, err := m.runner.session.do(ctx, newArgs(nil), forward(0))
			if err != nil {
				return nil, err
			}
			lines = append(lines, m.named(settled)...)
			if m.frozen {
				continue
			}
			if m.moved.Swap(false) {
				m.core.Changed()
			}
			if m.core.Next() <= g.now {
				again = true
				g.did(m, m.core.Tick(g.now))
			}
		}
		for len(g.flying) > 0 && g.flying[0].at <= g.now {
			again = true
			f := g.flying[0]
			g.flying = g.flying[1:]
			switch to := g.find(f.to); {
			case to.runner == nil:
			case to.frozen:
				to.waiting = append(to.waiting, f.message)
			default:
				g.did(to, to.core.Receive(g.now, &f.message))
			}
		}
	}
	return lines, nil
}

// advance moves all clocks, from one instant at which something is due to the next.
func (g *Replicas) advance(ctx context.Context, a *args, names []string) (lines []string, err error) {
	by, ok := a.duration("by")
	if !ok || by < 0 || len(names) > 0 {
		return nil, errors.New("needs by, which must not be negative, and nothing else")
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	for end := g.now + by; ; {
		at := end
		if len(g.flying) > 0 {
			at = min(at, g.flying[0].at)
		}
		for _, m := range g.members {
			if m.runner != nil && !m.frozen {
				at = min(at, m.core.Next())
			}
		}
		step := max(at, g.now) - g.now
		g.now += step
		for _, m := range g.members {
			if m.runner == nil {
				continue
			}
			moved, err := m.runner.session.do(ctx, newArgs(nil), forward(step))
			if err != nil {
				return nil, err
			}
			lines = append(lines, m.named(moved)...)
		}
		rested, err := g.rest(ctx)
		if err != nil {
			return nil, err
		}
		lines = append(lines, rested...)
		if g.now == end {
			return lines, nil
		}
	}
}

// show says what each replica holds of the others.
func (g *Replicas) show() (lines []string) {
	for _, m := range g.members {
		if m.runner == nil {
			lines = append(lines, m.name+": gone")
			continue
		}
		line := m.name + ":"
		if !m.core.Ready() {
			line += " joining"
		}
		for _, p := range m.core.Stats(g.now).Peers {
			line += fmt.Sprintf(" %s ranks=%d", p.Name, p.Ranks)
			if !p.Whole {
				line += " in part"
			}
		}
		lines = append(lines, line)
	}
	return lines
}
