package main

import (
	"cmp"
	"errors"
	"flag"
	"hash/fnv"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
	"github.com/seed-3c5df8a4/turnstile/integrations/replicas/embedded"
	"github.com/seed-3c5df8a4/turnstile/integrations/replicas/overnats"
)

// replicaOptions say how several gateways before the same engines see each other's load.
type replicaOptions struct {
	count             int // of the demo
	name              string
	nats              string
	listen, advertise string
	seeds             string
	pool              string
	dir               string // of the demo; else the default
}

// secretVariable has the secret of gateways on several hosts: a flag would be seen by
// everybody on them.
const secretVariable = "TURNSTILE_REPLICAS_SECRET"

func (r *replicaOptions) flags(f *flag.FlagSet) {
	f.IntVar(&r.count, "replicas", 1, "with -demo: `gateways` to start, behind one address")
	f.StringVar(&r.name, "replica", "", "share load with other gateways before the same engines, under this `name`, unlike theirs; those of the same user on this host find each other")
	f.StringVar(&r.pool, "replica-pool", "turnstile", "`name` of the pool: those of another do not count")
	f.StringVar(&r.nats, "replica-nats", "", "`URL` of a NATS server to use instead of one inside each gateway")
	f.StringVar(&r.listen, "replica-listen", "", "`address` where gateways of other hosts connect; they need the same "+secretVariable+" in their environment")
	f.StringVar(&r.advertise, "replica-advertise", "", "`address` that they are told to use instead")
	f.StringVar(&r.seeds, "replica-seeds", "", "`addresses` of other gateways' -replica-listen, with commas between; the name of a service will do")
}

func (r *replicaOptions) check(demo bool) error {
	switch {
	case r.count < 1:
		return errors.New("-replicas must be at least 1")
	case r.count > 1 && !demo:
		return errors.New("-replicas is for -demo: start one gateway in each process, with -replica")
	case r.count > 1 && (r.name != "" || r.nats != "" || r.seeds != ""):
		return errors.New("-replicas goes with no other flag of replicas")
	case r.name == "" && (r.nats != "" || r.seeds != "" || r.listen != "" || r.advertise != ""):
		return errors.New("-replica is needed: the name of this gateway")
	case r.nats != "" && (r.seeds != "" || r.listen != "" || r.advertise != ""):
		return errors.New("-replica-nats goes without -replica-seeds, -replica-listen and -replica-advertise")
	}
	return nil
}

// open returns the gateway's replica and what carries it, nil if it is alone.
func (r *replicaOptions) open(log *slog.Logger) (*replicas.Replica, replicas.Transport, error) {
	if r.name == "" {
		return nil, nil, nil
	}
	var transport replicas.Transport
	var err error
	if r.nats != "" {
		transport, err = overnats.Connect(overnats.Config{URL: r.nats, Name: r.name, Subject: r.pool})
	} else {
		config := embedded.Config{
			Name: r.name, Pool: r.pool, Dir: r.dir, Listen: r.listen, Advertise: r.advertise, Secret: os.Getenv(secretVariable),
		}
		for seed := range strings.SplitSeq(r.seeds, ",") {
			if seed = strings.TrimSpace(seed); seed != "" {
				config.Seeds = append(config.Seeds, seed)
			}
		}
		transport, err = embedded.Open(config)
	}
	if err != nil {
		return nil, nil, err
	}
	replica, err := replicas.New(replicas.Config{Name: r.name, Transport: transport, Logger: log})
	if err != nil {
		return nil, nil, errors.Join(err, transport.Close())
	}
	return replica, transport, nil
}

// workerID numbers a backend by its address, so that all replicas give it the same
// number, in whatever order their lists are.
func workerID(address string) uint64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(address))
	return cmp.Or(uint64(h.Sum32()), 1)
}

// replicaMetrics are the figures of a replica.
func replicaMetrics(r *replicas.Replica) []prometheus.Collector {
	figure := func(name, help string, counter bool, of func(*replicas.Stats) float64) prometheus.Collector {
		value := func() float64 {
			stats := r.Stats()
			return of(&stats)
		}
		if counter {
			return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
		}
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	return []prometheus.Collector{
		figure("turnstile_replica_peers", "Other gateways whose load counts here.", false,
			func(s *replicas.Stats) float64 { return float64(len(s.Peers)) }),
		figure("turnstile_replica_silence_seconds", "The longest time that one of them was not heard.", false,
			func(s *replicas.Stats) float64 {
				var longest time.Duration
				for i := range s.Peers {
					longest = max(longest, s.Peers[i].Silent)
				}
				return longest.Seconds()
			}),
		figure("turnstile_replica_lag_seconds", "Time to the server and back.", false,
			func(s *replicas.Stats) float64 { return s.Lag.Seconds() }),
		figure("turnstile_replica_sent_messages_total", "Messages sent; one to all is one.", true,
			func(s *replicas.Stats) float64 { return float64(s.Sent) }),
		figure("turnstile_replica_failed_messages_total", "Messages that could not be sent.", true,
			func(s *replicas.Stats) float64 { return float64(s.Failed) }),
		figure("turnstile_replica_received_messages_total", "Messages received.", true,
			func(s *replicas.Stats) float64 { return float64(s.Received) }),
		figure("turnstile_replica_gaps_total", "Messages that were missing, and made good.", true,
			func(s *replicas.Stats) float64 { return float64(s.Gaps) }),
		figure("turnstile_replica_deaths_total", "Other gateways dropped for their silence.", true,
			func(s *replicas.Stats) float64 { return float64(s.Died) }),
	}
}
