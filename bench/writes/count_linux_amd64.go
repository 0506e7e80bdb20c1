package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// count runs all and compares what the callers wrote.
func count() ([]row, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	all, err := trace(self, sharedNothingBefore)
	if err != nil {
		return nil, err
	}
	if want := 2 * len(operations) * counted * len(pools); len(all) != want {
		return nil, fmt.Errorf("%d operations were seen instead of %d", len(all), want)
	}
	var rows []row
	for i, p := range pools {
		for op, name := range operations {
			var tries []row
			for n := range counted {
				if at := placeOf(i, n, op); all[at] != nil {
					tries = append(tries, compare(p, name, all[at], all[at+1]))
				}
			}
			// The one that shares least: with ids and blocks of other rounds other lines are
			// met by chance, and now and then the runtime refills a cache.
			rows = append(rows, slices.MinFunc(tries, func(a, b row) int { return cmp.Or(a.shared-b.shared, a.locked-b.locked) }))
		}
	}
	return rows, nil
}

// placeOf is where the first caller's operation stands; the second's is the next.
func placeOf(pool, round, op int) int { return 2 * ((pool*counted+round)*len(operations) + op) }

// sharedNothingBefore reports whether an operation, the one after those before, shared
// nothing in an earlier round of its pool: no round can share less.
func sharedNothingBefore(before []*writes) bool {
	pair, caller := len(before)/2, len(before)%2
	if caller == 1 {
		return before[len(before)-1] == nil
	}
	op, round := pair%len(operations), pair/len(operations)
	for n := range round % counted {
		at := placeOf(round/counted, n, op)
		if before[at] == nil || compare(pool{}, "", before[at], before[at+1]).shared == 0 {
			return true
		}
	}
	return false
}

// compare says what both wrote.
func compare(p pool, name string, a, b *writes) row {
	r := row{pool: p, operation: name, instructions: a.steps, locked: a.locked}
	for line, pcs := range a.lines {
		if _, ok := b.lines[line]; !ok {
			continue
		}
		r.shared++
		var by []string
		for _, pc := range pcs {
			f := place(pc)
			if f = f[strings.LastIndex(f, "/")+1:]; !slices.Contains(by, f) {
				by = append(by, f)
			}
		}
		r.by = append(r.by, strings.Join(by, "+"))
	}
	slices.Sort(r.by)
	return r
}
