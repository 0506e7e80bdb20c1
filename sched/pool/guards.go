package pool

import (
	"slices"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Guards says which ranks are guarded, and for which lanes. A lane that guards its ranks
// makes its class's prefill thresholds bind the other classes that can queue: a rank
// above them is guarded. The guards are kept by their owner, which knows which
// lanes wait, lane by lane; which ranks are above the thresholds is looked up in their
// loads. It is not safe for concurrent use. Nil has no guards.
//
// A lane is kept by the names in its constraints, not by the ranks that they leave.
// So a lane costs what it names, whatever the pool, and another table costs nothing.
type Guards struct {
	world   *World
	classes []guarding // by class; nil until a lane begins
	// lanes counts the lanes that guard.
	lanes int
	// ids and freed are scratch.
	ids, freed []uint64
}

// guarding are the lanes of one class that guard.
type guarding struct {
	lanes int
	plain cover // those that require no taints
	// tainted are the others, by the first taint that they require.
	tainted map[string][]*cover
}

// cover are the lanes of a class that require the same taints.
type cover struct {
	taints []string // sorted, each once
	lanes  int
	// wide counts the lanes that may use every available rank but those of the workers
	// that they exclude.
	wide    int
	workers map[uint64]naming
	// excludedBy counts the workers by how many of the wide lanes exclude them, from
	// 1 on.
	excludedBy []int
	// pins counts the pinned lanes by rank.
	pins map[lifecycle.RankID]int
}

// naming says how many lanes name a worker: as allowed, and as excluded from all.
type naming struct{ allow, exclude int }

// freedOneByOne is how many ranks are named, when a guard ends, before it is said that
// they may be all.
const freedOneByOne = 64

// Reset forgets all guards, for another policy.
func (g *Guards) Reset(w *World) { *g = Guards{world: w} }

// Follow goes over to another world of the same policy. The lanes stand.
func (g *Guards) Follow(w *World) { g.world = w }

// Begin notes that a lane guards its ranks. It returns how many workers that took a
// look at.
func (g *Guards) Begin(class int, c *shards.Constraints) (named int) {
	if g.classes == nil {
		g.classes = make([]guarding, g.world.Profile.Len())
	}
	k := &g.classes[class]
	g.lanes++
	k.lanes++
	cover := k.cover(c.RequiredTaints)
	cover.lanes++
	return cover.count(c, g.named(c), 1)
}

// End notes that a lane guards its ranks no longer, and calls free with each rank
// that the class may guard no longer for that reason, or with none if they may be all.
// It returns how many workers that took a look at.
func (g *Guards) End(class int, c *shards.Constraints, free func(*lifecycle.RankID)) (named int) {
	k := &g.classes[class]
	g.lanes--
	k.lanes--
	cover, ids := k.cover(c.RequiredTaints), g.named(c)
	cover.lanes--
	named = cover.count(c, ids, -1)
	defer k.drop(cover)
	switch {
	case c.Pinned:
		if named > 0 && !cover.covers(c.Pin) {
			free(&c.Pin)
		}
	case c.Allowed == nil:
		// A lane that excluded a worker did not guard it.
		if cover.wide == 0 || cover.excludedByAll() > cover.excludedByAllOf(ids) {
			free(nil)
		}
	default:
		named += g.freeWorkers(cover, ids, free)
	}
	return named
}

// freeWorkers frees the ranks of those of the workers that no guard in a cover names.
func (g *Guards) freeWorkers(cover *cover, ids []uint64, free func(*lifecycle.RankID)) (ranks int) {
	g.freed = g.freed[:0]
	for _, id := range ids {
		n := cover.workers[id]
		if n.allow > 0 || cover.wide > n.exclude {
			continue
		}
		from, to := g.world.Table.WorkerSlots(id)
		if ranks += to - from; ranks > freedOneByOne {
			free(nil)
			return len(g.freed)
		}
		g.freed = append(g.freed, id)
	}
	for _, id := range g.freed {
		from, to := g.world.Table.WorkerSlots(id)
		for place := from; place < to; place++ {
			free(&g.world.Table.Slots()[place].Rank)
		}
	}
	return ranks
}

// named returns the workers by which a lane counts, each once: those it allows and
// does not exclude or, if it allows all, those it excludes. They hold until the next
// call.
func (g *Guards) named(c *shards.Constraints) []uint64 {
	if c.Pinned {
		return nil
	}
	list := c.Allowed
	if list == nil {
		list = c.Excluded
	}
	g.ids = append(g.ids[:0], list...)
	slices.Sort(g.ids)
	g.ids = slices.Compact(g.ids)
	if c.Allowed != nil && len(c.Excluded) > 0 {
		excluded := slices.Sorted(slices.Values(c.Excluded))
		g.ids = slices.DeleteFunc(g.ids, func(id uint64) bool {
			_, found := slices.BinarySearch(excluded, id)
			return found
		})
	}
	return g.ids
}

// cover returns the cover of the lanes that require the taints, made if need be.
func (k *guarding) cover(required []string) *cover {
	if len(required) == 0 {
		return &k.plain
	}
	taints := slices.Compact(slices.Sorted(slices.Values(required)))
	for _, c := range k.tainted[taints[0]] {
		if slices.Equal(c.taints, taints) {
			return c
		}
	}
	if k.tainted == nil {
		k.tainted = make(map[string][]*cover)
	}
	c := &cover{taints: taints}
	k.tainted[taints[0]] = append(k.tainted[taints[0]], c)
	return c
}

// drop lets a cover without lanes go.
func (k *guarding) drop(c *cover) {
	switch {
	case c.lanes > 0:
	case c.taints == nil:
		k.plain = cover{}
	default:
		first := c.taints[0]
		k.tainted[first] = slices.DeleteFunc(k.tainted[first], func(other *cover) bool { return other == c })
		if len(k.tainted[first]) == 0 {
			delete(k.tainted, first)
		}
	}
}

// count counts a lane, given the workers by which it counts, and returns how many
// workers or ranks it counts by.
func (c *cover) count(lane *shards.Constraints, ids []uint64, by int) (named int) {
	if lane.Pinned {
		if !lane.Allows(lane.Pin.Worker) {
			return 0
		}
		if c.pins == nil {
			c.pins = make(map[lifecycle.RankID]int)
		}
		if c.pins[lane.Pin] += by; c.pins[lane.Pin] == 0 {
			delete(c.pins, lane.Pin)
		}
		return 1
	}
	wide := lane.Allowed == nil
	if wide {
		c.wide += by
	}
	if c.workers == nil && len(ids) > 0 {
		c.workers = make(map[uint64]naming)
	}
	for _, id := range ids {
		n := c.workers[id]
		if wide {
			c.tally(n.exclude, -1)
			n.exclude += by
			c.tally(n.exclude, 1)
		} else {
			n.allow += by
		}
		if n == (naming{}) {
			delete(c.workers, id)
		} else {
			c.workers[id] = n
		}
	}
	return len(ids)
}

// tally counts a worker among those that so many of the wide lanes exclude.
func (c *cover) tally(lanes, by int) {
	if lanes == 0 {
		return
	}
	for lanes >= len(c.excludedBy) {
		c.excludedBy = append(c.excludedBy, 0)
	}
	c.excludedBy[lanes] += by
}

// excludedByAll returns how many workers all wide lanes exclude. REQUIRES: there is
// one.
func (c *cover) excludedByAll() int {
	if c.wide >= len(c.excludedBy) {
		return 0
	}
	return c.excludedBy[c.wide]
}

// excludedByAllOf returns how many of the workers all wide lanes exclude.
func (c *cover) excludedByAllOf(ids []uint64) (n int) {
	for _, id := range ids {
		if c.workers[id].exclude == c.wide {
			n++
		}
	}
	return n
}

// covers reports whether any of the lanes may use the rank, given that it is
// available and its worker has their taints.
func (c *cover) covers(rank lifecycle.RankID) bool {
	if len(c.workers) == 0 {
		return c.wide > 0 || c.pins[rank] > 0
	}
	n := c.workers[rank.Worker]
	return c.wide > n.exclude || n.allow > 0 || c.pins[rank] > 0
}

// covers reports whether a lane of the class that guards may use the rank, overload
// aside.
func (k *guarding) covers(slot *shards.Slot) bool {
	if k.lanes == 0 || !slot.Available {
		return false
	}
	if k.plain.lanes > 0 && k.plain.covers(slot.Rank) {
		return true
	}
	if len(k.tainted) == 0 {
		return false
	}
	for _, taint := range slot.Worker.Taints {
		for _, c := range k.tainted[taint] {
			if slot.Worker.HasTaints(c.taints) && c.covers(slot.Rank) {
				return true
			}
		}
	}
	return false
}

// Lanes returns how many lanes guard their ranks.
func (g *Guards) Lanes() int { return g.lanes }

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
		if i != class && g.classes[i].covers(slot) {
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
		if i != class && g.classes[i].covers(slot) && prefill > g.world.BusyAbove(i, slot).Prefill {
			return g.world.Profile.Class(i).Name
		}
	}
	return ""
}
