package sched_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

func BenchmarkScheduleRelease(b *testing.B) {
	for _, blocks := range []int{0, 24} {
		b.Run(fmt.Sprintf("blocks=%d", blocks), func(b *testing.B) {
			s := newScheduler(b, sched.Config{})
			addWorkers(b, s, 16)
			r := sched.Request{ID: "r", ISL: 384}
			for i := range blocks {
				r.Blocks = append(r.Blocks, uint64(i))
			}
			b.ReportAllocs()
			for b.Loop() {
				booking, err := s.Schedule(context.Background(), &r)
				if err != nil {
					b.Fatal(err)
				}
				_ = booking.Release()
			}
		})
	}
}

func BenchmarkScheduleReleaseParallel(b *testing.B) {
	s := newScheduler(b, sched.Config{})
	addWorkers(b, s, 16)
	var callers atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := sched.Request{ID: "r" + strconv.FormatInt(callers.Add(1), 10), ISL: 384}
		for pb.Next() {
			booking, err := s.Schedule(context.Background(), &r)
			if err != nil {
				b.Fatal(err)
			}
			_ = booking.Release()
		}
	})
}

func BenchmarkSelect(b *testing.B) {
	for _, ranks := range []int{4, 16, 2048} {
		b.Run(fmt.Sprintf("ranks=%d", ranks), func(b *testing.B) {
			s := newScheduler(b, sched.Config{})
			addWorkers(b, s, ranks)
			rnd := rand.New(rand.NewPCG(1, 2))
			for i := range ranks {
				r := sched.Request{ID: "s" + strconv.Itoa(i), ISL: 64, Pin: &sched.RankID{Worker: uint64(i + 1)}}
				for range 1 + rnd.IntN(8) {
					r.Blocks = append(r.Blocks, rnd.Uint64())
				}
				booking, err := s.Schedule(context.Background(), &r)
				if err != nil {
					b.Fatal(err)
				}
				if i%2 == 0 {
					_ = booking.PrefillDone()
				}
			}
			requests := make([]sched.Request, 64)
			for i := range requests {
				r := sched.Request{ID: "x", ISL: 24*16 + 8}
				for range 24 {
					r.Blocks = append(r.Blocks, rnd.Uint64())
				}
				for _, k := range rnd.Perm(ranks)[:3] {
					r.Overlaps = append(r.Overlaps, sched.Overlap{Rank: sched.RankID{Worker: uint64(k + 1)}, Device: float64(4 + rnd.IntN(20))})
				}
				requests[i] = r
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if _, err := s.Select(ctx, &requests[i%len(requests)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkQueued(b *testing.B) {
	s := newScheduler(b, sched.Config{Profile: policyOf(b, queueing)})
	addWorkers(b, s, 16)
	var callers atomic.Int64
	b.SetParallelism(128)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := sched.Request{ID: "r" + strconv.FormatInt(callers.Add(1), 10), ISL: 384}
		for pb.Next() {
			booking, err := s.Schedule(context.Background(), &r)
			if err != nil {
				b.Fatal(err)
			}
			_ = booking.Release()
		}
	})
}
