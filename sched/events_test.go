package sched

import (
	"testing"

	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
)

// The longest epoch is within the bounds of the histogram.
func TestEpochBucketsCoverAnEpoch(t *testing.T) {
	t.Parallel()
	const mostSteps = sequencer.HelperAllowance / queue.CostEntry
	if bounds := epochBuckets.Read(nil).Bounds; bounds[len(bounds)-1] < mostSteps {
		t.Errorf("epochs of %d steps are not covered by %v", mostSteps, bounds)
	}
}

// An end that comes before the owner could tell its grant is told after it.
func TestEndBeforeTheGrantIsTold(t *testing.T) {
	t.Parallel()
	var told []Event
	s, err := New(Config{BlockSize: 16}, WithObserver(func(e Event) { told = append(told, e) }))
	if err != nil {
		t.Fatal(err)
	}
	_ = s.UpsertWorker(Worker{ID: 1, Ranks: 1})
	r := &Request{ID: "r", ISL: 10}
	j := s.getJob()
	if err := s.admitAtDoor(t.Context(), j, r, false, unknownArrival); err != nil {
		t.Fatal(err)
	}
	rec := j.record
	if _, err := s.fast(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if err := s.PrefillDone("r", 0); err != nil { // by somebody who only knows the id
		t.Fatal(err)
	}
	_ = s.RemoveWorker(1)
	s.tellGranted(rec, "class", false, j.placement, 5)
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[0].Kind != EventGranted || told[1].Kind != EventDropped ||
		told[1].Class != "class" || told[1].Granted != told[0].Granted || told[1].Request != "r" {
		t.Fatalf("told %+v", told)
	}
}
