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
			Model: "demo", PrefillPerToken: 500 * time.Microsecond, PerToken: 20 * time.Millisecond, BlockSize: o.blockSize,
		})}
		servers = append(servers, server)
		go func() { _ = server.Serve(listener) }()
		url := "http://" + listener.Addr().String()
		o.backends = append(o.backends, fleet.Backend{URL: url, MaxBatchedTokens: 8192})
		fmt.Fprintf(stdout, "simulated engine %d on %s\n", len(servers), url)
	}
	return stop, nil
}
