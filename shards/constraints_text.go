package shards

import (
	"fmt"
	"strings"
)

// String says in words which ranks a request can run on. Long lists are cut.
func (c *Constraints) String() string {
	if c.Unconstrained() {
		return "any rank"
	}
	var words []string
	if c.Pinned {
		words = append(words, "rank "+c.Pin.String())
	}
	if c.Allowed != nil {
		words = append(words, "workers "+listed(c.Allowed, "%d"))
	}
	if len(c.Excluded) > 0 {
		words = append(words, "not workers "+listed(c.Excluded, "%d"))
	}
	if len(c.RequiredTaints) > 0 {
		words = append(words, "with taints "+listed(c.RequiredTaints, "%q"))
	}
	return strings.Join(words, ", ")
}

func listed[E any](list []E, format string) string {
	const most = 8
	if len(list) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, e := range list {
		switch {
		case i == most:
			fmt.Fprintf(&b, " and %d more", len(list)-most)
			return b.String()
		case i > 0:
			b.WriteString(" ")
		}
		fmt.Fprintf(&b, format, e)
	}
	return b.String()
}
