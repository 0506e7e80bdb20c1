package actor

import (
	"sync"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
)

// kind is what a job asks for.
type kind uint8

const (
	toBook kind = iota
	toQuery
	toSelect // advisory
)

// stage is how far a job has come.
type stage uint8

const (
	sent stage = iota
	waiting
	granted
	refused
)

// signal is what the actor says to the owner of a job.
type signal uint8

const (
	// settled: the job was granted or refused.
	settled signal = iota
	// left: the departure of the owner has been dealt with.
	left
)

// job is one call of Schedule, Query or Select on its way to the actor and
// back. The owner fills it in and, once it got its last signal, has it back; in
// between it is the actor's. As the owner waits for that whatever happens, the
// job borrows the slices of the request.
type job struct {
	kind       kind
	id         string
	class      string // as asked for
	doNotQueue bool
	due        int64 // ns, queue.NoDue for none
	priority   uint32
	jump       int64 // ns
	request    pool.Request
	record     *record // nil unless to be booked or queried
	// reply has room for one signal and is pooled with the job.
	reply chan signal

	stage     stage
	claimed   bool // the id is this job's
	counted   bool // in the usage of the class of its entry
	entry     queue.Entry[*job]
	placement sched.Placement
	err       error
}

func (j *job) query() bool { return j.kind == toQuery }

// run implements command.
func (j *job) run(c *core) {
	c.catchUp()
	if j.stage != sent { // its owner has left
		return
	}
	if j.kind == toSelect {
		c.advise(j)
		return
	}
	c.arrive(j)
}

// setEntry fixes what is fixed at arrival.
func (j *job) setEntry(seq uint64, now, cached int64) {
	r := &j.request
	scope := queue.Scope{Workers: r.Constraints.Allowed}
	if r.Constraints.Pinned {
		scope = queue.Scope{Pinned: true, Rank: r.Constraints.Pin}
	}
	j.entry = queue.Entry[*job]{
		Value: j, Seq: seq, Arrival: now, Came: now, Due: j.due, Priority: j.priority, Jump: j.jump,
		Cost: pool.Cost(r.ISL, cached), Raw: r.ISL, Cached: cached,
		Lane: r.Constraints.Key(), Scope: scope,
	}
}

func (e *Engine) getJob() *job { return e.jobs.Get().(*job) }

// putJob gives a job back. REQUIRES: it never was sent, or its owner got the
// settled signal and did not depart.
func (e *Engine) putJob(j *job) {
	*j = job{reply: j.reply}
	e.jobs.Put(j)
}

// departure is a call that ends otherwise than by a decision: its owner has
// gone, or was refused before the job was sent.
type departure struct {
	job   *job // nil if it was not sent
	id    string
	query bool
	err   error
}

// departures are those that the actor has not dealt with. They are apart from
// the commands, so that no leaver waits for room or for the commands in front.
type departures struct {
	some atomic.Bool // written under mu, read by the actor

	mu struct {
		sync.Mutex
		list []departure
	}
}

func (d *departures) add(x departure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.list = append(d.mu.list, x)
	d.some.Store(true)
}

// take returns what is there and leaves an empty list in scratch's place.
func (d *departures) take(scratch []departure) []departure {
	if !d.some.Load() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.mu.list
	d.mu.list = scratch[:0]
	d.some.Store(false)
	return list
}
