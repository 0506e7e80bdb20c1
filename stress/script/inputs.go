package script

import (
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// readRequest reads the arguments of schedule and select. Due times are
// relative to now.
func readRequest(a *args, now time.Time) *sched.Request {
	r := &sched.Request{
		ID:                a.id(),
		ISL:               a.int("isl", 0),
		ExpectedOSL:       a.int("osl", 0),
		Blocks:            a.uints("blocks"),
		Priority:          a.uint32("prio", 0),
		Jump:              a.float("jump", 0),
		DoNotQueue:        a.flag("no-queue"),
		Allowed:           a.uints("allow"),
		Excluded:          a.uints("exclude"),
		NoPrefillTracking: a.flag("no-prefill"),
	}
	r.Class, _ = a.text("class")
	r.RequiredTaints, _ = a.values("taints")
	if due, ok := a.duration("due"); ok {
		r.Due = now.Add(due)
	}
	if expect, ok := a.duration("expect"); ok {
		r.ExpectedPrefill = &expect
	}
	if pin, ok := a.rank("pin"); ok {
		r.Pin = &pin
	}
	if prefer, ok := a.rank("prefer"); ok {
		r.Prefer = &prefer
	}
	a.pairs("prefer-taints", func(name string, v float64) {
		if _, twice := r.PreferredTaints[name]; twice {
			a.fail("argument prefer-taints names %s twice", name)
		}
		if r.PreferredTaints == nil {
			r.PreferredTaints = make(map[string]float64)
		}
		r.PreferredTaints[name] = v
	})
	readOverlaps(a, r)
	return r
}

// readOverlaps makes one entry of the tiers of a rank. A rank that is named
// twice in one tier gets two entries: to refuse that is the engine's business.
func readOverlaps(a *args, r *sched.Request) {
	index := make(map[sched.RankID]int)
	for _, tier := range []struct {
		key string
		of  func(*sched.Overlap) *float64
	}{
		{"overlap", func(o *sched.Overlap) *float64 { return &o.Device }},
		{"host", func(o *sched.Overlap) *float64 { return &o.Host }},
		{"disk", func(o *sched.Overlap) *float64 { return &o.Disk }},
	} {
		inTier := make(map[sched.RankID]bool)
		a.pairs(tier.key, func(name string, v float64) {
			rank := a.parseRank(tier.key, name)
			at, known := index[rank]
			if !known || inTier[rank] {
				at = len(r.Overlaps)
				index[rank] = at
				r.Overlaps = append(r.Overlaps, sched.Overlap{Rank: rank})
			}
			inTier[rank] = true
			*tier.of(&r.Overlaps[at]) = v
		})
	}
}

// readWorker reads the arguments of worker.
func readWorker(a *args) sched.Worker {
	w := sched.Worker{
		ID:               a.workerID(),
		StartRank:        a.uint32("start", 0),
		Ranks:            a.uint32("ranks", 1),
		MaxBatchedTokens: a.int("max-batched", 0),
		TotalKVBlocks:    a.int("kv-blocks", 0),
	}
	if _, given := a.find("max-batched"); given && w.MaxBatchedTokens == 0 {
		// To the engine 0 means the default, in a script it is a bad value.
		a.invalid = true
	}
	w.Taints, _ = a.values("taints")
	w.Incarnation, _ = a.text("inc")
	return w
}

// readWorkers reads one worker from each input line.
func readWorkers(input string) (workers []sched.Worker, invalid bool, err error) {
	workers = []sched.Worker{}
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		_, list, err := datadriven.ParseLine("worker " + line)
		if err != nil {
			return nil, false, err
		}
		a := newArgs(list)
		w := readWorker(a)
		if err := a.done(); err != nil {
			return nil, false, fmt.Errorf("in the line %q: %w", line, err)
		}
		invalid = invalid || a.invalid
		workers = append(workers, w)
	}
	return workers, invalid, nil
}
