package policy

import (
	"slices"
	"sort"
	"sync"
)

// Bucket is one column of the matrix: it takes the requests that have at least
// MinTokens uncached tokens and fewer than the next bucket's minimum.
type Bucket struct {
	// MinTokens is 0 for the first bucket and grows from one to the next.
	MinTokens int64
	// Name is unique among the buckets: letters, digits, "_", "." and "-".
	Name string
}

// Config describes a profile to be built in code. The rules are those of a
// policy file.
type Config struct {
	// DefaultFamily takes the requests that ask for no family, or for one that
	// does not exist. It must have classes.
	DefaultFamily string
	// Buckets are the columns of the matrix, at least one.
	Buckets []Bucket
	// Classes fill each cell of the matrix exactly once, for each family that
	// they name; those without family and bucket are explicit classes.
	Classes []Class
}

// Profile is a complete set of classes. It is immutable and safe for concurrent
// use. Make one with [New], [Parse] or [Default].
type Profile struct {
	defaultFamily string
	buckets       []Bucket
	classes       []Class

	// names finds what a request may ask for by name.
	names map[string]target
	// table holds the class of each cell, families one after the other.
	table []int
	// fallback is the row of the default family.
	fallback int
	// Whether any class can queue, guards, or waits for an endpoint.
	canQueue, guards, waits bool
}

// target is an explicit class, or a row of the matrix.
type target struct {
	explicit bool
	index    int
}

// New builds a profile. It copies what it keeps. Its error holds all faults, as
// [ConfigErrors].
func New(cfg Config) (*Profile, error) {
	var f faults
	p := check(cfg, newScope(&f, ""))
	if err := f.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// Default returns the profile that holds where none is configured: one class "default"
// with quantum 1, no threshold and no limit, so that no request waits.
func Default() *Profile { return byDefault() }

var byDefault = sync.OnceValue(func() *Profile {
	p, err := New(Config{
		DefaultFamily: "default",
		Buckets:       []Bucket{{Name: "all"}},
		Classes:       []Class{{Name: "default", Family: "default", Bucket: "all", Quantum: 1}},
	})
	if err != nil {
		panic("policy: the default profile breaks a rule: " + err.Error())
	}
	return p
})

// assemble builds the profile of a config that has been checked, with its rows.
func assemble(cfg Config, rows []family) *Profile {
	p := &Profile{
		defaultFamily: cfg.DefaultFamily,
		buckets:       slices.Clone(cfg.Buckets),
		classes:       cloneClasses(cfg.Classes),
		names:         make(map[string]target, len(rows)),
		table:         make([]int, len(rows)*len(cfg.Buckets)),
	}
	for row, f := range rows {
		p.names[f.name] = target{index: row}
		if f.name == cfg.DefaultFamily {
			p.fallback = row
		}
		for bucket, class := range f.cells {
			p.table[row*len(cfg.Buckets)+bucket] = class
		}
	}
	for i := range p.classes {
		c := &p.classes[i]
		p.canQueue = p.canQueue || c.CanQueue()
		p.guards = p.guards || c.Guards()
		p.waits = p.waits || c.WaitsForEndpoint()
		if c.Family == "" {
			p.names[c.Name] = target{explicit: true, index: i}
		}
	}
	return p
}

// Len returns the number of classes, at least 1.
func (p *Profile) Len() int { return len(p.classes) }

// Class returns the i-th class in profile order. It must not be changed.
func (p *Profile) Class(i int) *Class { return &p.classes[i] }

// Classes returns a copy of the classes in profile order.
func (p *Profile) Classes() []Class { return cloneClasses(p.classes) }

// Config returns what the profile was built from, as a copy: New(p.Config())
// gives an equal profile.
func (p *Profile) Config() Config {
	return Config{DefaultFamily: p.defaultFamily, Buckets: slices.Clone(p.buckets), Classes: p.Classes()}
}

// CanQueue reports whether busy ranks can make requests of any class wait.
func (p *Profile) CanQueue() bool { return p.canQueue }

// Guards reports whether any class can come to guard ranks.
func (p *Profile) Guards() bool { return p.guards }

// WaitsForEndpoint reports whether requests of any class may wait while they have no
// rank that they may use.
func (p *Profile) WaitsForEndpoint() bool { return p.waits }

// ByNameAlone reports whether a request's class depends on its name alone, as
// there is one bucket.
func (p *Profile) ByNameAlone() bool { return len(p.buckets) == 1 }

// Classify returns the index of the class of a request that asks for name and
// has that many uncached tokens: the explicit class of that name, else the cell
// of the family of that name (unknown or empty: the default family) in the last
// bucket whose minimum is not above the tokens. The name of a class in the
// matrix is no way around the buckets: it counts as unknown. It allocates
// nothing.
func (p *Profile) Classify(name string, uncached int64) int {
	row := p.fallback
	if t, ok := p.names[name]; ok {
		if t.explicit {
			return t.index
		}
		row = t.index
	}
	// The first bucket starts at 0, so fewer tokens than that belong to it.
	above := sort.Search(len(p.buckets), func(i int) bool { return p.buckets[i].MinTokens > uncached })
	return p.table[row*len(p.buckets)+max(0, above-1)]
}

// Knows reports whether a request may ask for that name: an explicit class or a
// family. Any other gets the default family.
func (p *Profile) Knows(name string) bool {
	_, ok := p.names[name]
	return ok
}

func cloneClasses(classes []Class) []Class {
	out := make([]Class, len(classes))
	for i := range classes {
		out[i] = classes[i].clone()
	}
	return out
}
