package sched_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// An observer is told what becomes of each request, with the times. It can take
// its time: nobody waits for it.
func ExampleWithObserver() {
	manual := clock.NewManual(time.Unix(0, 0))
	events := make(chan sched.Event, 8)
	s, _ := sched.New(sched.Config{BlockSize: 16, Policy: mustParse(oneAtATime)},
		sched.WithClock(manual), sched.WithObserver(func(e sched.Event) { events <- e }))
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})

	running := booked(s, &sched.Request{ID: "running", ISL: 100})
	admitted := make(chan *sched.Booking)
	go func() { admitted <- booked(s, &sched.Request{ID: "waits", ISL: 100}) }()
	untilWaiting(s, 1)
	manual.Advance(3 * time.Second)
	_ = running.PrefillDone()
	_ = (<-admitted).Release()

	for range 5 {
		e := <-events
		fmt.Println(e.Request, e.Kind, e.Waited())
	}
	// Unordered output:
	// running granted 0s
	// waits queued 0s
	// running prefill-done 0s
	// waits granted 3s
	// waits released 3s
}

// The logger is told of what should be rare, and of nothing else.
func ExampleWithLogger() {
	withoutTime := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	s, _ := sched.New(sched.Config{BlockSize: 16}, sched.WithLogger(slog.New(slog.NewTextHandler(os.Stdout, withoutTime))))
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	booked(s, &sched.Request{ID: "r", ISL: 100})
	_ = s.RemoveWorker(1)
	_ = s.Settle(context.Background()) // until it is told
	// Output: level=WARN msg="turnstile: rank removed with live bookings" rank=1/0 bookings=1
}

// Stats and Loads are for a page or an exporter that does its own thing; for
// Prometheus there is one ready.
func ExampleScheduler_Stats() {
	s, _ := sched.New(sched.Config{BlockSize: 16, Policy: mustParse(oneAtATime)})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 2})
	booked(s, &sched.Request{ID: "a", ISL: 100})
	booked(s, &sched.Request{ID: "b", ISL: 50})
	_, err := s.Schedule(context.Background(), &sched.Request{ID: "c", ISL: 100, DoNotQueue: true})
	fmt.Println(errors.Is(err, sched.ErrWouldQueue))

	stats := s.Stats()
	fmt.Println("live:", stats.Live, "waiting:", stats.Waiting, "admitted:", stats.Admitted, "rejected:", stats.Rejected)
	tokens := int64(0)
	for _, load := range s.Loads() {
		tokens += load.PrefillTokens
	}
	fmt.Println("prefill tokens:", tokens)
	// Output:
	// true
	// live: 2 waiting: 0 admitted: 2 rejected: map[would-queue:1]
	// prefill tokens: 150
}

// The selector is swapped whole, while requests come and wait.
func ExampleScheduler_SetSelector() {
	s, _ := sched.New(sched.Config{BlockSize: 16, Ties: selector.TiesLowest})
	_ = s.SetWorkers([]sched.Worker{{ID: 1, Ranks: 1}, {ID: 2, Ranks: 1}})
	cached := []sched.Overlap{{Rank: sched.RankID{Worker: 1}, Device: 6}}
	where := func() {
		p, _ := s.Select(context.Background(), &sched.Request{ISL: 96, Overlaps: cached})
		fmt.Println(p.Rank)
	}
	booked(s, &sched.Request{ID: "r", ISL: 32, Pin: &sched.RankID{Worker: 1}})
	where() // its cache is worth more than what it has to do
	_ = s.SetSelector(selector.LeastLoaded())
	where()
	// Output:
	// 1/0
	// 2/0
}
