package sched_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// manyClasses is a profile of so many classes.
func manyClasses(tb testing.TB, n int) *policy.Profile {
	tb.Helper()
	var text strings.Builder
	text.WriteString("default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\npolicy_classes:\n" +
		"  - {name: f, policy_family: f, cache_bucket: all, quantum: 100, prefill_busy_threshold_frac: 0.5}\n")
	for i := range n - 1 {
		fmt.Fprintf(&text, "  - {name: c%d, quantum: 100, prefill_busy_threshold_frac: 0.5}\n", i)
	}
	file, err := policy.Parse([]byte(text.String()))
	if err != nil {
		tb.Fatal(err)
	}
	return file.For("")
}

// BenchmarkAnnounce announces a fleet one by one.
func BenchmarkAnnounce(b *testing.B) {
	for _, workers := range []uint64{512, 4096} {
		for _, order := range []string{"ascending", "descending"} {
			b.Run(fmt.Sprintf("workers=%d/%s", workers, order), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s, err := sched.New(sched.Config{BlockSize: 16})
					if err != nil {
						b.Fatal(err)
					}
					for i := range workers {
						id := i
						if order == "descending" {
							id = workers - i
						}
						if err := s.UpsertWorker(sched.Worker{ID: id, Ranks: 1}); err != nil {
							b.Fatal(err)
						}
					}
					_ = s.Close()
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(workers), "µs/worker")
			})
		}
	}
}

// BenchmarkPoolEdit changes what is said of one of 2,048 workers.
func BenchmarkPoolEdit(b *testing.B) {
	for _, classes := range []int{2, 1000} {
		s, err := sched.New(sched.Config{BlockSize: 16, Profile: manyClasses(b, classes)})
		if err != nil {
			b.Fatal(err)
		}
		var all []sched.Worker
		for i := range uint64(2048) {
			all = append(all, sched.Worker{ID: i, Ranks: 1})
		}
		if err := s.SetWorkers(all); err != nil {
			b.Fatal(err)
		}
		i := uint64(0)
		for _, bm := range []struct {
			name string
			edit func() error
		}{
			{"SetOverloaded", func() error { return s.SetOverloaded([]uint64{i % 2048}) }},
			{"SetAvailable", func() error { return s.SetAvailable([]uint64{i % 2048}) }},
			{"DrainWorker", func() error {
				if i%2 == 0 {
					return s.DrainWorker(i / 2 % 2048)
				}
				return s.UndrainWorker(i / 2 % 2048)
			}},
			{"UpsertWorker", func() error { return s.UpsertWorker(all[i%2048]) }},
			{"UpsertWorker/changed", func() error {
				w := all[i%2048]
				w.Endpoint = fmt.Sprint(i)
				return s.UpsertWorker(w)
			}},
			{"SetWorkers", func() error { return s.SetWorkers(all) }},
		} {
			b.Run(fmt.Sprintf("classes=%d/%s", classes, bm.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					i++
					if err := bm.edit(); err != nil {
						b.Fatal(err)
					}
				}
			})
			if err := s.SetAvailable(nil); err != nil {
				b.Fatal(err)
			}
		}
		_ = s.Close()
	}
}
