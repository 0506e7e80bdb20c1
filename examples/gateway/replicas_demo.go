package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
)

// crowd is several gateways in one process, for the demo, behind one address that
// spreads requests over those that live, as a load balancer would.
type crowd struct {
	options *options
	log     *slog.Logger
	ctx     context.Context
	running sync.WaitGroup

	mu      sync.Mutex
	members []*crowdMember // guarded by mu
	next    int            // guarded by mu
	failed  error          // guarded by mu
}

type crowdMember struct {
	name    string
	gateway *gateway
	address *url.URL
	proxy   *httputil.ReverseProxy
	ended   chan struct{}
}

// serveCrowd serves -replicas gateways until ctx ends.
func (o *options) serveCrowd(ctx context.Context, stdout io.Writer, log *slog.Logger) (err error) {
	dir, err := os.MkdirTemp("", "turnstile-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.replicas.dir = dir
	c := &crowd{options: o, log: log, ctx: ctx}
	defer c.running.Wait()
	for i := range o.replicas.count {
		if err := c.start(string(rune('a' + i%26))); err != nil {
			c.stop()
			return err
		}
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		c.stop()
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /replicas/{name}/kill", c.kill)
	mux.HandleFunc("POST /replicas/{name}/revive", c.revive)
	mux.HandleFunc("GET /replicas", c.show)
	mux.HandleFunc("/", c.forward)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	address := "http://" + listener.Addr().String()
	fmt.Fprintf(stdout, "serving on %s\n", address)
	c.mu.Lock()
	for _, m := range c.members {
		fmt.Fprintf(stdout, "gateway %s on %s\n", m.name, m.address)
	}
	c.mu.Unlock()
	fmt.Fprintf(stdout, `
  curl %[1]s/replicas                      # what each knows of the others
  curl -X POST %[1]s/replicas/b/kill       # gateway b dies; /revive starts another of its name
`, address)
	o.demoHint(stdout, address)
	select {
	case err = <-served:
		c.stop()
	case <-ctx.Done(): // the gateways finish what was begun, by themselves
	}
	c.running.Wait()
	return errors.Join(err, server.Close(), c.failed)
}

// start starts a gateway of that name.
func (c *crowd) start(name string) error {
	o := *c.options
	o.listen, o.replicas.name = "127.0.0.1:0", name
	g, err := newGateway(&o, c.log)
	if err != nil {
		return err
	}
	listener, err := g.listen(c.ctx)
	if err != nil {
		return err
	}
	m := &crowdMember{
		name: name, gateway: g, address: &url.URL{Scheme: "http", Host: listener.Addr().String()}, ended: make(chan struct{}),
	}
	m.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(m.address) },
		FlushInterval: -1, // answers stream
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1024},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, fmt.Sprintf("gateway %s: %v", name, err), http.StatusBadGateway)
		},
	}
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	c.running.Go(func() {
		err := g.serveOn(c.ctx, listener, io.Discard)
		m.proxy.Transport.(*http.Transport).CloseIdleConnections() //nolint:errcheck // it is one
		c.mu.Lock()
		if err != nil && !g.killed.Load() {
			c.failed = errors.Join(c.failed, fmt.Errorf("gateway %s: %w", name, err))
		}
		for i := range c.members {
			if c.members[i] == m {
				c.members = append(c.members[:i:i], c.members[i+1:]...)
				break
			}
		}
		c.mu.Unlock()
		close(m.ended)
	})
	return nil
}

// stop kills all.
func (c *crowd) stop() {
	c.mu.Lock()
	members := c.members
	c.mu.Unlock()
	for _, m := range members {
		m.gateway.kill()
	}
}

func (c *crowd) find(name string) *crowdMember {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// forward has the next gateway answer.
func (c *crowd) forward(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	var m *crowdMember
	if len(c.members) > 0 {
		m = c.members[c.next%len(c.members)]
		c.next++
	}
	c.mu.Unlock()
	if m == nil {
		http.Error(w, "no gateway lives", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("X-Turnstile-Gateway", m.name)
	m.proxy.ServeHTTP(w, r)
}

func (c *crowd) kill(w http.ResponseWriter, r *http.Request) {
	m := c.find(r.PathValue("name"))
	if m == nil {
		http.Error(w, "no such gateway lives", http.StatusNotFound)
		return
	}
	m.gateway.kill()
	<-m.ended
	fmt.Fprintf(w, "gateway %s is dead\n", m.name)
}

func (c *crowd) revive(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if c.find(name) != nil {
		http.Error(w, "it lives", http.StatusConflict)
		return
	}
	if err := c.start(name); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, "gateway %s is back\n", name)
}

func (c *crowd) show(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	stats := make([]replicas.Stats, 0, len(c.members))
	for _, m := range c.members {
		stats = append(stats, m.gateway.replica.Stats())
	}
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(stats)
}
