// Package invariants switches on assertions that are too dear for normal builds.
// They are on under the race detector and with the build tag invariants, and
// cost nothing otherwise: guard them with Enabled, which is a constant.
package invariants

import "fmt"

// Violated stops the program: a broken invariant must not be survived in tests.
func Violated(format string, args ...any) {
	panic("turnstile: invariant violated: " + fmt.Sprintf(format, args...))
}
