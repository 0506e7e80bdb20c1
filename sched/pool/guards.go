package pool

import (
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Guards says which ranks are guarded, and for whom. A lane that guards its ranks has
// its class's prefill thresholds bind the other classes that can queue: a rank above
// them is guarded for those. The guards of one world are kept by whoever knows who
// waits, lane by lane; which ranks are above the thresholds is looked up in their
// loads. It is not safe for concurrent use. Nil has no guards.
type Guards struct {
	world   *World
	classes []guarding // by class; nil until a lane begins
	// lanes counts the lanes that guard.
	lanes int
}

// guarding are the lanes of one class that guard.
type guarding struct {
	lanes, anywhere int // how many, and how many of them may use every available rank
	// covers counts, by place, the others that may use the rank.
	covers []int32
}

// Reset forgets all guards, for another world.
func (g *Guards) Reset(w *World) { *g = Guards{world: w} }

// Begin notes that a lane guards its ranks.
func (g *Guards) Begin(class int, c *shards.Constraints) { g.count(class, c, 1) }

// End notes that a lane guards its ranks no longer, and calls free with each rank
// that the class guards no longer for that reason, or with none if they may be all.
func (g *Guards) End(class int, c *shards.Constraints, free func(*lifecycle.RankID)) {
	g.count(class, c, -1)
	k := &g.classes[class]
	switch {
	case k.anywhere > 0:
	case c.Unconstrained():
		free(nil)
	default:
		for _, place := range g.world.Table.Selection(c, new(shards.Selection)).Places {
			if k.covers[place] == 0 {
				free(&g.world.Table.Slots()[place].Rank)
			}
		}
	}
}

func (g *Guards) count(class int, c *shards.Constraints, by int) {
	if g.classes == nil {
		g.classes = make([]guarding, g.world.Profile.Len())
	}
	k := &g.classes[class]
	g.lanes += by
	k.lanes += by
	if c.Unconstrained() {
		k.anywhere += by
		return
	}
	if k.covers == nil {
		k.covers = make([]int32, len(g.world.Table.Slots()))
	}
	for _, place := range g.world.Table.Selection(c, new(shards.Selection)).Places {
		k.covers[place] += int32(by)
	}
}

// Binds reports whether any rank may be guarded for a class. Advisory selection, −1,
// knows no class.
func (g *Guards) Binds(class int) bool {
	return g != nil && g.lanes > 0 && class >= 0 && g.lanes > g.classes[class].lanes &&
		g.world.Profile.Class(class).BoundByGuards()
}

// Above returns the active prefill tokens above which a rank is guarded for a class,
// lifecycle.Never if it is not. REQUIRES: the class is bound.
func (g *Guards) Above(class, place int) int64 {
	above := int64(lifecycle.Never)
	slot := &g.world.Table.Slots()[place]
	for i := range g.classes {
		k := &g.classes[i]
		if i == class || k.lanes == 0 {
			continue
		}
		if k.anywhere > 0 && slot.Available || k.covers != nil && k.covers[place] > 0 {
			above = min(above, g.world.BusyAbove(i, slot).Prefill)
		}
	}
	return above
}

// By returns the name of a class that guards a rank with the load for a class, empty
// if none does.
func (g *Guards) By(class, place int, prefill int64) string {
	if !g.Binds(class) || prefill <= g.Above(class, place) {
		return ""
	}
	slot := &g.world.Table.Slots()[place]
	for i := range g.classes {
		k := &g.classes[i]
		covers := k.anywhere > 0 && slot.Available || k.covers != nil && k.covers[place] > 0
		if i != class && covers && prefill > g.world.BusyAbove(i, slot).Prefill {
			return g.world.Profile.Class(i).Name
		}
	}
	return ""
}
