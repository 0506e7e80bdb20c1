// Package simrank simulates one rank of an inference engine well enough to give
// a scheduler something to schedule: a prefill queue, decode slots and a KV
// cache with prefix reuse.
//
// It is pure: time is what its caller says it is, as an offset from the start of
// the simulation, and must not go back. A Rank is not safe for concurrent use.
package simrank

import (
	"container/heap"
	"math"
	"time"
)

// Config holds the speed and size of a rank. All fields but DecodeBatch must be
// positive.
type Config struct {
	// PrefillRate is how many uncached prompt tokens are computed per second,
	// one request at a time, first come first served.
	PrefillRate float64
	// DecodeRate is how many output tokens per second a request makes that decodes
	// alone.
	DecodeRate float64
	// DecodeBatch is how many more must decode with it for each to make half of
	// that: a step of n takes 1 + (n−1)/DecodeBatch times as long as one of 1. 0: as
	// long.
	DecodeBatch float64
	// DecodeSlots is how many requests decode at once; more wait for a slot.
	DecodeSlots int
	// KVBlocks is the size of the cache.
	KVBlocks int64
	// Block is the block size in tokens.
	Block int64
}

// Job is a request as the rank sees it.
type Job struct {
	// Tag is given back in the events of the job.
	Tag int
	// ISL and OSL are the input and output lengths in tokens.
	ISL, OSL int64
	// Blocks are the hashes of the full prompt blocks. The rank keeps the slice.
	Blocks []uint64
}

// Kind says what happened to a job.
type Kind uint8

// The kinds of events, in the order in which a job meets them. FirstToken comes
// also to a job without output: its prefill is done.
const (
	FirstToken Kind = iota + 1
	OutputBlock
	Finished
)

// Event is something that happened to a job.
type Event struct {
	Tag  int
	Kind Kind
	At   time.Duration
}

// Totals sums up what a rank has done.
type Totals struct {
	// Jobs counts prefills begun, Prompt their prompt tokens and Cached those
	// of them that were found in the cache.
	Jobs, Prompt, Cached int64
}

// Rank is one simulated rank.
type Rank struct {
	cfg    Config
	cache  *cache
	totals Totals

	waiting []*run // prefill queue; the first is being computed if busy
	busy    bool
	ready   time.Duration // when that prefill is done, or the last one was

	running decodes // those in a slot
	// decoded is how long a request that decodes alone would have taken for what
	// one that decoded all the time has made, until since.
	decoded, since time.Duration

	slotless []*run // prefilled, waiting for a slot
	pinned   int    // jobs whose blocks are
	serial   uint64
}

// run is a job on its way.
type run struct {
	Job
	private int64     // blocks beside the shared ones
	blocks  []*cached // the shared ones, once pinned
	emitted int64     // output blocks told of
	serial  uint64
	// began and next are times by Rank.decoded.
	began, next time.Duration
}

// New returns an idle rank with an empty cache, which tells index what it holds.
func New(cfg Config, index Index) *Rank {
	return &Rank{cfg: cfg, cache: newCache(cfg.KVBlocks, index)}
}

// Totals returns what was done so far.
func (r *Rank) Totals() Totals { return r.totals }

// Submit gives the rank a job, and appends to events what happened until now.
func (r *Rank) Submit(now time.Duration, job Job, events []Event) []Event {
	events = r.Advance(now, events)
	private := (job.ISL+job.OSL+r.cfg.Block-1)/r.cfg.Block - int64(len(job.Blocks))
	r.waiting = append(r.waiting, &run{Job: job, private: max(0, private)})
	r.prefill(now)
	return events
}

// Next returns the time of the next event, if any is to come.
func (r *Rank) Next() (at time.Duration, ok bool) {
	switch {
	case r.busy && len(r.running) > 0:
		return min(r.ready, r.nextDecode()), true
	case r.busy:
		return r.ready, true
	case len(r.running) > 0:
		return r.nextDecode(), true
	}
	return 0, false
}

// nextDecode is the time of the next event of those that decode, of which there
// is at least one.
func (r *Rank) nextDecode() time.Duration {
	return r.since + time.Duration(math.Ceil(float64(r.running[0].next-r.decoded)*r.slowness()))
}

// slowness is by how much longer a step takes than one of a request alone.
func (r *Rank) slowness() float64 {
	if r.cfg.DecodeBatch == 0 || len(r.running) < 2 {
		return 1
	}
	return 1 + float64(len(r.running)-1)/r.cfg.DecodeBatch
}

// pass lets those that decode come to a time at which their number changes.
func (r *Rank) pass(now time.Duration) {
	r.decoded += time.Duration(float64(now-r.since) / r.slowness())
	r.since = now
}

// Advance appends to events what happens until now, in order. Events are at the
// times at which they are due, however late they are asked for.
func (r *Rank) Advance(now time.Duration, events []Event) []Event {
	for {
		at, ok := r.Next()
		if !ok || at > now {
			return events
		}
		// At one time decodes go first: a slot or a block that becomes free can
		// be had by what is next.
		if len(r.running) > 0 && r.nextDecode() == at {
			events = r.decode(at, events)
		} else {
			events = r.prefilled(events)
		}
	}
}

// prefill begins the next prefill, if there is one and the cache has room. A
// job that finds the rank empty runs whatever its size.
func (r *Rank) prefill(now time.Duration) {
	if r.busy || len(r.waiting) == 0 {
		return
	}
	j := r.waiting[0]
	if r.pinned > 0 && !r.cache.fits(j.Blocks, j.private) {
		return
	}
	hit := min(r.cache.prefix(j.Blocks)*r.cfg.Block, j.ISL)
	j.blocks = r.cache.pin(j.Blocks, j.private)
	r.pinned++
	r.totals.Jobs++
	r.totals.Prompt += j.ISL
	r.totals.Cached += hit
	r.busy = true
	r.ready = now + seconds(float64(j.ISL-hit)/r.cfg.PrefillRate)
}

func (r *Rank) prefilled(events []Event) []Event {
	j, now := r.waiting[0], r.ready
	r.waiting[0] = nil
	r.waiting = r.waiting[1:]
	r.busy = false
	r.cache.computed(j.blocks)
	events = append(events, Event{j.Tag, FirstToken, now})
	switch {
	case j.OSL <= 1 && r.cfg.Block > j.OSL: // nothing to decode
		events = r.finish(j, now, events)
	case len(r.running) < r.cfg.DecodeSlots:
		r.begin(j, now)
	default:
		r.slotless = append(r.slotless, j)
	}
	r.prefill(now)
	return events
}

// begin puts a prefilled job in a slot.
func (r *Rank) begin(j *run, now time.Duration) {
	r.pass(now)
	j.began = r.decoded
	r.serial++
	j.serial = r.serial
	r.plan(j)
	heap.Push(&r.running, j)
}

// plan sets when the job's next event is due: its next full output block or,
// if none is left, its end. The first token was there when decoding began.
func (r *Rank) plan(j *run) {
	token := min(j.OSL, (j.emitted+1)*r.cfg.Block)
	j.next = j.began + seconds(float64(max(0, token-1))/r.cfg.DecodeRate)
}

// decode lets the next event of those that decode happen, which is now.
func (r *Rank) decode(now time.Duration, events []Event) []Event {
	j := r.running[0]
	r.decoded, r.since = j.next, now
	if (j.emitted+1)*r.cfg.Block <= j.OSL {
		j.emitted++
		events = append(events, Event{j.Tag, OutputBlock, now})
	}
	if r.plan(j); j.next > r.decoded || (j.emitted+1)*r.cfg.Block <= j.OSL {
		heap.Fix(&r.running, 0)
		return events
	}
	heap.Pop(&r.running)
	events = r.finish(j, now, events)
	if len(r.slotless) > 0 {
		next := r.slotless[0]
		r.slotless[0] = nil
		r.slotless = r.slotless[1:]
		r.begin(next, now)
	}
	r.prefill(now)
	return events
}

func (r *Rank) finish(j *run, now time.Duration, events []Event) []Event {
	r.cache.unpin(j.blocks, j.private)
	r.pinned--
	return append(events, Event{j.Tag, Finished, now})
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// decodes is a heap by next event, first come first at one time.
type decodes []*run

func (d decodes) Len() int { return len(d) }
func (d decodes) Less(i, j int) bool {
	if d[i].next != d[j].next {
		return d[i].next < d[j].next
	}
	return d[i].serial < d[j].serial
}
func (d decodes) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *decodes) Push(x any)   { *d = append(*d, x.(*run)) }
func (d *decodes) Pop() any {
	old := *d
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	return j
}
