package main

import (
	"fmt"
	"io"
	"strings"
)

// row is what one operation writes.
type row struct {
	pool         pool
	operation    string
	instructions int
	// locked are its locked instructions, wherever they write.
	locked int
	// shared are the cache lines that the other caller writes too in the same
	// operation, by the functions that write them.
	shared int
	by     []string
}

func (p pool) String() string {
	if p.queue {
		return fmt.Sprintf("%d ranks, a class can queue", p.ranks)
	}
	return fmt.Sprintf("%d ranks", p.ranks)
}

func printTable(w io.Writer, rows []row) {
	for i, r := range rows {
		if i == 0 || r.pool != rows[i-1].pool {
			fmt.Fprintf(w, "\n%-32s  %12s  %6s  %12s  %s\n", r.pool, "instructions", "locked", "shared lines", "written by")
		}
		fmt.Fprintf(w, "  %-30s  %12d  %6d  %12d  %s\n", r.operation, r.instructions, r.locked, r.shared, strings.Join(r.by, ", "))
	}
}
