package kvevents

import "time"

// Doubt begins when something of a rank is missing and ends when it was caught up with.
// Its timers run on the side: whatever the follower hangs in, the rank stops to count.

// doubtLocked begins a doubt, if there is none yet.
//
// REQUIRES: mu.
func (r *rank) doubtLocked(s State) {
	r.mu.stats.State = s
	if r.mu.doubted != 0 || r.mu.gone {
		return
	}
	r.mu.doubts++
	r.mu.doubted = r.mu.doubts
	this := r.mu.doubted
	r.mu.grace = time.AfterFunc(r.x.config.Grace, func() {
		r.after(this, func() { r.setLocked(0, scores) })
	})
	r.mu.forget = time.AfterFunc(r.x.config.Forget, func() {
		r.after(this, r.forgetLocked)
	})
}

// after does something with the rank if it is still the same doubt.
func (r *rank) after(doubt uint64, do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.doubted == doubt {
		do()
	}
}

// settleLocked ends the doubt.
//
// REQUIRES: mu.
func (r *rank) settleLocked() {
	if r.mu.doubted != 0 {
		r.mu.doubted = 0
		r.mu.grace.Stop()
		r.mu.forget.Stop()
	}
}

// resolve says that nothing is missing.
func (r *rank) resolve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.gone {
		return
	}
	r.settleLocked()
	r.mu.stats.State = Live
	r.mu.stats.Error = nil
	r.setLocked(scores, 0)
}

// lose says that the engine cannot be heard.
func (r *rank) lose(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.stats.State != Lost {
		r.mu.stats.Losses++
	}
	r.doubtLocked(Lost)
	r.mu.stats.Error = lost(err)
}

// catchingUp says that what is missing is being read.
func (r *rank) catchingUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.stats.Replays++
	r.doubtLocked(CatchingUp)
}

// forgetLocked clears the rank and forgets which life of its engine it knew.
//
// REQUIRES: mu.
func (r *rank) forgetLocked() {
	r.clearLocked()
	r.mu.known = false
}

// last returns the number of the last batch applied, if the engine's life is known.
func (r *rank) last() (uint64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.stats.LastSequence, r.mu.known
}

// applied takes note of a batch.
func (r *rank) applied(seq uint64, size int) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.known = true
	r.mu.stats.LastSequence = seq
	r.mu.stats.Bytes += uint64(size)
	r.mu.heard = now
}

// spoiled takes note of a message that is no batch. It may have removed anything.
func (r *rank) spoiled(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.stats.Bad++
	r.mu.stats.Error = err
	r.clearLocked()
}
