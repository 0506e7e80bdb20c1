package sched

import (
	"context"
	"testing"
	"time"
)

// A booking whose owner has left, and which is not undone yet, must be counted off
// when its worker is removed.
func TestWorkerOfAnAbandonedBookingIsRemoved(t *testing.T) {
	t.Parallel()
	s, err := New(Config{BlockSize: 16, BookingTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.UpsertWorker(Worker{ID: 1, Ranks: 1})
	b, err := s.Schedule(context.Background(), &Request{ID: "ghost", ISL: 10})
	if err != nil {
		t.Fatal(err)
	}
	s.ids.Free(&b.rec.claimed) // leave
	_ = s.RemoveWorker(1)      // dropRank
	s.undo(b.rec)              // line.Settle
	if n := s.expiry.live.Load(); n != 0 {
		t.Errorf("%d live bookings with a ttl, none exists", n)
	}
	s.expiry.mu.Lock()
	defer s.expiry.mu.Unlock()
	if s.expiry.mu.timer != nil {
		t.Error("a timer without a booking")
	}
}
