package measure_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched/internal/measure"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

var waits = measure.Buckets{First: 1, Scale: 1, N: 3}

// profile has classes of these names.
func profile(t testing.TB, names ...string) *policy.Profile {
	t.Helper()
	config := policy.Config{DefaultFamily: "f", Buckets: []policy.Bucket{{Name: "b"}}}
	config.Classes = append(config.Classes, policy.Class{Name: names[0], Family: "f", Bucket: "b", Quantum: 1})
	for _, name := range names[1:] {
		config.Classes = append(config.Classes, policy.Class{Name: name, Quantum: 1})
	}
	p, err := policy.New(config)
	require.NoError(t, err)
	return p
}

// Counters go by the name of the class, whatever the profile.
func TestClassesOutliveTheirProfile(t *testing.T) {
	t.Parallel()
	ab, ca := profile(t, "a", "b"), profile(t, "c", "a")
	classes := measure.NewClasses(ab, 2, waits)
	classes.Of(ab, 0).Admit()
	classes.Of(ab, 1).Admit()
	classes.Named("b").Reject(1)
	classes.Named("nobody").Reject(0)
	classes.Of(ab, 1).Waited(2)

	classes.SetProfile(ca)
	require.Same(t, classes.Of(ab, 0), classes.Of(ca, 1), "both are a")
	classes.Of(ca, 1).Admit()
	classes.Of(ab, 1).Admit() // by a request that was decided before
	require.Zero(t, classes.Of(ca, 0).Totals().Admitted)
	require.Equal(t, measure.Totals{Admitted: 4, Rejected: []int64{1, 1}}, classes.Totals())

	classes.SetProfile(ab)
	b := classes.Of(ab, 1)
	require.Equal(t, "b", b.Name())
	require.Equal(t, measure.Totals{Admitted: 2, Rejected: []int64{0, 1}}, b.Totals())
	require.Equal(t, []int64{0, 1, 0, 0}, b.Waits().Counts)
}

// Classes that are long gone take no room, and their counts stay in the sums, also
// those that come late.
func TestClassesThatGoLeaveTheirCounts(t *testing.T) {
	classes := measure.NewClasses(profile(t, "first"), 1, waits)
	first := classes.Named("first")
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const swaps = 4000
	var before int64
	for i := range swaps {
		if i == swaps/2 {
			before = inUse()
		}
		p := profile(t, fmt.Sprint("class-", i))
		classes.SetProfile(p)
		classes.Of(p, 0).Admit()
		classes.Of(p, 0).Reject(0)
	}
	require.Less(t, inUse()-before, int64(1<<17), "bytes for 2000 classes more")
	require.Equal(t, measure.Totals{Admitted: swaps, Rejected: []int64{swaps}}, classes.Totals())

	first.Admit()
	first.Reject(0)
	late := classes.Of(profile(t, "class-7"), 0)
	require.Equal(t, "class-7", late.Name())
	late.Admit()
	require.Equal(t, measure.Totals{Admitted: swaps + 2, Rejected: []int64{swaps + 1}}, classes.Totals())
}

// Nothing is counted twice or not at all while classes go under those who count, and
// no sum is less than one before.
func TestCountsWhileClassesGo(t *testing.T) {
	t.Parallel()
	const callers, each = 4, 3000
	p := profile(t, "p")
	classes := measure.NewClasses(p, 1, waits)
	var swaps, counts sync.WaitGroup
	done := make(chan struct{})
	swaps.Go(func() {
		last := int64(0)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			// Each drives the classes that went first out.
			names := make([]string, 300)
			for n := range names {
				names[n] = fmt.Sprintf("%d-%d", i%2, n)
			}
			classes.SetProfile(profile(t, names...))
			classes.SetProfile(p)
			sum := classes.Totals()
			if sum.Admitted < last {
				t.Errorf("%d admitted, before %d", sum.Admitted, last)
			}
			last = sum.Admitted
		}
	})
	for range callers {
		counts.Go(func() {
			for range each {
				class := classes.Of(p, 0)
				runtime.Gosched()
				class.Admit()
				class.Reject(0)
			}
		})
	}
	counts.Wait()
	close(done)
	swaps.Wait()
	require.Equal(t, measure.Totals{Admitted: callers * each, Rejected: []int64{callers * each}}, classes.Totals())
}
