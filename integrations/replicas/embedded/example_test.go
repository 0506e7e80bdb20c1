package embedded_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
	"github.com/seed-3c5df8a4/turnstile/integrations/replicas/embedded"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func serve(ctx context.Context, name string, config sched.Config, requests func(*sched.Scheduler, *replicas.Replica)) error {
	node, err := embedded.Open(embedded.Config{Name: name})
	if err != nil {
		return err
	}
	r, err := replicas.New(replicas.Config{Name: name, Transport: node})
	if err != nil {
		return err
	}
	s, err := sched.New(config, sched.WithFleet(r))
	if err != nil {
		return err
	}
	if err := r.Join(ctx, s); err != nil { // at most a second
		return err
	}
	defer func() { _ = r.Close() }() // after the scheduler is drained
	requests(s, r)
	return nil
}

func Example() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	tmp, err := os.MkdirTemp("", "turnstile")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	_ = os.Setenv("TMPDIR", tmp) // the directory where the nodes meet is there
	ctx := context.Background()
	config := sched.Config{BlockSize: 16}
	err = serve(ctx, "gateway-1", config, func(_ *sched.Scheduler, _ *replicas.Replica) {
		err := serve(ctx, "gateway-2", config, func(_ *sched.Scheduler, r *replicas.Replica) {
			for _, peer := range r.Stats().Peers {
				fmt.Println(peer.Name, peer.Whole)
			}
		})
		if err != nil {
			fmt.Println(err)
		}
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: gateway-1 true
}
