package fleet

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"
)

// This is a circuit breaker, and none of the libraries for that: they decide when a
// call is made, which is after a worker was chosen and booked. Here the choice
// itself must know, and the scheduler has a word for it: a worker that is set aside
// is not chosen, and requests that wait are not refused for it. What is left is to count.

// maxStreak bounds how many answers it takes to make up for failures.
const maxStreak = 10

// Visit is a request's stay at a backend.
type Visit struct {
	f      *Fleet
	worker uint64
	h      *health
	lost   context.Context
}

// Visit begins a stay at a worker's backend.
func (f *Fleet) Visit(worker uint64) *Visit {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &Visit{f: f, worker: worker, h: &health{}, lost: context.Background()}
	if m := f.memberLocked(worker); m != nil {
		v.h, v.lost = m.health, m.givenUp
	}
	return v
}

// GivenUp ends when the backend goes down: a request that has heard nothing from it by then
// need not wait any longer.
func (v *Visit) GivenUp() context.Context { return v.lost }

// Heard notes that a piece of the answer came.
func (v *Visit) Heard() { v.h.answered.Store(time.Now().UnixNano()) }

// Served notes that an answer has begun.
func (v *Visit) Served() {
	v.Heard()
	v.f.mu.Lock()
	defer v.f.mu.Unlock()
	h := v.h
	h.sound = true
	// What was sent there before it was set aside says little of what it does now.
	if h.streak > 0 && time.Now().After(h.aside) {
		if h.streak--; h.streak == 0 {
			if m := v.f.memberLocked(v.worker); m != nil {
				v.f.config.Log.Warn("backend serves again", m.attrs()...)
			}
		}
	}
}

// Failed notes that the request failed before the first byte of its answer, and sets
// the backend aside: for Config.Aside at first, for twice as long each time that it
// fails again after that, or for as long as it asks to be left alone. It tells
// whether the backend was sound before: then the fault may be the request's.
//
// Never more than half of the backends that are up are aside. When more fail, it is
// likely something else, and to send all to the few that are left would have them
// fail too.
func (v *Visit) Failed(why error, retryAfter time.Duration) (sound bool) {
	f, h := v.f, v.h
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	h.failed = now
	sound, h.sound = h.sound, false
	m := f.memberLocked(v.worker)
	if m == nil {
		return sound
	}
	var unreachable *net.OpError
	if errors.As(why, &unreachable) && unreachable.Op == "dial" {
		// Nothing listens: the process has ended, and its cache with it. Another may
		// be there before the next check.
		f.config.Lost(m.id)
		f.noteLocked(m, why)
		f.judgeLocked()
	}
	if now.Before(h.aside) {
		return sound // sent before it was set aside: that has been counted
	}
	h.streak = min(h.streak+1, maxStreak)
	if !f.roomAsideLocked(now) {
		return sound
	}
	d := f.config.Aside
	for range h.streak - 1 {
		d = min(2*d, f.config.AsideMax)
	}
	d = max(d, min(retryAfter, f.config.AsideMax))
	if f.s.SetAside(m.id, d) == nil {
		h.aside = now.Add(d)
		f.config.Log.Warn("backend set aside", m.attrs("for", d, "reason", why)...)
	}
	return sound
}

// roomAsideLocked tells whether one more may be set aside.
func (f *Fleet) roomAsideLocked(now time.Time) bool {
	up, aside := 0, 0
	for _, m := range f.mu.members {
		if !m.leaving && m.usable() {
			up++
			if now.Before(m.aside) {
				aside++
			}
		}
	}
	return 2*(aside+1) <= up
}

// Recall ends the setting aside of all but some workers, and tells whether any was: a
// request has nowhere else to go.
func (f *Fleet) Recall(but []uint64) (recalled bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, m := range f.mu.members {
		if now.Before(m.aside) && m.usable() && !m.leaving && !slices.Contains(but, m.id) {
			_ = f.s.SetAside(m.id, 0)
			m.aside, recalled = time.Time{}, true
		}
	}
	return recalled
}
