//go:build race || invariants

package invariants

// Enabled reports whether assertions are checked.
const Enabled = true
