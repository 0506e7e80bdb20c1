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
	all, err := trace(self)
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
				at := 2 * ((i*counted+n)*len(operations) + op)
				tries = append(tries, compare(p, name, all[at], all[at+1]))
			}
			// The one that shares least: with ids and blocks of other rounds other lines are
			// met by chance, and now and then the runtime refills a cache.
			rows = append(rows, slices.MinFunc(tries, func(a, b row) int { return cmp.Or(a.shared-b.shared, a.locked-b.locked) }))
		}
	}
	return rows, nil
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
