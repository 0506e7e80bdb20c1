package sched_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// batch is how many bookings take a step one after the other, so that reading the
// clock before and after adds nothing to speak of.
const batch = 1000

// BenchmarkSteps times the steps of a booking's life one by one. All bookings of a
// batch take all steps; the figures are those of the step the row is about. The
// timer of b is not stopped for the others: that reads the memory statistics, which
// takes longer than a batch does.
func BenchmarkSteps(b *testing.B) {
	for _, blocks := range []int{0, 24} {
		for at, step := range lifeSteps {
			b.Run(fmt.Sprintf("%s/blocks=%d", step, blocks), func(b *testing.B) {
				l := newLives(b, blocks)
				l.all(b, batch, -1) // what is allocated once
				allocs, bytes := l.weigh(b, at)
				b.ReportAllocs()
				b.ResetTimer()
				var took time.Duration
				for n := 0; n < b.N; n += batch {
					took += l.all(b, min(batch, b.N-n), at)
				}
				b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/op")
				b.ReportMetric(bytes, "B/op")
				b.ReportMetric(allocs, "allocs/op")
			})
		}
	}
}

var lifeSteps = []string{"book", "prefill-done", "output", "release"}

// lives is a batch of requests that come and go.
type lives struct {
	scheduler *sched.Scheduler
	requests  []sched.Request
	held      []*sched.Booking
}

func newLives(b *testing.B, blocks int) *lives {
	l := &lives{scheduler: newScheduler(b, sched.Config{}), requests: make([]sched.Request, batch), held: make([]*sched.Booking, batch)}
	addWorkers(b, l.scheduler, 16)
	for i := range l.requests {
		l.requests[i] = sched.Request{ID: "r" + strconv.Itoa(i), ISL: 384}
		for block := range blocks {
			l.requests[i].Blocks = append(l.requests[i].Blocks, uint64(i*blocks+block))
		}
	}
	return l
}

// all has the first n take all steps, and returns what one of them took.
func (l *lives) all(b *testing.B, n, timed int) (took time.Duration) {
	for step := range lifeSteps {
		began := time.Now()
		l.take(b, step, n)
		if step == timed {
			took = time.Since(began)
		}
	}
	return took
}

// weigh has the whole batch take all steps, and returns what one of them allocates.
func (l *lives) weigh(b *testing.B, weighed int) (allocs, bytes float64) {
	var before, after runtime.MemStats
	for step := range lifeSteps {
		runtime.ReadMemStats(&before)
		l.take(b, step, batch)
		runtime.ReadMemStats(&after)
		if step == weighed {
			allocs = float64(after.Mallocs-before.Mallocs) / batch
			bytes = float64(after.TotalAlloc-before.TotalAlloc) / batch
		}
	}
	return allocs, bytes
}

func (l *lives) take(b *testing.B, step, n int) {
	for i := range n {
		var err error
		switch lifeSteps[step] {
		case "book":
			l.held[i], err = l.scheduler.Schedule(context.Background(), &l.requests[i])
		case "prefill-done":
			err = l.held[i].PrefillDone()
		case "output":
			err = l.held[i].AddOutputBlock()
		case "release":
			err = l.held[i].Release()
		}
		if err != nil {
			b.Fatal(err)
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
			for inLine(s) <= int64(waiting) {
				runtime.Gosched()
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
