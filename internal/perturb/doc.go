// Package perturb marks the steps between which a concurrent algorithm may be
// interrupted. With the build tag perturb each Point may yield the processor, so
// that rare interleavings become common; without it the calls vanish.
package perturb
