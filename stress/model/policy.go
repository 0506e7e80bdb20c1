package model

import "math/bits"

// Class is one policy class.
type Class struct {
	Name           string
	Family, Bucket string // both empty for an explicit class
	Order          string // fcfs, lcfs or wspt
	Quantum        int64
	Threshold      *int64
	Fraction       *float64
	KVFraction     *float64
	MaxRequests    int64   // 0 for none
	Ratio          float64 // 1 unless given
	Idle           bool    // chooses from the ranks that are not busy for it
	MaxAge         int64   // ns, 0 for none
	Guard          int64   // ns, 0 for none
	EndpointWait   int64   // ns, 0 for none
	Limits         [3]*int64
}

// Load is what makes a rank busy.
type Load struct {
	Prefill, Requests, Blocks int64
	MaxBatched, TotalBlocks   int64 // what its worker can do; 0 blocks: unknown
}

// LimitNames names the limits, in the order in which they are tested.
var LimitNames = [3]string{"requests", "raw-tokens", "cached-tokens"}

// Usage is what the waiting requests of a class amount to, as the limits count.
type Usage [3]int64

// CanQueue reports whether a request of the class can ever have to wait for a busy
// rank.
func (c *Class) CanQueue() bool {
	return c.Threshold != nil || c.Fraction != nil || c.KVFraction != nil || c.MaxRequests > 0
}

// NeverQueues returns the first limit that is 0.
func (c *Class) NeverQueues() (limit int, never bool) {
	for i, l := range c.Limits {
		if l != nil && *l == 0 {
			return i, true
		}
	}
	return 0, false
}

// Bound reports whether the guards of other classes bind this one: rule 12.
func (c *Class) Bound() bool {
	_, never := c.NeverQueues()
	return c.CanQueue() && !never
}

// Guards reports whether a request that has waited so long guards ranks.
func (c *Class) Guards(waited int64) bool {
	_, never := c.NeverQueues()
	return c.Guard > 0 && !never && waited >= c.Guard
}

// Awaits reports whether a request of the class waits for an endpoint: rule 13.
func (c *Class) Awaits() bool {
	_, never := c.NeverQueues()
	return c.EndpointWait > 0 && !never
}

// PrefillBusy reports whether a rank with that many active prefill tokens is busy.
func (c *Class) PrefillBusy(active, maxBatched int64) bool {
	return c.Threshold != nil && active > *c.Threshold ||
		c.Fraction != nil && float64(active) > *c.Fraction*float64(maxBatched)
}

// Busy reports whether a rank with that load is busy.
func (c *Class) Busy(l Load) bool {
	return c.PrefillBusy(l.Prefill, l.MaxBatched) ||
		c.MaxRequests > 0 && l.Requests >= c.MaxRequests ||
		c.KVFraction != nil && l.TotalBlocks > 0 && float64(l.Blocks) > *c.KVFraction*float64(l.TotalBlocks)
}

// MustWait is rule 3 of admission, given how many ranks are eligible, overload
// aside, and how many of those are busy or overloaded.
func (c *Class) MustWait(blocked, eligible int) bool {
	switch {
	case !c.CanQueue() || eligible == 0:
		return false
	case c.Ratio == 1:
		return blocked == eligible
	default:
		return float64(blocked) >= c.Ratio*float64(eligible)
	}
}

// Full returns the first limit that the usage has reached; a limit counts at least
// one worker.
func (c *Class) Full(used Usage, workers int) (limit int, bound int64, full bool) {
	workers = max(1, workers)
	for i, l := range c.Limits {
		if l == nil {
			continue
		}
		if bound := times(*l, workers); used[i] >= bound {
			return i, bound, true
		}
	}
	return 0, 0, false
}

// times multiplies and stops at the largest number.
func times(limit int64, workers int) int64 {
	const most = 1<<63 - 1
	high, low := bits.Mul64(uint64(limit), uint64(workers))
	if high > 0 || low > most {
		return most
	}
	return int64(low)
}

// Profile is the classes and how requests find theirs.
type Profile struct {
	Classes       []Class
	DefaultFamily string
	Buckets       []Bucket
}

// Tiers are what a cached block of the lower tiers is worth.
type Tiers struct{ Host, Disk float64 }

// Bucket is a range of uncached tokens that begins at Min.
type Bucket struct {
	Name string
	Min  *int64
}

// OneClass is the profile where no policy is given.
func OneClass() *Profile {
	zero := int64(0)
	return &Profile{
		Classes:       []Class{{Name: "default", Family: "default", Bucket: "all", Order: "fcfs", Quantum: 1, Ratio: 1}},
		DefaultFamily: "default", Buckets: []Bucket{{"all", &zero}},
	}
}

// Classify returns the class of a request: the explicit class it names, else the
// cell of the family it names, or of the default family.
func (p *Profile) Classify(name string, uncached int64) int {
	for i, c := range p.Classes {
		if c.Family == "" && c.Name == name {
			return i
		}
	}
	bucket := ""
	for _, b := range p.Buckets {
		if *b.Min <= uncached {
			bucket = b.Name
		}
	}
	for _, family := range []string{name, p.DefaultFamily} {
		for i, c := range p.Classes {
			if c.Family != "" && c.Family == family && c.Bucket == bucket {
				return i
			}
		}
	}
	panic("the matrix is complete")
}

// CanQueue reports whether any class can.
func (p *Profile) CanQueue() bool {
	for i := range p.Classes {
		if p.Classes[i].CanQueue() {
			return true
		}
	}
	return false
}
