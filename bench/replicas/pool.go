package replicas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
	"github.com/seed-3c5df8a4/turnstile/integrations/replicas/embedded"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// queueing has everybody wait for a rank without prefill, and take such a one.
const queueing = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 8192, prefill_busy_threshold: 0, choose_from: idle}
`

// pool is some schedulers before the same ranks.
type pool struct {
	schedulers []*sched.Scheduler
	replicas   []*replicas.Replica // nil if they do not see each other
	dir        string
}

// watcher passes on to a scheduler what its peers say, and says so to seen.
type watcher struct {
	*sched.Scheduler
	seen func([]sched.CausedLoad)
}

func (w watcher) SetPeerLoads(peer sched.PeerID, loads []sched.CausedLoad) {
	w.Scheduler.SetPeerLoads(peer, loads)
	if w.seen != nil {
		w.seen(loads)
	}
}

// open makes n schedulers. If they are to see each other, seen is called with what the
// peers of each say, once it counts.
func open(ctx context.Context, n, ranks int, text string, shared bool, seen func([]sched.CausedLoad)) (_ *pool, err error) {
	p := &pool{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.dir, err = os.MkdirTemp("", "turnstile-bench-"); err != nil {
		return p, err
	}
	var file *policy.File
	if text != "" {
		if file, err = policy.Parse([]byte(text)); err != nil {
			return p, err
		}
	}
	workers := make([]sched.Worker, ranks)
	for i := range workers {
		workers[i] = sched.Worker{ID: uint64(i + 1), Ranks: 1}
	}
	for i := range n {
		var options []sched.Option
		var r *replicas.Replica
		if shared {
			name := fmt.Sprint("replica-", i)
			node, err := embedded.Open(embedded.Config{Name: name, Dir: filepath.Join(p.dir, "pool")})
			if err != nil {
				return p, err
			}
			r, err = replicas.New(replicas.Config{Name: name, Transport: node, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				return p, errors.Join(err, node.Close())
			}
			p.replicas = append(p.replicas, r)
			options = append(options, sched.WithFleet(r))
		}
		s, err := sched.New(sched.Config{BlockSize: 16, Policy: file}, options...)
		if err != nil {
			return p, err
		}
		if err := s.SetWorkers(workers); err != nil {
			return p, err
		}
		p.schedulers = append(p.schedulers, s)
		if r != nil {
			if err := r.Join(ctx, watcher{s, seen}); err != nil {
				return p, err
			}
		}
	}
	return p, p.meet(ctx)
}

// meet waits until all know all.
func (p *pool) meet(ctx context.Context) error {
	for _, r := range p.replicas {
		for {
			stats := r.Stats()
			whole := 0
			for i := range stats.Peers {
				if stats.Peers[i].Whole {
					whole++
				}
			}
			if whole == len(p.replicas)-1 {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

func (p *pool) received() (n int64) {
	for _, r := range p.replicas {
		n += r.Stats().Received
	}
	return n
}

func (p *pool) close() error {
	var errs []error
	for _, r := range p.replicas {
		errs = append(errs, r.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(p.dir))...)
}
