package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The keys of a policy file.
const (
	keyDefaultFamily = "default_policy_family"
	keyBuckets       = "uncached_isl_buckets"
	keyClasses       = "policy_classes"
	keyModels        = "models"
	keySelection     = "worker_selection"
	keyRouter        = "router"
	keyClassifier    = "request_classifier"

	keyMinTokens = "min_tokens"
	keyBucket    = "bucket"

	keyName         = "name"
	keyFamily       = "policy_family"
	keyCacheBucket  = "cache_bucket"
	keyOrder        = "queue_policy"
	keyQuantum      = "quantum"
	keyThreshold    = "prefill_busy_threshold"
	keyFrac         = "prefill_busy_threshold_frac"
	keyRatio        = "busy_worker_ratio"
	keyAge          = "max_queue_age"
	keyMaxRequests  = "max_requests_per_rank"
	keyKVFrac       = "kv_busy_threshold_frac"
	keyChooseFrom   = "choose_from"
	keyGuard        = "guard_after"
	keyEndpointWait = "endpoint_wait"
	keyRequestLimit = "request_queue_limit_per_worker"
	keyRawLimit     = "raw_isl_token_queue_limit_per_worker"
	keyCachedLimit  = "cached_token_queue_limit_per_worker"
	keyStages       = "stages"
	keyAdmission    = "admission"
)

// Rules that are tested in more than one place.
const (
	ruleRequired = "is required"
	ruleNotEmpty = "must not be empty"
	ruleOrder    = "must be fcfs, lcfs or wspt"
	ruleRatio    = "must be greater than 0 and at most 1"
	ruleNegative = "must not be negative"

	ruleChooseFrom = "must be eligible or idle"
	rulePositive   = "must be finite and greater than 0"
	ruleSeconds    = "must be finite and not negative"
	ruleTooLong    = "must be less than 2^63 nanoseconds, some 292 years"
	ruleAtLeastOne = "must be at least 1"
	ruleThreshold  = "needs " + keyThreshold + ", " + keyFrac + ", " + keyMaxRequests + " or " + keyKVFrac
	rulePrefill    = "needs " + keyThreshold + " or " + keyFrac
	ruleProfile    = "must be a profile: " + keyDefaultFamily + ", " + keyBuckets + " and " + keyClasses
)

// family is one row of the matrix while it is checked.
type family struct {
	name  string
	first int         // the first class that names it
	cells map[int]int // bucket → class
}

// check reports every rule that the config breaks, and returns the profile if
// it breaks none. The scope may hold faults of the same profile already: then
// rules that could only fail because of these are passed over.
func check(cfg Config, s *scope) *Profile {
	if s.faults.full() {
		return nil
	}
	checkName(s, place{key: keyDefaultFamily}, cfg.DefaultFamily)
	buckets, bucketsKnown := checkBuckets(cfg.Buckets, s)
	checkClasses(cfg.Classes, s)
	rows := checkMatrix(cfg, s, buckets, bucketsKnown)
	if len(s.bad) > 0 {
		return nil
	}
	return assemble(cfg, rows)
}

// checkBuckets returns the index of each bucket name, and whether all names
// could be read and differ.
func checkBuckets(buckets []Bucket, s *scope) (byName map[string]int, known bool) {
	if len(buckets) == 0 {
		s.report(place{key: keyBuckets}, "", ruleNotEmpty)
		return nil, false
	}
	byName = make(map[string]int, len(buckets))
	known = true
	for i, b := range buckets {
		at := place{inBucket, i, keyBucket}
		checkName(s, at, b.Name)
		if first, ok := byName[b.Name]; ok {
			s.report(at, b.Name, "repeats the name of "+keyBuckets+"["+strconv.Itoa(first)+"]")
		} else {
			byName[b.Name] = i
		}
		known = known && !s.isBad(at)

		at.key = keyMinTokens
		value := strconv.FormatInt(b.MinTokens, 10)
		switch {
		case b.MinTokens < 0:
			s.report(at, value, ruleNegative)
		case i == 0 && b.MinTokens != 0:
			s.report(at, value, "must be 0 for the first bucket")
		case i > 0 && b.MinTokens <= buckets[i-1].MinTokens:
			s.report(at, value, fmt.Sprintf("must be greater than that of the bucket before, %d", buckets[i-1].MinTokens))
		}
	}
	return byName, known
}

// checkClasses tests what concerns each class alone, and that names differ.
func checkClasses(classes []Class, s *scope) {
	if len(classes) == 0 {
		s.report(place{key: keyClasses}, "", ruleNotEmpty)
	}
	names := make(map[string]int, len(classes))
	for i := range classes {
		c := &classes[i]
		at := place{inClass, i, keyName}
		checkName(s, at, c.Name)
		if first, ok := names[c.Name]; ok {
			s.report(at, c.Name, "repeats the name of "+keyClasses+"["+strconv.Itoa(first)+"]")
		} else {
			names[c.Name] = i
		}
		checkClass(c, i, s)
	}
}

func checkClass(c *Class, i int, s *scope) {
	report := func(key string, value any, rule string) {
		s.report(place{inClass, i, key}, fmt.Sprint(value), rule)
	}
	if c.Order > WSPT {
		report(keyOrder, c.Order, ruleOrder)
	}
	if c.Quantum <= 0 {
		report(keyQuantum, c.Quantum, "must be greater than 0")
	}
	for _, n := range [...]struct {
		key   string
		value *int64
	}{
		{keyThreshold, c.BusyThreshold},
		{keyRequestLimit, c.Limits.Requests},
		{keyRawLimit, c.Limits.RawTokens},
		{keyCachedLimit, c.Limits.CachedTokens},
	} {
		if n.value != nil && *n.value < 0 {
			report(n.key, *n.value, ruleNegative)
		}
	}
	for _, f := range [...]struct {
		key   string
		value *float64
	}{{keyFrac, c.BusyThresholdFrac}, {keyKVFrac, c.KVBusyThresholdFrac}} {
		if v := f.value; v != nil && !(*v >= 0 && !math.IsInf(*v, 1)) {
			report(f.key, *v, "must be finite and not negative")
		}
	}
	if c.MaxRequestsPerRank < 0 {
		report(keyMaxRequests, c.MaxRequestsPerRank, ruleAtLeastOne)
	}
	checkNeeds(c, i, s, report)
	if c.MaxQueueAge < 0 {
		report(keyAge, c.MaxQueueAge, rulePositive)
	}
	if c.EndpointWait < 0 {
		report(keyEndpointWait, c.EndpointWait, ruleSeconds)
	}
	if c.Family != "" {
		checkName(s, place{inClass, i, keyFamily}, c.Family)
	}
	switch {
	case c.Family == "" && c.Bucket != "":
		report(keyFamily, "", "is required beside "+keyCacheBucket+"; an explicit class has neither")
	case c.Family != "" && c.Bucket == "":
		report(keyCacheBucket, "", "is required beside "+keyFamily+"; an explicit class has neither")
	}
}

// checkNeeds tests the keys that need others beside them. A key that is needed and
// has a fault of its own is not missing.
func checkNeeds(c *Class, i int, s *scope, report func(key string, value any, rule string)) {
	missing := func(present bool, keys ...string) bool {
		for _, key := range keys {
			present = present || s.isBad(place{inClass, i, key})
		}
		return !present
	}
	noPrefill := missing(c.HasPrefillThreshold(), keyThreshold, keyFrac)
	noThreshold := noPrefill && missing(c.CanQueue(), keyMaxRequests, keyKVFrac)
	if r := c.BusyWorkerRatio; r != 0 {
		switch {
		case !(r > 0 && r <= 1):
			report(keyRatio, r, ruleRatio)
		case noThreshold:
			report(keyRatio, r, ruleThreshold)
		}
	}
	switch {
	case c.ChooseFrom > ChooseIdle:
		report(keyChooseFrom, c.ChooseFrom, ruleChooseFrom)
	case c.ChooseFrom == ChooseIdle && noThreshold:
		report(keyChooseFrom, c.ChooseFrom, ruleThreshold)
	}
	switch g := c.GuardAfter; {
	case g < 0:
		report(keyGuard, g, rulePositive)
	case g > 0 && noPrefill:
		report(keyGuard, g, rulePrefill)
	case g > 0 && c.BusyWorkerRatio != 0:
		report(keyGuard, g, "must not stand beside "+keyRatio)
	}
}

// checkMatrix tests that each cell has its class, and returns the rows.
func checkMatrix(cfg Config, s *scope, buckets map[string]int, bucketsKnown bool) []family {
	var rows []family
	byName := make(map[string]int)
	placed := true // every class of the matrix has found its cell
	for i, c := range cfg.Classes {
		at := place{inClass, i, keyCacheBucket}
		if s.isBad(at) || s.isBad(place{inClass, i, keyFamily}) {
			placed = false
			continue
		}
		if c.Family == "" {
			continue
		}
		row, ok := byName[c.Family]
		if !ok {
			row = len(rows)
			byName[c.Family] = row
			rows = append(rows, family{name: c.Family, first: i, cells: make(map[int]int)})
		}
		if !bucketsKnown {
			continue
		}
		bucket, ok := buckets[c.Bucket]
		if !ok {
			s.report(at, c.Bucket, "is not one of "+keyBuckets)
			placed = false
			continue
		}
		if first, ok := rows[row].cells[bucket]; ok {
			s.report(at, c.Bucket, fmt.Sprintf("family %q has %s[%d] for this bucket already", shorten(c.Family), keyClasses, first))
			continue
		}
		rows[row].cells[bucket] = i
	}
	for i, c := range cfg.Classes {
		explicit := c.Family == "" && c.Bucket == "" && !s.isBad(place{inClass, i, keyFamily})
		if _, ok := byName[c.Name]; ok && explicit {
			s.report(place{inClass, i, keyName}, c.Name, "an explicit class must not be named like a family")
		}
	}
	if !placed || len(cfg.Classes) == 0 {
		return rows
	}
	if _, ok := byName[cfg.DefaultFamily]; !ok {
		s.report(place{key: keyDefaultFamily}, cfg.DefaultFamily, "no class has this family")
	}
	if !bucketsKnown {
		return rows
	}
	for _, f := range rows {
		if len(f.cells) < len(cfg.Buckets) {
			s.report(place{inClass, f.first, keyFamily}, f.name, "the family has no class for "+missing(f, cfg.Buckets))
		}
	}
	return rows
}

// missing names the first few buckets for which a family has no class; all of
// them could be many times the size of the file.
func missing(f family, buckets []Bucket) string {
	const limit = 3
	var names []string
	total := len(buckets) - len(f.cells)
	for i, b := range buckets {
		if _, ok := f.cells[i]; ok {
			continue
		}
		if len(names) == limit {
			return fmt.Sprintf("buckets %s and %d more", strings.Join(names, ", "), total-limit)
		}
		names = append(names, strconv.Quote(shorten(b.Name)))
	}
	if total == 1 {
		return "bucket " + names[0]
	}
	return "buckets " + strings.Join(names, ", ")
}

// checkName tests the name of a class, family or bucket.
func checkName(s *scope, at place, name string) {
	if name == "" {
		s.report(at, "", ruleNotEmpty)
		return
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.', r == '-':
		default:
			s.report(at, name, "must consist of letters, digits, _ . and -")
			return
		}
	}
}
