package queue

// Budget bounds what one call does for others. It counts work, not steps: each
// rank looked at, lane tested, heap step, leaver and grant costs what it takes,
// in units of about ten nanoseconds.
type Budget struct{ left int }

// NewBudget returns a budget of so many units.
func NewBudget(units int) Budget { return Budget{left: units} }

// Spend takes units and reports whether any are left. What was begun is finished:
// a budget may be overdrawn by one piece of work.
func (b *Budget) Spend(units int) bool {
	b.left -= units
	return b.left > 0
}

// Exhausted reports whether nothing is left.
func (b *Budget) Exhausted() bool { return b.left <= 0 }

// Left returns what is left, below 0 if overdrawn.
func (b *Budget) Left() int { return b.left }

// What pieces of work cost, in units of a budget.
const (
	// CostRank is one look at one rank.
	CostRank = 3
	// CostLane is to find the next lane in order.
	CostLane = 8
	// CostName is to look up one worker that a request names.
	CostName = 10
	// CostEntry is to add an entry to the queue or to take it out.
	CostEntry = 20
	// CostGrant is one attempt to book, its owner woken.
	CostGrant = 200
)
