package replicas_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// BenchmarkBooking is a booking and its release, where nobody waits: without a replica,
// with one that is alone, and with one of three.
func BenchmarkBooking(b *testing.B) {
	run := func(b *testing.B, s *sched.Scheduler) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			booking, err := s.Schedule(b.Context(), &sched.Request{ID: strconv.Itoa(i), ISL: 64})
			if err == nil {
				err = booking.Release()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("none", func(b *testing.B) { run(b, scheduler(b, 16)) })
	for _, c := range []struct {
		name string
		n    int
	}{{"alone", 1}, {"three", 3}} {
		b.Run(c.name, func(b *testing.B) {
			var network replicas.Network
			var gateways []*gateway
			for i := range c.n {
				name := strconv.Itoa(i)
				gateways = append(gateways, open(b, network.Join(name), name, 16))
			}
			run(b, gateways[0].s)
			for _, g := range gateways {
				require.NoError(b, g.Close())
			}
		})
	}
}
