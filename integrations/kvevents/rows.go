package kvevents

import "slices"

// rows holds short lists of one width in one allocation. Not safe for concurrent use.
type rows struct {
	width int
	data  []uint64
	free  []uint32
}

// add returns the number of a row of zeros.
func (r *rows) add() uint32 {
	if n := len(r.free); n > 0 {
		row := r.free[n-1]
		r.free = r.free[:n-1]
		return row
	}
	row := uint32(len(r.data) / r.width)
	r.data = slices.Grow(r.data, r.width)[:len(r.data)+r.width]
	clear(r.at(row))
	return row
}

func (r *rows) at(row uint32) []uint64 {
	from := int(row) * r.width
	return r.data[from : from+r.width]
}

func (r *rows) drop(row uint32) {
	clear(r.at(row))
	r.free = append(r.free, row)
}

// widen makes all rows wider; what is added is zero.
func (r *rows) widen(width int) {
	if width <= r.width {
		return
	}
	wide := make([]uint64, len(r.data)/max(r.width, 1)*width)
	for from, to := 0, 0; from < len(r.data); from, to = from+r.width, to+width {
		copy(wide[to:], r.data[from:from+r.width])
	}
	r.data, r.width = wide, width
}
