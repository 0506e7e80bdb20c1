package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrInvalid is matched by every error of this package.
var ErrInvalid = errors.New("invalid policy")

// ConfigError is one fault of a profile or policy file.
type ConfigError struct {
	// Line is the line of the key in the file, from 1; 0 for a profile built
	// in code, or where the YAML reader gave none.
	Line int
	// Path is where the key stands, such as policy_classes[2].quantum. Empty
	// for a fault of the file as a whole.
	Path string
	// Key is the key itself, in the words of the file, such as quantum.
	Key string
	// Value is the offending value, shortened if long; empty if there is none.
	Value string
	// Rule says which rule was broken.
	Rule string
}

// Error names the line, the key, the value and the rule.
func (e *ConfigError) Error() string {
	var b strings.Builder
	b.WriteString(ErrInvalid.Error())
	if e.Line > 0 {
		fmt.Fprintf(&b, ": line %d", e.Line)
	}
	if e.Path != "" {
		b.WriteString(": ")
		b.WriteString(e.Path)
	}
	if e.Value != "" {
		b.WriteString(": ")
		b.WriteString(strconv.Quote(e.Value))
	}
	b.WriteString(": ")
	b.WriteString(e.Rule)
	return b.String()
}

// Unwrap returns [ErrInvalid].
func (e *ConfigError) Unwrap() error { return ErrInvalid }

// ConfigErrors holds all faults found, by line; the search ends at 200. It is
// what [New] and [Parse] return; errors.As also finds the first *ConfigError in
// it.
type ConfigErrors []*ConfigError

// Error lists the faults, one a line.
func (es ConfigErrors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (es ConfigErrors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

// maxFaults bounds what a hostile file can make us do, hold and print.
const maxFaults = 200

// faults collects what is wrong.
type faults struct {
	list ConfigErrors
}

func (f *faults) add(e *ConfigError) {
	if !f.full() {
		f.list = append(f.list, e)
	}
}

// full reports whether there is no use in looking for more.
func (f *faults) full() bool { return len(f.list) >= maxFaults }

// err returns the faults by line, or nil.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b *ConfigError) int { return a.Line - b.Line })
	if f.full() {
		f.list = append(f.list, &ConfigError{Rule: "too many faults: there may be more"})
	}
	return f.list
}

// section is the part of a profile a key belongs to.
type section uint8

const (
	inProfile section = iota
	inBucket
	inClass
	inModels
	inRouter
)

// place is where a key stands within one profile: the key itself, or, with an
// empty key, the item it belongs to.
type place struct {
	section section
	index   int
	key     string
}

// item returns the bucket, class or profile the key belongs to.
func (p place) item() place { return place{section: p.section, index: p.index} }

func (p place) path() string {
	key := shorten(p.key)
	item := ""
	switch p.section {
	case inProfile:
		return key
	case inRouter:
		return keyRouter + "." + key
	case inModels:
		if p.key == "" {
			return keyModels
		}
		return keyModels + "[" + strconv.Quote(key) + "]"
	case inBucket:
		item = keyBuckets + "[" + strconv.Itoa(p.index) + "]"
	case inClass:
		item = keyClasses + "[" + strconv.Itoa(p.index) + "]"
	}
	if p.key == "" {
		return item
	}
	return item + "." + key
}

// scope is one profile under examination: where its keys stand, and which of
// them are known to be wrong. A profile built in code has no lines.
type scope struct {
	faults *faults
	prefix string // of the paths: empty, or models["name"]
	lines  map[place]int
	bad    map[place]bool
}

func newScope(f *faults, prefix string) *scope {
	return &scope{faults: f, prefix: prefix, lines: map[place]int{}, bad: map[place]bool{}}
}

// isBad reports whether the key, or all of its item, has a fault already.
func (s *scope) isBad(at place) bool { return s.bad[at] || s.bad[at.item()] }

// report notes a fault, unless the same key has one already: what follows from
// a fault would only hide it.
func (s *scope) report(at place, value, rule string) {
	if s.isBad(at) {
		return
	}
	s.bad[at] = true
	s.faults.add(&ConfigError{
		Line: s.line(at), Path: s.path(at), Key: shorten(at.key), Value: shorten(value), Rule: rule,
	})
}

// path returns where the key stands in the file.
func (s *scope) path(at place) string {
	path := at.path()
	if s.prefix == "" || path == "" {
		return s.prefix + path
	}
	return s.prefix + "." + path
}

// line returns the line of the key or else of the nearest thing around it.
func (s *scope) line(at place) int {
	for _, p := range [...]place{at, at.item(), {}} {
		if line, ok := s.lines[p]; ok {
			return line
		}
	}
	return 0
}

// shorten keeps an error readable, whatever the file holds.
func shorten(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
