package measure

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// Classes counts what became of requests, by the class in which they were decided.
// The sums over all classes are the counters of the whole scheduler: a booking counts
// once, in the counter of its class.
//
// Classes are known by their names, whatever the profile, so that a counter only
// grows while profiles that have its class come and go. Of the classes that the
// present profile lacks those are kept that went last; what the others counted is
// kept as a sum.
//
// A class may be counted in after it went, by a request that was decided before. Why
// that is not lost: the request adds to the class's counter and then looks whether
// the class has gone; a class is first marked as gone and then its counters are read
// into the sum. So either the sum has the addition, or the request sees the mark and
// has the counters read again.
type Classes struct {
	codes int
	waits Buckets
	// table is replaced under mu and read by all.
	table atomic.Pointer[table]
	// mu is held while classes go, so that a sum over all counts each decision once. It
	// is a leaf.
	mu struct {
		sync.Mutex
		// lacking are the classes that the profile lacks, in the order in which it came
		// to lack them.
		lacking []*Class
		// gone is what those counted that were let go.
		gone Totals
	}
}

// table is the classes as of one profile.
type table struct {
	profile *policy.Profile
	of      []*Class // by their index in the profile
	byName  map[string]*Class
	none    *Class // of rejections in no class, made before one was looked for
}

// mostLacking is how many classes are kept that the present profile lacks.
const mostLacking = 256

// Class counts for one class.
type Class struct {
	name    string
	classes *Classes
	// admitted is striped, and nil until the first admission: a scheduler may have many
	// classes that are not used.
	admitted atomic.Pointer[xsync.Counter]
	waits    atomic.Pointer[Histogram] // nil until a request of the class waited
	gone     atomic.Bool
	rejected []atomic.Int64 // by code; apart, so that a flood leaves the line above alone
	summed   Totals         // what is in Classes.mu.gone of this class; guarded by Classes.mu
}

// Totals are counters at one moment.
type Totals struct {
	Admitted int64
	Rejected []int64 // by code
}

// NewClasses returns the counters for a profile. Rejections have a code below codes;
// waits has the buckets of the times that requests waited.
func NewClasses(p *policy.Profile, codes int, waits Buckets) *Classes {
	c := &Classes{codes: codes, waits: waits}
	c.mu.gone = c.totals()
	c.table.Store(&table{none: c.class("")})
	c.SetProfile(p)
	return c
}

func (c *Classes) totals() Totals { return Totals{Rejected: make([]int64, c.codes)} }

func (c *Classes) class(name string) *Class {
	return &Class{name: name, classes: c, rejected: make([]atomic.Int64, c.codes), summed: c.totals()}
}

// SetProfile goes over to another profile. It comes before the profile is published.
func (c *Classes) SetProfile(p *policy.Profile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.table.Load()
	next := &table{profile: p, of: make([]*Class, p.Len()), byName: maps.Clone(old.byName), none: old.none}
	if next.byName == nil {
		next.byName = make(map[string]*Class, p.Len())
	}
	present := make(map[*Class]bool, p.Len())
	for i := range next.of {
		name := p.Class(i).Name
		if next.byName[name] == nil {
			next.byName[name] = c.class(name)
		}
		next.of[i] = next.byName[name]
		present[next.of[i]] = true
	}
	isPresent := func(class *Class) bool { return present[class] }
	lacking := append(slices.DeleteFunc(c.mu.lacking, isPresent), slices.DeleteFunc(slices.Clone(old.of), isPresent)...)
	for _, class := range lacking[:max(0, len(lacking)-mostLacking)] {
		delete(next.byName, class.name)
		class.gone.Store(true)
		c.sumLocked(class)
	}
	c.mu.lacking = slices.Clone(lacking[max(0, len(lacking)-mostLacking):])
	c.table.Store(next)
}

// sumLocked reads into the sum what a class that has gone counted since the last
// time.
func (c *Classes) sumLocked(class *Class) {
	now := class.Totals()
	c.mu.gone.Admitted += now.Admitted - class.summed.Admitted
	for code, n := range now.Rejected {
		c.mu.gone.Rejected[code] += n - class.summed.Rejected[code]
	}
	class.summed = now
}

// Of returns a class of a profile that is or was published.
func (c *Classes) Of(p *policy.Profile, class int) *Class {
	t := c.table.Load()
	if t.profile == p {
		return t.of[class]
	}
	name := p.Class(class).Name
	if found := t.byName[name]; found != nil {
		return found
	}
	found := c.class(name)
	found.gone.Store(true)
	return found
}

// Named returns the class of that name, or the one that counts rejections in no
// class.
func (c *Classes) Named(name string) *Class {
	t := c.table.Load()
	if class := t.byName[name]; class != nil {
		return class
	}
	return t.none
}

// Totals returns the sums over all classes, of those that have gone too.
func (c *Classes) Totals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := Totals{c.mu.gone.Admitted, slices.Clone(c.mu.gone.Rejected)}
	t := c.table.Load()
	for _, class := range t.byName {
		class.addTo(&sum)
	}
	t.none.addTo(&sum)
	return sum
}

// Name returns the name of the class.
func (c *Class) Name() string { return c.name }

// Admit counts a booking.
func (c *Class) Admit() {
	admitted := c.admitted.Load()
	if admitted == nil {
		admitted = xsync.NewCounter()
		if !c.admitted.CompareAndSwap(nil, admitted) {
			admitted = c.admitted.Load()
		}
	}
	admitted.Inc()
	c.counted()
}

// Reject counts a rejection.
func (c *Class) Reject(code int) {
	c.rejected[code].Add(1)
	c.counted()
}

func (c *Class) counted() {
	if c.gone.Load() {
		c.classes.mu.Lock()
		defer c.classes.mu.Unlock()
		c.classes.sumLocked(c)
	}
}

// Waited counts how long a request waited, in ns.
func (c *Class) Waited(ns int64) {
	waits := c.waits.Load()
	if waits == nil {
		waits = c.classes.waits.Histogram()
		if !c.waits.CompareAndSwap(nil, waits) {
			waits = c.waits.Load()
		}
	}
	waits.Record(ns)
}

// Waits returns how long requests waited.
func (c *Class) Waits() Reading { return c.classes.waits.Read(c.waits.Load()) }

// Totals returns the counters of the class.
func (c *Class) Totals() Totals {
	t := c.classes.totals()
	c.addTo(&t)
	return t
}

func (c *Class) addTo(t *Totals) {
	if admitted := c.admitted.Load(); admitted != nil {
		t.Admitted += admitted.Value()
	}
	for code := range c.rejected {
		t.Rejected[code] += c.rejected[code].Load()
	}
}
