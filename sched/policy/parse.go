package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxText is far beyond any real policy, which takes a few kilobytes, and
	// keeps what a hostile one can cost in bounds.
	maxText = 1 << 20
	// maxVisits cannot be exceeded by a text of maxText bytes but by means of
	// aliases, as each key or item takes two bytes.
	maxVisits = maxText / 2
)

// File is a policy file that has been read.
type File struct {
	// Root is the profile at the top of the file; nil if there is none there.
	Root *Profile
	// Models holds the profiles of single models. Each replaces the root as a
	// whole.
	Models map[string]*Profile
	// HostCacheHitWeight and DiskCacheHitWeight are what the router section of the
	// file says a cached block of that tier is worth; nil if it says nothing.
	HostCacheHitWeight, DiskCacheHitWeight *float64
	// Warnings tells what was accepted and is not taken over, never applies or
	// surprises, one line each.
	Warnings []string
}

// For returns the profile of a model: its own, else the root, else the one of
// [Default]. It may be called on nil.
func (f *File) For(model string) *Profile {
	p, _ := f.Find(model)
	return p
}

// Find does what For does, and reports whether the profile comes from the file: if not,
// no request ever waits, which a caller that names a model rarely means.
func (f *File) Find(model string) (p *Profile, found bool) {
	if f != nil {
		if p := f.Models[model]; p != nil {
			return p, true
		}
		if f.Root != nil {
			return f.Root, true
		}
	}
	return Default(), false
}

// Parse reads a policy file; see the package comment for its keys. Its error
// holds all faults, as [ConfigErrors], each with its line. An empty text is
// valid and has no profile. The text may have up to 1 MiB.
//
// Numbers are decimal, or begin with 0x, 0o or 0b. A whole number between 2^63
// and 2^64−1 counts as 2^63−1, which no count of tokens exceeds either.
// Aliases are followed; merge keys are refused.
func Parse(text []byte) (*File, error) {
	p := &parser{profiles: make(map[*yaml.Node]*Profile)}
	file := &File{}
	if root := p.document(text); root != nil {
		p.file(file, root)
	}
	if err := p.faults.err(); err != nil {
		return nil, err
	}
	file.Warnings = p.warnings
	return file, nil
}

// parser walks the nodes of one file. It recurses only as deep as the schema,
// however deep the file nests.
type parser struct {
	faults   faults
	warnings []string
	// profiles remembers what a node gave, as many models may alias one.
	profiles map[*yaml.Node]*Profile
	visits   int
}

// document returns the only document of the text; nil if there is nothing in it
// or no way to read it.
func (p *parser) document(text []byte) *yaml.Node {
	fault := func(line int, rule string) *yaml.Node {
		p.faults.add(&ConfigError{Line: line, Rule: rule})
		return nil
	}
	if len(text) > maxText {
		return fault(0, fmt.Sprintf("the file is larger than %d bytes", maxText))
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	doc, err := decode(dec)
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return fault(syntaxError(err))
	}
	switch more, err := decode(dec); {
	case err == nil:
		return fault(more.Line, "a policy file must be a single YAML document")
	case err != io.EOF:
		return fault(syntaxError(err))
	}
	root := resolve(doc.Content[0])
	if isNull(root) {
		return nil
	}
	return root
}

// decode reads the next document. A panic of the YAML reader over some odd text
// must not take the program down.
func decode(dec *yaml.Decoder) (doc *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the YAML reader failed: %v", r)
		}
	}()
	doc = new(yaml.Node)
	if err := dec.Decode(doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 {
		return nil, errors.New("not a document")
	}
	return doc, nil
}

// syntaxError takes the line out of the YAML reader's message.
func syntaxError(err error) (line int, rule string) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if number, after, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, text = n, after
			}
		}
	}
	return line, "not valid YAML: " + shorten(text)
}

// file reads the top of the file.
func (p *parser) file(file *File, root *yaml.Node) {
	s := newScope(&p.faults, "")
	s.lines[place{}] = root.Line
	var models *yaml.Node
	file.Root = p.profile(s, root, func(at place, v *yaml.Node) bool {
		switch at.key {
		case keyModels:
			models = v
		case keySelection, keyClassifier:
			p.section(s, at, v)
		case keyRouter:
			p.router(s, at, v, file)
		default:
			return false
		}
		return true
	})
	if models == nil {
		return
	}
	file.Models = make(map[string]*Profile)
	p.mapping(s, place{key: keyModels}, inModels, 0, models, func(at place, v *yaml.Node) bool {
		if at.key == "" {
			s.report(at, "", "the name of a model "+ruleNotEmpty)
			return true
		}
		if v == nil {
			s.report(at, "", ruleProfile)
			return true
		}
		profile, ok := p.profiles[v]
		if !ok {
			profile = p.model(s, at, v)
			p.profiles[v] = profile
		}
		file.Models[at.key] = profile
		return true
	})
}

// model reads the profile of one model.
func (p *parser) model(parent *scope, at place, n *yaml.Node) *Profile {
	s := newScope(&p.faults, at.path())
	s.lines[place{}] = parent.line(at)
	profile := p.profile(s, n, func(at place, _ *yaml.Node) bool {
		switch at.key {
		case keyModels, keySelection, keyRouter, keyClassifier:
		default:
			return false
		}
		s.report(at, "", "belongs at the top of the file, not inside a model")
		return true
	})
	if profile == nil && len(s.bad) == 0 {
		parent.report(at, "", ruleProfile)
	}
	return profile
}

// profile reads the three keys of a profile and gives the others away. It
// returns nil if it has a fault, or none of the keys.
func (p *parser) profile(s *scope, n *yaml.Node, other func(place, *yaml.Node) bool) *Profile {
	var cfg Config
	present := make(map[string]bool)
	p.mapping(s, place{}, inProfile, 0, n, func(at place, v *yaml.Node) bool {
		switch at.key {
		case keyDefaultFamily:
			cfg.DefaultFamily = p.text(s, at, v)
		case keyBuckets:
			cfg.Buckets = p.buckets(s, at, v)
		case keyClasses:
			cfg.Classes = p.classes(s, at, v)
		default:
			return other(at, v)
		}
		present[at.key] = present[at.key] || v != nil
		return true
	})
	needed := []string{keyDefaultFamily, keyBuckets, keyClasses}
	found := 0
	for _, key := range needed {
		if present[key] {
			found++
		}
	}
	if found == 0 {
		return nil
	}
	p.require(s, place{}, present, needed...)
	profile := check(cfg, s)
	if profile != nil {
		p.warnSurprises(s, profile.classes)
	}
	return profile
}

func (p *parser) buckets(s *scope, at place, n *yaml.Node) []Bucket {
	return list(p, s, at, n, func(b *Bucket, i int, item *yaml.Node) {
		p.item(s, inBucket, i, item, []string{keyMinTokens, keyBucket}, func(at place, v *yaml.Node) bool {
			switch at.key {
			case keyMinTokens:
				setInt(&b.MinTokens, p.integer(s, at, v))
			case keyBucket:
				b.Name = p.text(s, at, v)
			default:
				return false
			}
			return true
		})
	})
}

func (p *parser) classes(s *scope, at place, n *yaml.Node) []Class {
	return list(p, s, at, n, func(c *Class, i int, item *yaml.Node) {
		p.item(s, inClass, i, item, []string{keyName, keyQuantum}, func(at place, v *yaml.Node) bool {
			return p.classKey(s, c, at, v)
		})
		p.warnUnused(s, c, i)
	})
}

// classKey reads one key of a class, and reports whether it knows the key.
func (p *parser) classKey(s *scope, c *Class, at place, v *yaml.Node) bool {
	switch at.key {
	case keyName:
		c.Name = p.text(s, at, v)
	case keyFamily:
		c.Family = p.text(s, at, v)
	case keyCacheBucket:
		c.Bucket = p.text(s, at, v)
	case keyOrder:
		c.Order = p.order(s, at, v)
	case keyQuantum:
		setInt(&c.Quantum, p.integer(s, at, v))
	case keyThreshold:
		c.BusyThreshold = p.integer(s, at, v)
	case keyFrac:
		c.BusyThresholdFrac = p.number(s, at, v)
	case keyRatio:
		c.BusyWorkerRatio = p.ratio(s, at, v)
	case keyAge:
		c.MaxQueueAge = p.seconds(s, at, v)
	case keyMaxRequests:
		c.MaxRequestsPerRank = p.atLeastOne(s, at, v)
	case keyKVFrac:
		c.KVBusyThresholdFrac = p.number(s, at, v)
	case keyChooseFrom:
		c.ChooseFrom = p.chooseFrom(s, at, v)
	case keyGuard:
		c.GuardAfter = p.seconds(s, at, v)
	case keyEndpointWait:
		c.EndpointWait = p.secondsOrNone(s, at, v)
	case keyRequestLimit:
		c.Limits.Requests = p.integer(s, at, v)
	case keyRawLimit:
		c.Limits.RawTokens = p.integer(s, at, v)
	case keyCachedLimit:
		c.Limits.CachedTokens = p.integer(s, at, v)
	case keyStages:
		p.notTaken(s, at, v, "make a scheduler for each stage, see Config.Role")
	case keyAdmission:
		p.notTaken(s, at, v, "name a class in Request.Class, and bound it by its limits")
	default:
		return false
	}
	return true
}
