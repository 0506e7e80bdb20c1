package embedded

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
	"github.com/seed-3c5df8a4/turnstile/integrations/replicas/overnats"
)

// Config describes a node.
type Config struct {
	// Name is the replica's, unique in its pool.
	Name string
	// Pool sets apart those that share a directory or a network; default "turnstile".
	// It is the name of the cluster and the prefix of the subjects.
	Pool string
	// Listen is where routes of peers are taken; default 127.0.0.1 and a free port.
	// Advertise is what the peers are told to use instead.
	Listen, Advertise string
	// Seeds are the addresses, host and port, of some peers' routes; one's own may be
	// among them. With them no directory is used.
	Seeds []string
	// Dir is the directory through which the nodes of one host find each other; default
	// turnstile-<user>/<pool> in the one for temporary files. It must belong to the user
	// alone.
	Dir string
	// Secret is what nodes must know to join. With a directory it is made and kept
	// there; without, it is needed unless Server sets another way to tell friends.
	Secret string
	// Server changes the server's options before it starts, Options those of the client.
	Server  func(*server.Options)
	Options []nats.Option
}

// Node is a server with the transport of one replica over it.
type Node struct {
	replicas.Transport
	server *server.Server
	dir    *directory // nil with seeds
	once   sync.Once
}

// user is the name that goes with secrets.
const user = "turnstile"

// startWithin bounds the start of the server.
const startWithin = 10 * time.Second

// Open starts a server and connects to it. It does not wait for peers.
func Open(config Config) (*Node, error) {
	config.Pool = cmp.Or(config.Pool, "turnstile")
	n := &Node{}
	if len(config.Seeds) == 0 {
		var err error
		if n.dir, err = openDirectory(&config); err != nil {
			return nil, fmt.Errorf("embedded: %w", err)
		}
		config.Secret = n.dir.secret
	}
	options, err := config.options()
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	if n.server, err = server.NewServer(options.Clone()); err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	n.server.Start()
	if err := n.open(&config, options); err != nil {
		n.stop()
		return nil, fmt.Errorf("embedded: %w", err)
	}
	return n, nil
}

func (n *Node) open(config *Config, options *server.Options) (err error) {
	if !n.server.ReadyForConnections(startWithin) {
		return errors.New("the server does not start")
	}
	if n.dir != nil {
		if err := n.dir.join(n.server, options, cmp.Or(config.Advertise, n.RouteAddr())); err != nil {
			return err
		}
	}
	client := url.URL{Scheme: "nats", Host: n.server.Addr().String()}
	if options.Username != "" {
		client.User = url.UserPassword(options.Username, options.Password)
	}
	n.Transport, err = overnats.Connect(overnats.Config{
		URL: client.String(), Name: config.Name, Subject: config.Pool, Options: append([]nats.Option{
			nats.IgnoreDiscoveredServers(), // its own server or none: the others' die with others
		}, config.Options...),
	})
	return err
}

// options returns those of the server.
func (c *Config) options() (*server.Options, error) {
	host, port := "127.0.0.1", server.RANDOM_PORT
	if c.Listen != "" {
		h, p, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return nil, err
		}
		if host = h; p != "0" {
			if port, err = strconv.Atoi(p); err != nil {
				return nil, fmt.Errorf("port %q: must be a number", p)
			}
		}
	}
	o := &server.Options{
		// A server that does not listen has no routes either, so it does, where only
		// this process knows the password.
		Host: "127.0.0.1", Port: server.RANDOM_PORT, Username: user, Password: rand.Text(),
		NoSigs: true, NoLog: true, DisableShortFirstPing: true,
		Cluster: server.ClusterOpts{
			Name: c.Pool, Host: host, Port: port, Advertise: c.Advertise,
			PoolSize:     -1, // one connection to a peer: one account, little traffic
			PingInterval: time.Second, MaxPingsOut: 2,
		},
	}
	if c.Secret != "" {
		o.Cluster.Username, o.Cluster.Password = user, c.Secret
	}
	for _, seed := range c.Seeds {
		o.Routes = append(o.Routes, routeURL(seed, c.Secret))
	}
	if c.Server != nil {
		c.Server(o)
	}
	if o.Cluster.Password == "" && o.Cluster.TLSConfig == nil {
		return nil, errors.New("nodes that are told of seeds need a secret, or TLS of Config.Server")
	}
	return o, nil
}

func routeURL(address, secret string) *url.URL {
	u := &url.URL{Scheme: "nats-route", Host: address}
	if secret != "" {
		u.User = url.UserPassword(user, secret)
	}
	return u
}

// RouteAddr returns where the routes of peers are taken.
func (n *Node) RouteAddr() string { return n.server.ClusterAddr().String() }

// Close ends the connection and the server. The replica of the node calls it.
func (n *Node) Close() error {
	err := replicas.ErrClosed
	n.once.Do(func() {
		err = n.Transport.Close()
		n.stop()
	})
	return err
}

func (n *Node) stop() {
	if n.dir != nil {
		n.dir.leave()
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// defaultDir is that of the user, for a pool.
func defaultDir(pool string) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("turnstile-%d", os.Getuid()), url.PathEscape(pool))
}
