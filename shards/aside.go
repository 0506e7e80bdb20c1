package shards

import (
	"maps"
	"math"
	"slices"
)

// A worker that is set aside counts as overloaded until a time. The table says which
// workers are, as of the time it was made for: a later reader first asks AsideEnd, and if
// that time has come takes WithoutAsides.

// NeverEnds is later than every time.
const NeverEnds = math.MaxInt64

// AsideEnd returns the first time (ns) at which a worker ceases to be set aside,
// NeverEnds if none does.
func (t *Table) AsideEnd() int64 { return t.asideEnd }

// Aside returns until when (ns) a worker is set aside.
func (t *Table) Aside(id uint64) (until int64, aside bool) {
	until, aside = t.aside[id]
	return until, aside
}

// WithAside returns the table with a worker set aside until a time, or until the
// one that holds already if that is later. REQUIRES: there is a worker of that id.
func (t *Table) WithAside(id uint64, until int64) *Table {
	copied := *t
	copied.aside = maps.Clone(t.aside)
	copied.hold(id, max(until, t.aside[id]))
	return copied.flagged(slices.Values([]uint64{id}))
}

// WithoutAside returns the table with a worker no longer set aside.
func (t *Table) WithoutAside(id uint64) *Table {
	return t.keepAsides(func(worker uint64, _ int64) bool { return worker != id })
}

// WithoutAsides returns the table as of a time (ns): without the settings aside that
// have ended by then.
func (t *Table) WithoutAsides(now int64) *Table {
	return t.keepAsides(func(_ uint64, until int64) bool { return until > now })
}

func (t *Table) keepAsides(keep func(worker uint64, until int64) bool) *Table {
	copied := *t
	copied.aside = nil
	for worker, until := range t.aside {
		if keep(worker, until) {
			copied.hold(worker, until)
		}
	}
	return copied.flagged(maps.Keys(t.aside))
}

// firstEnd returns the first end of a setting aside.
func (t *Table) firstEnd() int64 {
	end := int64(NeverEnds)
	for _, until := range t.aside {
		end = min(end, until)
	}
	return end
}

// hold notes that a worker is set aside. REQUIRES: t is not published yet, and its
// map is its own.
func (t *Table) hold(id uint64, until int64) {
	if t.aside == nil {
		t.aside = make(map[uint64]int64)
	}
	t.aside[id] = until
}
