// Package engines names the engines that scripts and stress tests run against.
package engines

import "github.com/seed-3c5df8a4/turnstile/stress/script"

// The names of the engines.
const (
	Sharded     = "sharded"
	Actor       = "actor"
	ActorDirect = "actor-direct"
)

// Engine is one engine by name.
type Engine struct {
	Name string
	New  script.Factory
}

// All returns the engines, the one under test first.
func All() []Engine {
	return []Engine{}
}

// Lookup returns the engine of that name.
func Lookup(name string) (Engine, bool) {
	for _, e := range All() {
		if e.Name == name {
			return e, true
		}
	}
	return Engine{}, false
}
