package main

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if !runTraced() {
		os.Exit(m.Run())
	}
}

// shared are the functions that write lines which callers share though neither
// rank nor id is the same: the stripes of ids and of counters and the buckets of the
// prefix index, which two callers meet in by chance, and the load index's groups.
var shared = []string{"ids.(*Table", "Counter).Add", "MapOf[", "mapOfTable[", "sync.(*Mutex)", "atomic."}

// TestSharedWrites: what docs/concurrency.md says of writes that callers share.
func TestSharedWrites(t *testing.T) {
	switch {
	case testing.Short():
		t.Skip("steps through the operations")
	case runtime.GOOS != "linux" || runtime.GOARCH != "amd64":
		t.Skip("on linux/amd64 only")
	case instrumented || testing.CoverMode() != "":
		t.Skip("this program writes more than its operations do")
	}
	rows, err := count()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skip("the system does not allow ptrace")
	}
	require.NoError(t, err)
	require.Len(t, rows, len(pools)*len(operations))
	for _, r := range rows {
		where := r.pool.String() + ": " + r.operation
		require.Positive(t, r.instructions, where)
		most, locked := 4, 40 // a table may grow in each of the rounds
		if r.operation == "advisory selection" {
			most, locked = 0, 0
		}
		require.LessOrEqual(t, r.shared, most, "%s: %v", where, r.by)
		require.LessOrEqual(t, r.locked, locked, where)
		for _, by := range r.by {
			for f := range strings.SplitSeq(by, "+") {
				known := false
				for _, s := range shared {
					known = known || strings.Contains(f, s)
				}
				require.True(t, known, "%s: %s writes a line that both callers write", where, f)
			}
		}
	}
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	printTable(&b, []row{{pool{16, false}, "release", 900, 7, 1, []string{"f+g"}}, {pool{16, true}, "release", 950, 9, 2, []string{"f", "h"}}})
	require.Equal(t, `
16 ranks                          instructions  locked  shared lines  written by
  release                                  900       7             1  f+g

16 ranks, a class can queue       instructions  locked  shared lines  written by
  release                                  950       9             2  f, h
`, b.String())
}
