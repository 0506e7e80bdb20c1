package sched_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// batch is how many bookings are made or released between two stops of the
// timer.
const batch = 1000

// BenchmarkSteps times the steps of a booking's life one by one.
func BenchmarkSteps(b *testing.B) {
	for _, blocks := range []int{0, 24} {
		for _, step := range []string{"book", "prefill-done", "output", "release"} {
			b.Run(fmt.Sprintf("%s/blocks=%d", step, blocks), func(b *testing.B) {
				s := newScheduler(b, sched.Config{})
				addWorkers(b, s, 16)
				requests := make([]sched.Request, batch)
				for i := range requests {
					requests[i] = sched.Request{ID: "r" + strconv.Itoa(i), ISL: 384}
					for block := range blocks {
						requests[i].Blocks = append(requests[i].Blocks, uint64(i*blocks+block))
					}
				}
				held := make([]*sched.Booking, batch)
				do := map[string]func(int) error{
					"book": func(i int) (err error) {
						held[i], err = s.Schedule(context.Background(), &requests[i])
						return err
					},
					"prefill-done": func(i int) error { return held[i].PrefillDone() },
					"output":       func(i int) error { return held[i].AddOutputBlock() },
					"release":      func(i int) error { return held[i].Release() },
				}
				b.ReportAllocs()
				for n := 0; n < b.N; n += batch {
					for _, now := range []string{"book", "prefill-done", "output", "release"} {
						if now != step {
							b.StopTimer()
						}
						for i := range min(batch, b.N-n) {
							if err := do[now](i); err != nil {
								b.Fatal(err)
							}
						}
						if now != step {
							b.StartTimer()
						}
					}
				}
			})
		}
	}
}

// BenchmarkEpoch releases the one rank while others wait for it: a hint, an
// epoch, and a grant to whoever is next.
func BenchmarkEpoch(b *testing.B) {
	for _, waiting := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			s := newScheduler(b, sched.Config{Profile: policyOf(b, queueing)})
			addWorkers(b, s, 1)
			held, err := s.Schedule(context.Background(), &sched.Request{ID: "first", ISL: 384})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			granted, ended := make(chan *sched.Booking), make(chan struct{})
			for i := range waiting + 1 {
				go func() {
					defer func() { ended <- struct{}{} }()
					for turn := 0; ; turn++ {
						r := sched.Request{ID: fmt.Sprint(i, "-", turn%2), ISL: 384}
						booking, err := s.Schedule(ctx, &r)
						if err != nil {
							return
						}
						select {
						case granted <- booking:
						case <-ctx.Done():
							_ = booking.Release()
							return
						}
					}
				}()
			}
			for s.Stats().Waiting <= int64(waiting) {
				continue
			}
			b.ReportAllocs()
			for b.Loop() {
				_ = held.Release()
				held = <-granted
			}
			b.StopTimer()
			cancel()
			_ = held.Release()
			for range waiting + 1 {
				<-ended
			}
		})
	}
}
