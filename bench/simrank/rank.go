// Package simrank simulates one rank of an inference engine well enough to give
// a scheduler something to schedule: a prefill queue, decode slots and a KV
// cache with prefix reuse.
//
// It is pure: time is what its caller says it is, as an offset from the start of
// the simulation, and must not go back. A Rank is not safe for concurrent use.
package simrank

import (
	"container/heap"
	"time"
)

// Config holds the speed and size of a rank. All fields must be positive.
type Config struct {
	// PrefillRate is how many uncached prompt tokens are computed per second,
	// one request at a time, first come first served.
	PrefillRate float64
	// DecodeRate is how many output tokens per second each decode slot makes.
	DecodeRate float64
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

	running  decodes // those in a slot
	slotless []*run  // prefilled, waiting for a slot
	pinned   int     // jobs whose blocks are
	serial   uint64
}

// run is a job on its way.
type run struct {
	Job
	private int64     // blocks beside the shared ones
	blocks  []*cached // the shared ones, once pinned
	began   time.Duration
	emitted int64 // output blocks told of
	next    time.Duration
	serial  uint64
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
		return min(r.ready, r.running[0].next), true
	case r.busy:
		return r.ready, true
	case len(r.running) > 0:
		return r.running[0].next, true
	}
	return 0, false
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
		if len(r.running) > 0 && r.running[0].next == at {
			events = r.decoded(events)
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
		r.decode(j, now)
	default:
		r.slotless = append(r.slotless, j)
	}
	r.prefill(now)
	return events
}

// decode puts a prefilled job in a slot.
func (r *Rank) decode(j *run, now time.Duration) {
	j.began = now
	r.serial++
	j.serial = r.serial
	r.plan(j)
	heap.Push(&r.running, j)
}

// plan sets the time of the job's next event: its next full output block or,
// if none is left, its end. The first token was there when decoding began.
func (r *Rank) plan(j *run) {
	token := min(j.OSL, (j.emitted+1)*r.cfg.Block)
	j.next = j.began + seconds(float64(max(0, token-1))/r.cfg.DecodeRate)
}

func (r *Rank) decoded(events []Event) []Event {
	j := r.running[0]
	now := j.next
	if (j.emitted+1)*r.cfg.Block <= j.OSL {
		j.emitted++
		events = append(events, Event{j.Tag, OutputBlock, now})
	}
	if r.plan(j); j.next > now || (j.emitted+1)*r.cfg.Block <= j.OSL {
		heap.Fix(&r.running, 0)
		return events
	}
	heap.Pop(&r.running)
	events = r.finish(j, now, events)
	if len(r.slotless) > 0 {
		next := r.slotless[0]
		r.slotless[0] = nil
		r.slotless = r.slotless[1:]
		r.decode(next, now)
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
