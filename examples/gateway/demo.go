package main

import (
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/simengine"
)

// demoPolicy holds in the demo unless another policy is given.
//
//go:embed policy.yaml
var demoPolicy []byte

// startDemo starts three simulated engines on loopback and makes them the
// backends.
func (o *options) startDemo(stdout io.Writer) (stop func(), err error) {
	var servers []*http.Server
	stop = func() {
		for _, s := range servers {
			_ = s.Close()
		}
	}
	for range 3 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			stop()
			return nil, err
		}
		server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: simengine.New(simengine.Config{
			Model: "demo", PrefillPerToken: 100 * time.Microsecond, PerToken: 20 * time.Millisecond, BlockSize: o.blockSize,
		})}
		servers = append(servers, server)
		go func() { _ = server.Serve(listener) }()
		url := "http://" + listener.Addr().String()
		o.backends = append(o.backends, fleet.Backend{URL: url, MaxBatchedTokens: 8192})
		fmt.Fprintf(stdout, "simulated engine %d on %s\n", len(servers), url)
	}
	return stop, nil
}

// demoHint says what can be tried.
func (o *options) demoHint(stdout io.Writer, url string) {
	fmt.Fprintf(stdout, `
  curl -iN %[1]s/v1/chat/completions -d '{"model": "demo", "stream": true, "messages": [{"role": "user", "content": "Hello."}]}'
  curl -X POST %[2]s/kill     # engine 1 dies; /revive brings it back
  %[1]s/status and %[1]s/metrics show what goes on

`, url, o.backends[0].URL)
}
