package sched_test

import (
	"context"
	"fmt"
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
	for _, ranks := range []int{16, 2048} {
		b.Run(fmt.Sprintf("ranks=%d", ranks), func(b *testing.B) {
			s := newScheduler(b, sched.Config{})
			addWorkers(b, s, ranks)
			r := sched.Request{ISL: 384}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Select(context.Background(), &r); err != nil {
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
