package storm

import (
	"fmt"
	"sync"
)

// Violation is one broken invariant.
type Violation struct {
	// Invariant is its number among the guarantees of the README.
	Invariant int
	What      string
}

func (v Violation) String() string { return fmt.Sprintf("invariant %d: %s", v.Invariant, v.What) }

// kept is how many violations are kept word for word.
const kept = 20

type violations struct {
	mu struct {
		sync.Mutex
		first []Violation
		count int64
		// byInvariant counts them, at their numbers.
		byInvariant [11]int64
	}
}

func (v *violations) add(invariant int, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.count++
	v.mu.byInvariant[invariant]++
	if len(v.mu.first) < kept {
		v.mu.first = append(v.mu.first, Violation{invariant, fmt.Sprintf(format, args...)})
	}
}

func (v *violations) count() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.count
}
