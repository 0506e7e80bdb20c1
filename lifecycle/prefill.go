package lifecycle

import (
	"math"
	"math/bits"
	"time"

	"github.com/seed-3c5df8a4/turnstile/internal/wide"
)

// NoDuration is the expected duration of a prefill of which nothing is known.
// Any negative duration is taken to mean the same.
const NoDuration time.Duration = -1

// Now gives the time in nanoseconds, on whatever scale the owner of the rank
// uses throughout; it must not go backwards. An operation calls it at most
// once, and only if an expected duration makes the time matter, so a path
// without durations never pays for reading a clock.
type Now func() int64

// Prefill is a snapshot of the prefill tokens of a rank, from which the load
// at any later instant follows as long as no event changes it. The zero value
// is a rank without prefill.
type Prefill struct {
	// Sum is the total of the tokens in the list, ≥ 0, decay not applied. A
	// total above the range of int64 is given as its maximum.
	Sum int64
	// Unmodelled is the number of entries without an expected duration.
	Unmodelled int64
	// AnchorTokens are the tokens of the oldest entry, > 0 if there is one.
	AnchorTokens int64
	// AnchorDuration is the oldest entry's expected duration, or NoDuration.
	AnchorDuration time.Duration
	// AnchorSince is the time in ns since when the anchor decays. It is 0 for
	// an anchor that does not decay, where it has no meaning.
	AnchorSince int64
	// HasAnchor says whether the list has an entry.
	HasAnchor bool
	// Elsewhere are tokens, ≥ 0, that other schedulers are known to have on the rank.
	// They count beside the list and do not decay: their owner says when they change. A
	// rank's own snapshot has none.
	Elsewhere int64
}

// Active returns the prefill tokens at the time now (ns): those not yet
// computed if prefills run one after the other, each in its expected time.
// While every entry has a duration, time beyond the anchor's eats into the
// later ones at the anchor's pace; otherwise only the anchor decays. Products
// are exact 128-bit integers, so the result does not depend on how often or
// where it is computed. It never grows with now.
func (p Prefill) Active(now int64) int64 {
	if p.Elsewhere != 0 {
		return addSaturated(p.own(now), p.Elsewhere)
	}
	return p.own(now)
}

// own is Active without what is elsewhere.
func (p *Prefill) own(now int64) int64 {
	switch {
	case !p.HasAnchor:
		return 0
	case p.AnchorDuration < 0:
		return p.Sum
	case p.AnchorDuration == 0:
		return p.Sum - p.AnchorTokens
	}
	var elapsed uint64
	if now > p.AnchorSince {
		// Exact although the difference of two int64 may not fit one.
		elapsed = uint64(now) - uint64(p.AnchorSince)
	}
	tokens, duration := uint64(p.AnchorTokens), uint64(p.AnchorDuration)
	if p.Unmodelled == 0 {
		hi, lo := bits.Mul64(tokens, elapsed)
		if hi >= duration { // the quotient exceeds 64 bits, hence any sum
			return 0
		}
		done, _ := bits.Div64(hi, lo, duration)
		if done >= uint64(p.Sum) {
			return 0
		}
		return p.Sum - int64(done)
	}
	others := p.Sum - p.AnchorTokens
	if elapsed >= duration {
		return others
	}
	hi, lo := bits.Mul64(tokens, duration-elapsed)
	left, rem := bits.Div64(hi, lo, duration) // at most tokens, so it fits
	if rem > 0 {
		left++
	}
	return others + int64(left)
}

// Decays says whether time alone can change Active, that is, whether its
// argument matters.
func (p Prefill) Decays() bool { return p.HasAnchor && p.AnchorDuration > 0 }

// FallsTo returns the earliest time (ns) at which Active is at most threshold
// if nothing but time passes. If that is so from the start, the time is
// AnchorSince. If it never is, or not within the range of int64, it returns
// math.MaxInt64 and false.
func (p Prefill) FallsTo(threshold int64) (at int64, ok bool) {
	threshold -= p.Elsewhere // below 0 if that alone is too much
	if p.own(p.AnchorSince) <= threshold {
		return p.AnchorSince, true
	}
	if !p.Decays() || threshold < 0 {
		return math.MaxInt64, false
	}
	tokens, duration := uint64(p.AnchorTokens), uint64(p.AnchorDuration)
	var elapsed uint64
	if p.Unmodelled == 0 {
		// floor(tokens·e/duration) ≥ Sum − threshold, solved for the least e.
		hi, lo := bits.Mul64(uint64(p.Sum-threshold), duration)
		if hi >= tokens {
			return math.MaxInt64, false
		}
		q, rem := bits.Div64(hi, lo, tokens)
		if rem > 0 {
			if q == math.MaxUint64 {
				return math.MaxInt64, false
			}
			q++
		}
		elapsed = q
	} else {
		// ceil(tokens·(duration−e)/duration) ≤ room, solved for the least e.
		others := p.Sum - p.AnchorTokens
		if threshold < others {
			return math.MaxInt64, false
		}
		room := uint64(threshold - others) // < tokens, so the quotient fits
		hi, lo := bits.Mul64(room, duration)
		q, _ := bits.Div64(hi, lo, tokens)
		elapsed = duration - q
	}
	if elapsed > uint64(math.MaxInt64)-uint64(p.AnchorSince) {
		return math.MaxInt64, false
	}
	return int64(uint64(p.AnchorSince) + elapsed), true
}

// prefillList orders the bookings whose prefill is not done by insertion. Its
// head is the anchor.
type prefillList struct {
	head, tail *Booking
	sum        wide.Sum
	unmodelled int64
	// since is when the anchor began to decay; 0 unless the anchor has a
	// positive duration, as it would influence nothing.
	since int64
}

// append makes b the youngest entry.
func (l *prefillList) append(b *Booking, clk *clock) {
	b.prefillPrev, b.prefillNext, b.inPrefill = l.tail, nil, true
	if l.tail != nil {
		l.tail.prefillNext = b
	} else {
		l.head = b
		l.since = anchoredSince(b, clk)
	}
	l.tail = b
	l.sum.Add(b.Tokens)
	if b.Expected < 0 {
		l.unmodelled++
	}
}

// remove takes b out.
func (l *prefillList) remove(b *Booking, clk *clock) {
	_, l.since = l.anchorWithout(b, clk)
	if b.prefillPrev != nil {
		b.prefillPrev.prefillNext = b.prefillNext
	} else {
		l.head = b.prefillNext
	}
	if b.prefillNext != nil {
		b.prefillNext.prefillPrev = b.prefillPrev
	} else {
		l.tail = b.prefillPrev
	}
	b.prefillPrev, b.prefillNext, b.inPrefill = nil, nil, false
	l.sum.Sub(b.Tokens)
	if b.Expected < 0 {
		l.unmodelled--
	}
}

// anchorWithout returns the anchor, and since when it decays, as they will be
// after the removal of b. Removing one that is not the anchor moves the anchor's
// since forward by its duration, as the time since then is taken to have gone
// into it as well: if both go at the same pace, and time enough has passed, the
// load does not jump. At another pace it does, and it may rise.
func (l *prefillList) anchorWithout(b *Booking, clk *clock) (anchor *Booking, since int64) {
	if b == l.head {
		return b.prefillNext, anchoredSince(b.prefillNext, clk)
	}
	if l.head.Expected > 0 && b.Expected >= 0 {
		return l.head, min(addSaturated(l.since, int64(b.Expected)), clk.read())
	}
	return l.head, l.since
}

// anchoredSince returns the since of an entry that becomes the anchor, reading
// the clock only for one that decays.
func anchoredSince(b *Booking, clk *clock) int64 {
	if b == nil || b.Expected <= 0 {
		return 0
	}
	return clk.read()
}

// snapshot returns the list's value.
func (l *prefillList) snapshot() Prefill {
	return prefillOf(l.sum, l.unmodelled, l.head, l.since)
}

// without returns the value that the list will have after the removal of b.
func (l *prefillList) without(b *Booking, clk *clock) Prefill {
	anchor, since := l.anchorWithout(b, clk)
	sum, unmodelled := l.sum, l.unmodelled
	sum.Sub(b.Tokens)
	if b.Expected < 0 {
		unmodelled--
	}
	return prefillOf(sum, unmodelled, anchor, since)
}

func prefillOf(sum wide.Sum, unmodelled int64, anchor *Booking, since int64) Prefill {
	if anchor == nil {
		return Prefill{}
	}
	return Prefill{
		Sum:            sum.Clamped(),
		Unmodelled:     unmodelled,
		AnchorTokens:   anchor.Tokens,
		AnchorDuration: max(anchor.Expected, NoDuration),
		AnchorSince:    since,
		HasAnchor:      true,
	}
}

// clock reads the time when it is first asked, and then remembers it, so that
// one operation sees one instant.
type clock struct {
	now  Now
	at   int64
	done bool
}

func (c *clock) read() int64 {
	if !c.done {
		c.at, c.done = c.now(), true
	}
	return c.at
}

// addSaturated returns a + b for b ≥ 0, at most math.MaxInt64.
func addSaturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
