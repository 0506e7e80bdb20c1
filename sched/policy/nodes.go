package policy

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The tags of scalars, as the YAML reader resolves them.
const (
	tagNull  = "!!null"
	tagBool  = "!!bool"
	tagInt   = "!!int"
	tagFloat = "!!float"
	tagMerge = "!!merge"
)

// resolve follows an alias; an alias never stands for another alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == tagNull }

// visit counts a key or item, and reports whether to go on. Where it says no
// there is a fault, so that it does not matter what is left out.
func (p *parser) visit() bool {
	p.visits++
	if p.visits == maxVisits+1 {
		p.faults.add(&ConfigError{Rule: "aliases make the file too large"})
	}
	return p.visits <= maxVisits && !p.faults.full()
}

// mapping calls field for each key of n, with nil for a null value, which counts
// as absent. It notes where each key stands, and reports repeated keys, and
// unknown ones, for which field returns false.
func (p *parser) mapping(s *scope, at place, sec section, index int, n *yaml.Node, field func(place, *yaml.Node) bool) {
	if n.Kind != yaml.MappingNode {
		if _, ok := s.lines[at]; !ok {
			s.lines[at] = n.Line
		}
		s.report(at, n.Value, "must be a mapping, not "+describe(n))
		return
	}
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content) && p.visit(); i += 2 {
		k, v := resolve(n.Content[i]), resolve(n.Content[i+1])
		key := place{sec, index, k.Value}
		line := n.Content[i].Line
		if first, ok := seen[k.Value]; ok && k.Kind == yaml.ScalarNode {
			s.faultAt(line, key, "repeats the key of line "+strconv.Itoa(first))
			continue
		}
		switch {
		case k.Kind != yaml.ScalarNode || isNull(k):
			s.faultAt(line, key, "a key must be a string, not "+describe(k))
			continue
		case k.ShortTag() == tagMerge:
			s.faultAt(line, key, "merge keys are not supported: write the keys out, or alias the value as a whole")
			continue
		}
		seen[k.Value] = line
		s.lines[key] = line
		if isNull(v) {
			v = nil
		}
		if !field(key, v) {
			s.report(key, "", "unknown key")
		}
	}
}

// faultAt reports a fault of a key as such, which hides none of its value.
func (s *scope) faultAt(line int, at place, rule string) {
	s.faults.add(&ConfigError{Line: line, Path: s.path(at), Key: shorten(at.key), Rule: rule})
}

// item reads one item of a list, which must be a mapping with at least the keys
// needed.
func (p *parser) item(s *scope, sec section, index int, n *yaml.Node, needed []string, field func(place, *yaml.Node) bool) {
	at := place{section: sec, index: index}
	s.lines[at] = n.Line
	present := make(map[string]bool)
	p.mapping(s, at, sec, index, n, func(at place, v *yaml.Node) bool {
		present[at.key] = v != nil
		return field(at, v)
	})
	p.require(s, at, present, needed...)
}

// require reports the keys that are not present.
func (p *parser) require(s *scope, at place, present map[string]bool, needed ...string) {
	for _, key := range needed {
		if !present[key] {
			at.key = key
			s.report(at, "", ruleRequired)
		}
	}
}

// list reads a list, each item by read, which is given where to put it.
func list[T any](p *parser, s *scope, at place, n *yaml.Node, read func(to *T, i int, item *yaml.Node)) []T {
	items := p.items(s, at, n)
	out := make([]T, len(items))
	for i, item := range items {
		if p.faults.full() {
			break
		}
		read(&out[i], i, item)
	}
	return out
}

// items returns the items of a list, aliases followed.
func (p *parser) items(s *scope, at place, n *yaml.Node) []*yaml.Node {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		s.report(at, n.Value, "must be a list, not "+describe(n))
		return nil
	}
	var items []*yaml.Node
	for _, item := range n.Content {
		if !p.visit() {
			break
		}
		items = append(items, resolve(item))
	}
	return items
}

// text reads a name. Any scalar will do, as in Dynamo, so that a bucket may be
// called 4096.
func (p *parser) text(s *scope, at place, n *yaml.Node) string {
	switch {
	case n == nil:
		return ""
	case n.Kind != yaml.ScalarNode:
		s.report(at, "", "must be a string, not "+describe(n))
	case n.Value == "":
		s.report(at, "", ruleNotEmpty)
	}
	return n.Value
}

func (p *parser) order(s *scope, at place, n *yaml.Node) Order {
	if n == nil {
		return FCFS
	}
	order, err := ParseOrder(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		s.report(at, n.Value, ruleOrder)
	}
	return order
}

// integer reads a whole number; nil if there is none or it is no such number.
func (p *parser) integer(s *scope, at place, n *yaml.Node) *int64 {
	if n == nil {
		return nil
	}
	v, rule := parseInteger(n)
	if rule != "" {
		s.report(at, n.Value, rule)
		return nil
	}
	return &v
}

// number reads a whole or decimal number; nil if there is none or it is no such
// number.
func (p *parser) number(s *scope, at place, n *yaml.Node) *float64 {
	if n == nil {
		return nil
	}
	v, rule := parseNumber(n)
	if rule != "" {
		s.report(at, n.Value, rule)
		return nil
	}
	return &v
}

// ratio reads busy_worker_ratio. In a file 0 is a fault; in a Class it stands
// for an absent ratio.
func (p *parser) ratio(s *scope, at place, n *yaml.Node) float64 {
	v := p.number(s, at, n)
	if v == nil {
		return 0
	}
	if *v == 0 {
		s.report(at, n.Value, ruleRatio)
	}
	return *v
}

// seconds reads a time that must be greater than 0, rounded to nanoseconds but never
// to 0, which would mean none.
func (p *parser) seconds(s *scope, at place, n *yaml.Node) time.Duration {
	v := p.number(s, at, n)
	switch {
	case v == nil:
		return 0
	case !(*v > 0) || math.IsInf(*v, 1):
		s.report(at, n.Value, rulePositive)
		return 0
	}
	return max(1, p.nanoseconds(s, at, n, *v))
}

// secondsOrNone reads a time that may be 0, rounded to nanoseconds.
func (p *parser) secondsOrNone(s *scope, at place, n *yaml.Node) time.Duration {
	v := p.number(s, at, n)
	switch {
	case v == nil:
		return 0
	case !(*v >= 0) || math.IsInf(*v, 1):
		s.report(at, n.Value, ruleSeconds)
		return 0
	}
	return p.nanoseconds(s, at, n, *v)
}

// nanoseconds rounds a number of seconds, which must fit a time.Duration.
func (p *parser) nanoseconds(s *scope, at place, n *yaml.Node, seconds float64) time.Duration {
	ns := math.Round(seconds * float64(time.Second))
	if ns >= 1<<63 {
		s.report(at, n.Value, ruleTooLong)
		return 0
	}
	return time.Duration(ns)
}

// atLeastOne reads a whole number for which 0 is a fault; in a Class it stands for an
// absent one.
func (p *parser) atLeastOne(s *scope, at place, n *yaml.Node) int64 {
	v := p.integer(s, at, n)
	if v == nil {
		return 0
	}
	if *v < 1 {
		s.report(at, n.Value, ruleAtLeastOne)
	}
	return *v
}

func (p *parser) chooseFrom(s *scope, at place, n *yaml.Node) ChooseFrom {
	if n == nil {
		return ChooseEligible
	}
	c, err := ParseChooseFrom(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		s.report(at, n.Value, ruleChooseFrom)
	}
	return c
}

// parseInteger reads decimal digits, or 0x, 0o, 0b and digits. It refuses what
// readers of YAML 1.1 and 1.2 take for different numbers: leading zeros and
// underscores.
func parseInteger(n *yaml.Node) (v int64, rule string) {
	const ruleInteger = "must be a whole number"
	text := n.Value
	negative := strings.HasPrefix(text, "-")
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "-"), "+")
	switch {
	case n.Kind != yaml.ScalarNode:
		return 0, ruleInteger + ", not " + describe(n)
	case n.ShortTag() == tagFloat && strings.Trim(digits, "0123456789") != "":
		return 0, ruleInteger
	case n.ShortTag() != tagInt && n.ShortTag() != tagFloat:
		return 0, ruleInteger + ", not " + describe(n)
	}
	base := 10
	if len(digits) > 1 && digits[0] == '0' {
		switch digits[1] {
		case 'x':
			base = 16
		case 'o':
			base = 8
		case 'b':
			base = 2
		default:
			return 0, ruleInteger + " without leading zeros or underscores"
		}
		digits = digits[2:]
	}
	u, err := strconv.ParseUint(digits, base, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), negative && u > 1<<63:
		return 0, "is out of range"
	case err != nil:
		return 0, ruleInteger + " without leading zeros or underscores"
	case negative:
		return -int64(u), "" // 2^63 becomes the least int64, as it should
	}
	return int64(min(u, math.MaxInt64)), ""
}

// parseNumber reads whole and decimal numbers; .inf and .nan are numbers too,
// for the rules to refuse.
func parseNumber(n *yaml.Node) (v float64, rule string) {
	const ruleNumber = "must be a number"
	if n.Kind != yaml.ScalarNode || (n.ShortTag() != tagInt && n.ShortTag() != tagFloat) {
		return 0, ruleNumber + ", not " + describe(n)
	}
	switch strings.ToLower(n.Value) {
	case ".inf", "+.inf":
		return math.Inf(1), ""
	case "-.inf":
		return math.Inf(-1), ""
	case ".nan":
		return math.NaN(), ""
	}
	if n.ShortTag() == tagInt {
		i, rule := parseInteger(n)
		return float64(i), rule
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if err != nil {
		return 0, ruleNumber
	}
	return v, ""
}

// describe says what a node is, for errors.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		// A scalar, told apart by its tag.
	}
	switch n.ShortTag() {
	case tagNull:
		return "null"
	case tagBool:
		return "a boolean"
	case tagInt:
		return "a whole number"
	case tagFloat:
		return "a number"
	}
	return "a string"
}

func setInt(dst, src *int64) {
	if src != nil {
		*dst = *src
	}
}
