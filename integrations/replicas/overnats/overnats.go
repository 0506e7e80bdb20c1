// Package overnats carries the messages of replicas over NATS: core NATS, without
// JetStream, as a message that is lost is healed by a later one.
//
// All replicas of a pool share a subject prefix: what is for all goes to prefix.all,
// what is for one to prefix.to.<its name in base64>. The client's options are NATS's
// own, so credentials, TLS and addresses are given as for any client of NATS:
//
//	transport, err := overnats.Connect(overnats.Config{
//		Name: hostname, URL: "nats://nats-1:4222,nats://nats-2:4222", Subject: "turnstile.llama",
//		Options: []nats.Option{nats.UserCredentials("/etc/nats/gateway.creds"), nats.RootCAs("/etc/nats/ca.pem")},
//	})
package overnats

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
)

// Config describes a connection.
type Config struct {
	// URL is that of the server, or several with commas between.
	URL string
	// Name is the replica's.
	Name string
	// Subject is the prefix that the replicas of a pool share; default "turnstile".
	Subject string
	// Options are the client's, beside and above those of this package.
	Options []nats.Option
	// Unread is how many messages may wait to be read; further ones are lost, and
	// healed. Default 8192.
	Unread int
}

// link is a transport over one connection.
//
// How: both subscriptions put their messages into one channel, on the goroutine that
// reads the connection, so that they keep their order; another passes them on. A third
// measures the lag, as the client has no other way to wait for an answer.
type link struct {
	conn    *nats.Conn
	subject string
	arrived chan *nats.Msg
	back    chan struct{} // the connection is there again
	in      chan []byte
	stop    chan struct{}
	close   sync.Once
	running sync.WaitGroup
	lag     atomic.Int64
}

// Connect returns the transport of a replica. It does not fail if no server answers: it
// goes on trying, and until then what is sent is lost. It fails for what no later try
// can mend: options that contradict each other, a server that refuses the credentials.
func Connect(config Config) (replicas.Transport, error) {
	subject := cmp.Or(config.Subject, "turnstile")
	if strings.ContainsAny(subject, "*> \t\r\n") || strings.HasPrefix("."+subject+".", "..") || strings.Contains(subject+".", "..") {
		return nil, fmt.Errorf("overnats: subject %q: must be words with dots between, without wildcards", subject)
	}
	if config.Name == "" {
		return nil, errors.New("overnats: a name is needed")
	}
	unread := cmp.Or(config.Unread, 8192)
	l := &link{
		subject: subject, arrived: make(chan *nats.Msg, unread), back: make(chan struct{}, 1),
		in: make(chan []byte), stop: make(chan struct{}),
	}
	options, err := l.options(&config)
	if err != nil {
		return nil, err
	}
	if l.conn, err = options.Connect(); err != nil {
		return nil, fmt.Errorf("overnats: %w", err)
	}
	for _, s := range []string{subject + ".all", l.inboxOf(config.Name)} {
		if _, err := l.conn.ChanSubscribe(s, l.arrived); err != nil {
			l.conn.Close()
			return nil, fmt.Errorf("overnats: %w", err)
		}
	}
	l.running.Go(l.pass)
	l.running.Go(l.measure)
	return l, nil
}

// options returns this package's options and then the caller's.
func (l *link) options(config *Config) (*nats.Options, error) {
	o := nats.GetDefaultOptions()
	for _, option := range append([]nats.Option{
		nats.Name("turnstile replica " + config.Name),
		nats.NoEcho(),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.Timeout(time.Second),
		// What was said while the connection was lost is old news when it is back.
		nats.ReconnectBufSize(-1),
		// A server that swallows what it is sent is left after so long.
		nats.PingInterval(500 * time.Millisecond),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // else printed; the replica counts gaps
	}, config.Options...) {
		if err := option(&o); err != nil {
			return nil, fmt.Errorf("overnats: %w", err)
		}
	}
	if config.URL != "" {
		// As nats.Connect does.
		for url := range strings.SplitSeq(config.URL, ",") {
			o.Servers = append(o.Servers, strings.TrimSpace(url))
		}
	}
	o.ReconnectedCB, o.ConnectedCB = l.tellBack(o.ReconnectedCB), l.tellBack(o.ConnectedCB)
	return &o, nil
}

func (l *link) tellBack(then nats.ConnHandler) nats.ConnHandler {
	return func(c *nats.Conn) {
		select {
		case l.back <- struct{}{}:
		default:
		}
		if then != nil {
			then(c)
		}
	}
}

func (l *link) inboxOf(name string) string {
	return l.subject + ".to." + base64.RawURLEncoding.EncodeToString([]byte(name))
}

// pass passes on what arrives.
func (l *link) pass() {
	defer close(l.in)
	for {
		var message []byte
		select {
		case m := <-l.arrived:
			if message = m.Data; len(message) == 0 {
				continue // it would say that the connection is back
			}
		case <-l.back:
		case <-l.stop:
			return
		}
		select {
		case l.in <- message:
		case <-l.stop:
			return
		}
	}
}

func (l *link) measure() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if rtt, err := l.conn.RTT(); err == nil {
			l.lag.Store(int64(rtt))
		}
		select {
		case <-ticker.C:
		case <-l.stop:
			return
		}
	}
}

func (l *link) Broadcast(message []byte) error { return l.conn.Publish(l.subject+".all", message) }

func (l *link) Send(to string, message []byte) error { return l.conn.Publish(l.inboxOf(to), message) }

func (l *link) Receive() <-chan []byte { return l.in }

func (l *link) Lag() time.Duration { return time.Duration(l.lag.Load()) }

func (l *link) Close() error {
	err := replicas.ErrClosed
	l.close.Do(func() {
		err = nil
		if l.conn.IsConnected() {
			_ = l.conn.FlushTimeout(time.Second) // the good-bye; without it the peers find out by themselves
		}
		close(l.stop)
		l.conn.Close()
		l.running.Wait()
	})
	return err
}
