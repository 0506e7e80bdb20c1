// Package explore visits all that the interleavings of a model's atomic steps can
// reach. The tests of concurrent protocols hold their designs against it.
package explore

import (
	"fmt"
	"strings"
)

// Move is one atomic step of a model: what was done and where it leads.
type Move[S comparable] struct {
	Label string
	To    S
}

// All visits every state that any interleaving of the moves can reach, each
// once. check is asked about every state, and told whether it is terminal; its
// first complaint is returned together with the steps that lead there.
func All[S comparable](start S, moves func(S) []Move[S], check func(s S, terminal bool) error) (states int, err error) {
	type origin struct {
		from  S
		label string
	}
	seen := map[S]origin{start: {}}
	for frontier := []S{start}; len(frontier) > 0; {
		// Breadth first, so that the counterexample is as short as can be.
		var next []S
		for _, s := range frontier {
			out := moves(s)
			if err := check(s, len(out) == 0); err != nil {
				var steps []string
				for at := s; at != start; at = seen[at].from {
					steps = append(steps, seen[at].label)
				}
				var trace strings.Builder
				for i := len(steps) - 1; i >= 0; i-- {
					fmt.Fprintf(&trace, "\n  %s", steps[i])
				}
				return len(seen), fmt.Errorf("%w, after %d steps:%s", err, len(steps), trace.String())
			}
			for _, m := range out {
				if _, known := seen[m.To]; !known {
					seen[m.To] = origin{s, m.Label}
					next = append(next, m.To)
				}
			}
		}
		frontier = next
	}
	return len(seen), nil
}
