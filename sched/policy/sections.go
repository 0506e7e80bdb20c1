package policy

import (
	"math"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The sections of a policy file of Dynamo that steer other parts of it. Whatever is
// in them, they make no file invalid: what is not taken over is named in a warning.

// instead says for each of these sections, and for each key of the router section,
// what does here what it does there. Keys are looked up without the prefixes
// router_ and kv_ that some have.
var instead = map[string]string{
	keySelection:  "set Config.Selector; selector.Compose makes one of one's own",
	keyClassifier: "name the class in Request.Class before the call",

	"overlap_score_credit":         "set Config.OverlapCredit",
	"overlap_score_credit_decay":   "set Config.CreditDecay",
	"overlap_score_weight":         "set Config.PrefillScale, and Config.OverlapCredit to 0 if it is 0",
	"prefill_load_scale":           "set Config.PrefillScale",
	"decode_active_request_weight": "set Config.RequestWeight",
	"temperature":                  "set Config.Temperature",
	"shared_cache_multiplier":      "count what a shared cache holds in Request.Overlaps, and weigh it by Config.TierWeights",
	"shared_cache_type":            "count what a shared cache holds in Request.Overlaps, and weigh it by Config.TierWeights",
	"use_kv_events":                "give the overlap of each request in Request.Overlaps",
	"use_remote_indexer":           "give the overlap of each request in Request.Overlaps",
	"serve_indexer":                "give the overlap of each request in Request.Overlaps",
	"event_threads":                "give the overlap of each request in Request.Overlaps",
	"ttl_secs":                     "forget old blocks where the overlap of a request is looked up",
	"predicted_ttl_secs":           "forget old blocks where the overlap of a request is looked up",
	"replica_sync":                 "tell other replicas of bookings from an observer, sched.WithObserver",
	"track_active_blocks":          "leave Request.Blocks empty where blocks are not to count",
	"assume_kv_reuse":              "leave Request.Blocks empty where blocks are not to be shared",
	"track_output_blocks":          "call Booking.AddOutputBlock",
	"track_prefill_tokens":         "set Request.NoPrefillTracking",
	"prefill_load_model":           "use sched.WithPrefillEstimator, or set Request.ExpectedPrefill",
	"tracking_hash":                "compute Request.Blocks as the engines do",
	"tracking_key_file":            "compute Request.Blocks as the engines do",
	"tracking_key_id":              "compute Request.Blocks as the engines do",
	"queue_threshold":              "set " + keyFrac + " of a class",
	"queue_policy":                 "set " + keyOrder + " of a class",
	"policy_config":                "this file is it",
	"skip_initial_worker_wait":     "set " + keyEndpointWait + " of a class",
	"min_initial_workers":          "set " + keyEndpointWait + " of a class",
}

const (
	keyHostWeight = "host_cache_hit_weight"
	keyDiskWeight = "disk_cache_hit_weight"
)

// section notes a section of which nothing is taken over, with the keys in it.
func (p *parser) section(s *scope, at place, n *yaml.Node) {
	if n == nil {
		return
	}
	const most = 8
	var keys []string
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content) && len(keys) < most; i += 2 {
			keys = append(keys, shorten(resolve(n.Content[i]).Value))
		}
		if len(n.Content)/2 > most {
			keys = append(keys, "…")
		}
	}
	of := ""
	if len(keys) > 0 {
		of = "(" + strings.Join(keys, ", ") + ") "
	}
	p.warning(s, at, of+"is not taken over: "+instead[at.key])
}

// router takes over the weights of the cache tiers, and notes every other key.
func (p *parser) router(s *scope, at place, n *yaml.Node, file *File) {
	switch {
	case n == nil:
		return
	case n.Kind != yaml.MappingNode:
		p.warning(s, at, "is not taken over: it is no mapping")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		at := place{section: inRouter, key: key.Value}
		s.lines[at] = n.Content[i].Line
		if isNull(value) {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(key.Value, "router_"), "kv_")
		switch name {
		case keyHostWeight:
			p.tierWeight(s, at, value, &file.HostCacheHitWeight)
			continue
		case keyDiskWeight:
			p.tierWeight(s, at, value, &file.DiskCacheHitWeight)
			continue
		}
		says, known := instead[name]
		switch {
		case strings.HasPrefix(name, "conditional_disagg"):
			says = "make a scheduler for each stage, see Config.Role, and decide before the call which stages a request takes"
		case !known || key.Kind != yaml.ScalarNode:
			says = "nothing here does what it does there"
		}
		p.warning(s, at, "is not taken over: "+says)
	}
}

// tierWeight reads the weight of a cache tier.
func (p *parser) tierWeight(s *scope, at place, n *yaml.Node, weight **float64) {
	v, rule := parseNumber(n)
	if rule == "" && !(v >= 0 && v <= math.MaxFloat64) {
		rule = "must be finite and not negative"
	}
	if rule != "" {
		p.warning(s, at, "is not taken over: it "+rule)
		return
	}
	*weight = &v
}
