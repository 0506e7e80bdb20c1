// Package text lays out tables and numbers for people.
package text

import (
	"slices"
	"strconv"
	"strings"
)

// Number prints a whole number.
func Number(n int64) string { return strconv.FormatInt(n, 10) }

// Decimal prints a number with at most two digits after the point, or three
// significant ones if it is small.
func Decimal(x float64) string {
	if x != 0 && x > -1 && x < 1 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	text := strconv.FormatFloat(x, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Table is rows of cells, the first with the names of the columns.
type Table [][]string

// Write writes the table with its columns aligned: those named in left to the left,
// the others, which hold numbers, to the right. Columns without anything are left
// out.
func (t Table) Write(b *strings.Builder, left ...string) {
	widths := make([]int, len(t[0]))
	used := make([]bool, len(t[0]))
	for i, row := range t {
		for c, cell := range row {
			widths[c] = max(widths[c], len([]rune(cell)))
			used[c] = used[c] || i > 0 && cell != "" || c == 0
		}
	}
	for _, row := range t {
		var line strings.Builder
		for c, cell := range row {
			if !used[c] {
				continue
			}
			pad := strings.Repeat(" ", widths[c]-len([]rune(cell)))
			if c > 0 {
				line.WriteString("  ")
			}
			if slices.Contains(left, t[0][c]) {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
