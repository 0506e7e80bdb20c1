package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/reload"
)

// gateway holds the parts together: in each line of lines a
// scheduler decides, a fleet keeps its workers, a cache guesses which backend holds what; the
// proxy speaks HTTP.
type gateway struct {
	options  *options
	policy   []byte // the text that holds at first
	backends []byte // the backends file's, if there is one
	log      *slog.Logger
	lines    *lines
	proxy    *proxy.Proxy
	// replica and what carries it are nil if the gateway is alone.
	replica   *replicas.Replica
	transport replicas.Transport
	server    *http.Server
	admin     http.ServeMux // what is for operators
	killed    atomic.Bool
}

// refreshAfter is the wait after which a request's overlap is looked up again: by
// then those before it have filled the caches.
const refreshAfter = 100 * time.Millisecond

// recentEvents is how many decisions the status page shows.
const recentEvents = 100

func newGateway(o *options, log *slog.Logger) (_ *gateway, err error) {
	g := &gateway{options: o, log: log}
	file, err := g.readPolicy()
	if err != nil {
		return nil, err
	}
	if err := g.readBackends(); err != nil {
		return nil, err
	}
	if g.replica, g.transport, err = o.replicas.open(log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			g.leave()
		}
	}()
	g.lines = newLines(o, file, log)
	if g.replica != nil {
		// A replica tells of one scheduler.
		g.lines.whole, g.lines.id, g.lines.more = true, workerID, []sched.Option{sched.WithFleet(g.replica)}
	}
	if err := g.lines.setBackends(o.backends); err != nil {
		if errors.Is(err, reload.ErrNoProfile) {
			err = inFile(o.policyFile, err)
		}
		return nil, err
	}
	registry := prometheus.NewRegistry()
	g.proxy = proxy.New(proxy.Config{
		Lines: g.lines, Reader: prompt.NewReader(o.blockSize), Count: newMetrics(g.lines, registry).count,
		BlockSize: o.blockSize, Timeout: o.timeout, FirstByte: o.firstByte, FirstByteWhole: o.firstByte,
		MaxBody: o.maxBody, Tries: o.tries, KeepAlive: o.keepAlive, Log: log,
	})
	if g.replica != nil {
		registry.MustRegister(replicaMetrics(g.replica)...)
	}
	g.admin.Handle("/metrics", promhttp.HandlerFor(prometheus.Gatherers{registry, g.lines}, promhttp.HandlerOpts{Registry: registry}))
	g.admin.Handle("/{$}", http.RedirectHandler("/status", http.StatusFound))
	g.admin.Handle("/status", http.HandlerFunc(g.lines.showStatus))
	g.admin.Handle("/status/", http.HandlerFunc(g.lines.showStatus))
	if o.adminListen == "" {
		for _, pattern := range []string{"/metrics", "/{$}", "/status", "/status/"} {
			g.proxy.Handle(pattern, &g.admin)
		}
	}
	return g, nil
}

// readPolicy reads the policy that holds at first.
func (g *gateway) readPolicy() (*policy.File, error) {
	o := g.options
	switch {
	case o.policyFile != "":
		text, err := os.ReadFile(o.policyFile)
		if err != nil {
			return nil, err
		}
		g.policy = text
	case o.demo:
		g.policy = demoPolicy
	default:
		return nil, nil
	}
	file, err := policy.Parse(g.policy)
	if err != nil {
		return nil, inFile(o.policyFile, err)
	}
	for _, warning := range file.Warnings {
		g.log.Warn("policy", "path", o.policyFile, "warning", warning)
	}
	return file, nil
}

// readBackends reads the backends of the first moment.
func (g *gateway) readBackends() (err error) {
	o := g.options
	if o.backendsFile == "" {
		return nil
	}
	if g.backends, err = os.ReadFile(o.backendsFile); err != nil {
		return err
	}
	if o.backends, err = fleet.Parse(g.backends); err != nil {
		return inFile(o.backendsFile, err)
	}
	return nil
}

// inFile puts the file's name before each fault.
func inFile(path string, err error) error {
	var faults []error
	for _, fault := range (reload.Event{Err: err}).Faults() {
		faults = append(faults, fmt.Errorf("%s: %w", path, fault))
	}
	return errors.Join(faults...)
}

// follow takes the files up when they change, until ctx ends.
func (g *gateway) follow(ctx context.Context, wg *sync.WaitGroup) {
	options := reload.Options{Interval: g.options.reload, Tell: g.reloaded}
	if path := g.options.policyFile; path != "" {
		o := options
		o.Current = g.policy
		wg.Go(func() { _ = reload.File(ctx, path, g.lines.setPolicy, o) })
	}
	if path := g.options.backendsFile; path != "" {
		o := options
		o.Current = g.backends
		wg.Go(func() {
			_ = reload.File(ctx, path, func(text []byte) error {
				backends, err := fleet.Parse(text)
				if err != nil {
					return err
				}
				return g.lines.setBackends(backends)
			}, o)
		})
	}
}

func (g *gateway) reloaded(e reload.Event) {
	if e.Err != nil {
		for _, fault := range e.Faults() {
			g.log.Error("file not taken: what was in force still is", "path", e.Path, "reason", fault)
		}
		return
	}
	g.log.Info("file taken", "path", e.Path)
	for _, warning := range e.Warnings {
		g.log.Warn("file taken", "path", e.Path, "warning", warning)
	}
}

// serve serves until ctx ends. Then new requests are refused, the waiters get their
// turn, and answers are finished, all within the drain time; what is left is cut off.
func (g *gateway) serve(ctx context.Context, stdout io.Writer) error {
	listener, err := g.listen(ctx)
	if err != nil {
		return err
	}
	return g.serveOn(ctx, listener, stdout)
}

// listen takes the address, when the gateway has what its peers cause.
func (g *gateway) listen(ctx context.Context) (net.Listener, error) {
	if g.replica != nil {
		if err := g.replica.Join(ctx, g.lines.Lines()[0].Scheduler); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", g.options.listen)
	if err != nil {
		g.leave()
		return nil, err
	}
	g.server = &http.Server{
		Handler: g.proxy, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
	}
	return listener, nil
}

// serveAdmin serves what is for operators on an address of its own, until the stop
// that it returns; without such an address it does nothing.
func (g *gateway) serveAdmin(stdout io.Writer) (stop func(), err error) {
	if g.options.adminListen == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", g.options.adminListen)
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler: &g.admin, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	fmt.Fprintf(stdout, "status and metrics on http://%s\n", listener.Addr())
	return func() {
		_ = server.Close()
		wg.Wait()
	}, nil
}

func (g *gateway) serveOn(ctx context.Context, listener net.Listener, stdout io.Writer) (err error) {
	server := g.server
	stopAdmin, err := g.serveAdmin(stdout)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer stopAdmin()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { g.lines.run(background) })
	g.follow(background, &wg)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	url := "http://" + listener.Addr().String()
	fmt.Fprintf(stdout, "serving on %s\n", url)
	if g.options.demo {
		g.options.demoHint(stdout, url)
	}
	select {
	case err = <-served:
	case <-ctx.Done():
		fmt.Fprintln(stdout, "stopping: finishing what was begun")
		err = g.drain(server)
	}
	stop()
	wg.Wait()
	g.proxy.CloseIdle()
	g.leave()
	return err
}

// leave says good-bye to the peers.
func (g *gateway) leave() {
	if g.replica == nil {
		return
	}
	if err := g.replica.Close(); err != nil && !g.killed.Load() {
		g.log.Warn("replicas", "err", err)
	}
}

// kill ends the gateway as if its process had died: it says goodbye to no peer. For the demo.
func (g *gateway) kill() {
	if g.killed.CompareAndSwap(false, true) {
		_ = g.transport.Close()
		_ = g.server.Close()
	}
}

func (g *gateway) drain(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), g.options.drain)
	defer cancel()
	err := g.proxy.Shutdown(ctx)
	left := g.proxy.Serving()
	if closed := server.Shutdown(ctx); err == nil {
		err = closed
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not all was finished in %v: requests cut off: %d", g.options.drain, left)
	}
	return errors.Join(err, server.Close())
}
