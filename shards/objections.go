package shards

import (
	"fmt"
	"slices"
)

// Objection is one rule that keeps a rank from serving a request.
type Objection struct {
	// Rule names the rule: "pinned-elsewhere", "not-allowed", "excluded",
	// "draining", "unavailable", "lacks-taint", "set-aside", "overloaded".
	Rule string `json:"rule"`
	// Detail says it in words, with the value concerned.
	Detail string `json:"detail"`
}

// Objections returns every rule that keeps the rank at a place from serving the
// request, in the order in which they are tested; none for an eligible rank. An
// eligible rank that is overloaded or set aside has just that.
func (t *Table) Objections(c *Constraints, at int) []Objection {
	var all []Objection
	object := func(rule, format string, args ...any) {
		all = append(all, Objection{Rule: rule, Detail: fmt.Sprintf(format, args...)})
	}
	slot := &t.slots[at]
	id := slot.Worker.ID
	if c.Pinned && c.Pin != slot.Shard.ID() {
		object("pinned-elsewhere", "the request is pinned to rank %v", c.Pin)
	}
	if c.Allowed != nil && !slices.Contains(c.Allowed, id) {
		object("not-allowed", "worker %d is not in the request's allowed set", id)
	}
	if slices.Contains(c.Excluded, id) {
		object("excluded", "worker %d is excluded by the request", id)
	}
	if t.Draining(id) {
		object("draining", "worker %d is draining", id)
	}
	if _, listed := t.available[id]; t.available != nil && !listed {
		object("unavailable", "worker %d is not in the available set", id)
	}
	for i, taint := range c.RequiredTaints {
		if !slot.Worker.HasTaint(taint) && !slices.Contains(c.RequiredTaints[:i], taint) {
			object("lacks-taint", "worker %d lacks the required taint %q", id, taint)
		}
	}
	if _, aside := t.aside[id]; aside {
		object("set-aside", "worker %d is set aside for a time", id)
	}
	if _, overloaded := t.overloaded[id]; overloaded {
		object("overloaded", "worker %d is overloaded", id)
	}
	return all
}

// Draining reports whether a worker is draining.
func (t *Table) Draining(id uint64) bool {
	_, draining := t.draining[id]
	return draining
}
