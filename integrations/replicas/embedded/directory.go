package embedded

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// directory is how the nodes of one host find each other: each keeps a file there with
// the address of its route, touched every second, and looks for others' as often. No
// port is agreed on, whose owner might die.
type directory struct {
	path, secret string
	own          string // the file of this node; empty before join
	stop         chan struct{}
	looking      sync.WaitGroup
}

const (
	lookEvery = time.Second
	// goneAfter is the age at which a file's node is taken for dead.
	goneAfter  = 10 * time.Second
	suffix     = ".route"
	secretFile = "secret"
)

func openDirectory(config *Config) (*directory, error) {
	d := &directory{path: cmp.Or(config.Dir, defaultDir(config.Pool)), stop: make(chan struct{})}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(d.path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("directory %s has mode %v: others than its owner may use it, so its secret would be none", d.path, info.Mode().Perm())
	}
	d.secret, err = d.readSecret(config.Secret)
	return d, err
}

// readSecret returns the directory's secret, and makes it if there is none. A link
// fails if the name is there, so one node's holds for all.
func (d *directory) readSecret(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	name := filepath.Join(d.path, secretFile)
	if text, err := os.ReadFile(name); !errors.Is(err, fs.ErrNotExist) {
		return string(text), err
	}
	fresh := filepath.Join(d.path, secretFile+"."+rand.Text())
	defer func() { _ = os.Remove(fresh) }()
	if err := os.WriteFile(fresh, []byte(rand.Text()), 0o600); err != nil {
		return "", err
	}
	if err := os.Link(fresh, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	text, err := os.ReadFile(name)
	return string(text), err
}

// join leaves this node's file and then looks for others': of two that do so at the
// same time one at least finds the other.
func (d *directory) join(s *server.Server, options *server.Options, address string) error {
	fresh := filepath.Join(d.path, rand.Text())
	if err := os.WriteFile(fresh, []byte(address), 0o600); err != nil {
		return err
	}
	d.own = fresh + suffix // whole when it has its name
	if err := os.Rename(fresh, d.own); err != nil {
		return err
	}
	known := d.others()
	if err := d.route(s, options, known); err != nil {
		return err
	}
	d.looking.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-d.stop:
				return
			case now := <-ticker.C:
				_ = os.Chtimes(d.own, now, now)
			}
			if found := d.others(); !slices.Equal(found, known) && d.route(s, options, found) == nil {
				known = found
			}
		}
	})
	return nil
}

// others returns the addresses of the other nodes, sorted, and removes the files of
// those that are dead.
func (d *directory) others() (addresses []string) {
	entries, _ := os.ReadDir(d.path)
	for _, e := range entries {
		name := filepath.Join(d.path, e.Name())
		if !strings.HasSuffix(name, suffix) || name == d.own {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		if time.Since(info.ModTime()) > goneAfter {
			_ = os.Remove(name)
			continue
		}
		if text, err := os.ReadFile(name); err == nil {
			addresses = append(addresses, string(bytes.TrimSpace(text)))
		}
	}
	slices.Sort(addresses)
	return addresses
}

// route has the server connect to those addresses and to no others of its own accord.
func (d *directory) route(s *server.Server, options *server.Options, addresses []string) error {
	o := options.Clone()
	o.Routes = []*url.URL{}
	for _, a := range addresses {
		o.Routes = append(o.Routes, routeURL(a, d.secret))
	}
	return s.ReloadOptions(o)
}

func (d *directory) leave() {
	if d.own == "" {
		return
	}
	close(d.stop)
	d.looking.Wait()
	_ = os.Remove(d.own)
}
