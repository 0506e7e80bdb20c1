package sched

import (
	"slices"
	"testing"
)

// A decision whose last step is still to come holds up those made after it.
func TestDecisionsAreToldInOrder(t *testing.T) {
	t.Parallel()
	var told []string
	j := &journal{hook: func(d Decision) { told = append(told, d.Request) }}
	first := j.reserve(Decision{Request: "first"})
	dropped := j.reserve(Decision{Request: "dropped"})
	j.add(Decision{Request: "last"})
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() {}, nil},
		{dropped.drop, nil},
		{first.keep, []string{"first", "last"}},
	} {
		step.do()
		j.deliver()
		if !slices.Equal(told, step.want) {
			t.Fatalf("told %q, want %q", told, step.want)
		}
	}
	if !j.quiet() {
		t.Fatal("something is left to tell")
	}
}
