// Command gateway is an OpenAI-compatible reverse proxy that spreads requests over
// inference engines with Turnstile: an example to read, and to start from.
//
//	go run ./examples/gateway -demo                                  # three simulated engines inside
//	gateway -backend http://gpu-1:8000 -backend http://gpu-2:8000    # in front of real ones
//	gateway -backends backends.yaml -policy policy.yaml              # files, taken up when they change
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	listen       string
	backends     []fleet.Backend
	adminListen  string
	keepAlive    time.Duration
	backendsFile string
	policyFile   string
	model        string
	blockSize    int64
	cacheBlocks  int
	prefillRate  float64
	timeout      time.Duration
	firstByte    time.Duration
	maxBatched   int64
	drain        time.Duration
	maxBody      int64
	tries        int
	health       fleet.Config
	checks       time.Duration // between them
	reload       time.Duration
	demo         bool
	replicas     replicaOptions
	verbose      bool
}

func parse(args []string, usage io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("gateway", flag.ContinueOnError)
	f.SetOutput(usage)
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address to serve on")
	f.StringVar(&o.adminListen, "admin-listen", "", "address to serve /status and /metrics on, instead of that of -listen")
	f.Func("backend", "`URL` of an inference engine; may be repeated", func(url string) error {
		o.backends = append(o.backends, fleet.Backend{URL: url})
		return nil
	})
	f.StringVar(&o.backendsFile, "backends", "", "YAML `file` of inference engines, taken up when it changes")
	f.StringVar(&o.policyFile, "policy", "", "policy `file`, taken up when it changes; without one no request waits, but with -demo its own policy.yaml holds")
	f.StringVar(&o.model, "model", "", "`name` of the model whose profile is taken from the policy file")
	f.Int64Var(&o.blockSize, "block-size", 16, "`tokens` in a KV block of the engines")
	f.IntVar(&o.cacheBlocks, "cache-blocks", 65536, "prompt `blocks` remembered for each rank")
	f.Int64Var(&o.maxBatched, "max-batched-tokens", 8192, "`tokens` in a forward pass of the engines, unless the backends file says; scales prefill_busy_threshold_frac")
	f.Float64Var(&o.prefillRate, "prefill-rate", 10000,
		"prompt `tokens` that a rank computes in a second: lets the load of a prompt fade where no first token shows that it is computed; 0: unknown")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "longest time for a whole request")
	f.DurationVar(&o.drain, "drain", 30*time.Second, "longest time to finish requests when told to stop")
	f.DurationVar(&o.keepAlive, "keepalive-comments", 0, "time after which a comment line is sent on a stream that still waits, and again; 0: none")
	f.Int64Var(&o.maxBody, "max-body", 32<<20, "largest request body, in `bytes`")
	f.DurationVar(&o.firstByte, "first-byte-timeout", 0,
		"longest wait for the first byte of an answer, after which another worker is tried; 0: 1m for a stream, half of -timeout for a plain answer, which shows none until it is whole")
	f.IntVar(&o.tries, "tries", 4, "`workers` that were sound until then at which a request may fail; others that fail do not count")
	f.StringVar(&o.health.HealthPath, "health-path", "/health", "`path` by which the health of backends is checked")
	f.DurationVar(&o.checks, "health-interval", 5*time.Second, "time between health checks")
	f.DurationVar(&o.health.Timeout, "health-timeout", 2*time.Second, "longest time that a health check may take")
	f.IntVar(&o.health.Failures, "health-failures", 3, "failed `checks` in a row after which a backend gets nothing new")
	f.IntVar(&o.health.Successes, "health-successes", 1, "successful `checks` in a row that bring it back")
	f.DurationVar(&o.reload, "reload", 2*time.Second, "how often the files are looked at")
	f.BoolVar(&o.demo, "demo", false, "start three simulated engines as backends, under a policy of two classes unless -policy says else")
	o.replicas.flags(f)
	f.BoolVar(&o.verbose, "v", false, "log every request")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	sources := 0
	for _, given := range []bool{len(o.backends) > 0, o.backendsFile != "", o.demo} {
		if given {
			sources++
		}
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case sources != 1:
		return nil, errors.New("exactly one of -backend, -backends and -demo must be given")
	case o.timeout <= 0, o.drain <= 0, o.checks <= 0, o.health.Timeout <= 0, o.reload <= 0:
		return nil, errors.New("-timeout, -drain, -health-interval, -health-timeout and -reload must be greater than 0")
	case o.maxBody <= 0, o.tries <= 0, o.health.Failures <= 0, o.health.Successes <= 0, o.cacheBlocks <= 0, o.maxBatched <= 0:
		return nil, errors.New("-max-body, -tries, -health-failures, -health-successes, -cache-blocks and -max-batched-tokens must be greater than 0")
	case o.prefillRate < 0, o.firstByte < 0, o.keepAlive < 0:
		return nil, errors.New("-prefill-rate, -first-byte-timeout and -keepalive-comments must not be negative")
	}
	return o, o.replicas.check(o.demo)
}

// run serves until ctx ends, and then until what was begun is finished.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	if o.demo {
		stop, err := o.startDemo(stdout)
		if err != nil {
			return err
		}
		defer stop()
	}
	if o.replicas.count > 1 {
		return o.serveCrowd(ctx, stdout, log)
	}
	g, err := newGateway(o, log)
	if err != nil {
		return err
	}
	return g.serve(ctx, stdout)
}
