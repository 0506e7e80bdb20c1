package proxy

import (
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Line is a scheduler with all that it decides about. Each model has one, so that the
// requests for one model that wait are no reason to refuse those for another.
type Line struct {
	Scheduler *sched.Scheduler
	Fleet     *fleet.Fleet
	Cache     *prompt.Cache
	// Knows says whether the policy has a class or family of that name; nil for all.
	Knows func(class string) bool

	waits waits
}

// Lines has the line of each model.
type Lines interface {
	// Line returns the line of a model, or of a request that names none; nil if there
	// is none.
	Line(model string) *Line
	// Lines returns all of them.
	Lines() []*Line
}

// Line returns the line itself: a line alone is for all models.
func (l *Line) Line(string) *Line { return l }

// Lines returns the line alone.
func (l *Line) Lines() []*Line { return []*Line{l} }

// up returns the backends of all lines that pass their checks.
func (p *Proxy) up() (up []fleet.Backend) {
	for _, line := range p.Lines.Lines() {
		up = append(up, line.Fleet.Up()...)
	}
	return up
}

// listed returns the models that the backends of all lines list.
func (p *Proxy) listed() (models []string) {
	for _, line := range p.Lines.Lines() {
		models = append(models, line.Fleet.Models()...)
	}
	return models
}
