package turnstileprom_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	turnstileprom "github.com/seed-3c5df8a4/turnstile/integrations/prometheus"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func Example() {
	s, _ := sched.New(sched.Config{BlockSize: 16, SampleSelection: 1000})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 2})

	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(turnstileprom.New(s, turnstileprom.Config{Scheduler: "llama-70b"}))
	// http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	b, _ := s.Schedule(context.Background(), &sched.Request{ID: "r", ISL: 640})
	n, _ := testutil.GatherAndCount(registry, "turnstile_prefill_tokens")
	fmt.Println("ranks:", n)
	_ = b.Release()
	// Output: ranks: 2
}
