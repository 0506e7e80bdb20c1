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
	"time"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// gateway holds the parts together: the scheduler decides, the fleet keeps its
// workers, the cache guesses who holds what, the proxy speaks HTTP.
type gateway struct {
	options   *options
	log       *slog.Logger
	scheduler *sched.Scheduler
	fleet     *fleet.Fleet
	proxy     *proxy.Proxy
}

// refreshAfter is the wait after which a request's overlap is looked up again: by
// then those before it have filled the caches.
const refreshAfter = 100 * time.Millisecond

func newGateway(o *options, log *slog.Logger) (*gateway, error) {
	file, err := o.policy()
	if err != nil {
		return nil, err
	}
	cache := prompt.NewCache(o.cacheBlocks)
	s, err := sched.New(
		sched.Config{BlockSize: o.blockSize, Policy: file, Model: o.model, RefreshAfter: refreshAfter},
		sched.WithOverlapRefresher(func(_ context.Context, blocks []uint64) ([]sched.Overlap, error) {
			return cache.Overlaps(blocks), nil
		}),
		sched.WithPrefillEstimator(func(work sched.PrefillWork) (time.Duration, bool) {
			if o.prefillRate == 0 {
				return 0, false
			}
			return time.Duration(float64(work.Tokens) / o.prefillRate * float64(time.Second)), true
		}),
	)
	if err != nil {
		return nil, err
	}
	health := o.health
	health.Down, health.Log = cache.Forget, log
	g := &gateway{options: o, log: log, scheduler: s, fleet: fleet.New(s, health)}
	backends := o.backends
	if o.backendsFile != "" {
		text, err := os.ReadFile(o.backendsFile)
		if err != nil {
			return nil, err
		}
		if backends, err = fleet.Parse(text); err != nil {
			return nil, fmt.Errorf("%s: %w", o.backendsFile, err)
		}
	}
	if err := g.fleet.Set(backends); err != nil {
		return nil, err
	}
	g.proxy = proxy.New(proxy.Config{
		Scheduler: s, Fleet: g.fleet, Reader: prompt.NewReader(o.blockSize), Cache: cache,
		BlockSize: o.blockSize, Timeout: o.timeout, MaxBody: o.maxBody, Tries: o.tries, Log: log,
	})
	return g, nil
}

// policy reads the policy that holds at first.
func (o *options) policy() (*policy.File, error) {
	switch {
	case o.policyFile != "":
		text, err := os.ReadFile(o.policyFile)
		if err != nil {
			return nil, err
		}
		file, err := policy.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.policyFile, err)
		}
		return file, nil
	case o.demo:
		return policy.Parse(demoPolicy)
	default:
		return nil, nil
	}
}

// serve serves until ctx ends. Then new requests are refused, those who wait get
// their turn, and answers are finished, all within the drain time; what is left is
// cut off.
func (g *gateway) serve(ctx context.Context, stdout io.Writer) error {
	listener, err := net.Listen("tcp", g.options.listen)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: g.proxy, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { g.fleet.Run(background) })
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "serving on http://%s\n", listener.Addr())
	select {
	case err = <-served:
	case <-ctx.Done():
		fmt.Fprintln(stdout, "stopping: finishing what was begun")
		err = g.drain(server)
	}
	stop()
	wg.Wait()
	g.proxy.CloseIdle()
	return err
}

func (g *gateway) drain(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), g.options.drain)
	defer cancel()
	err := errors.Join(g.proxy.Shutdown(ctx), server.Shutdown(ctx))
	if err != nil {
		err = fmt.Errorf("not all was finished in %v: %w", g.options.drain, err)
	}
	return errors.Join(err, server.Close())
}
