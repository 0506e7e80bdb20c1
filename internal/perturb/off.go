//go:build !perturb

package perturb

// Enabled reports whether points yield.
const Enabled = false

// Point does nothing and costs nothing.
func Point() {}
