package pool

import (
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
)

// orders are those of the queue, by those of a policy.
var orders = [...]queue.Order{policy.FCFS: queue.FCFS, policy.LCFS: queue.LCFS, policy.WSPT: queue.WSPT}

// ClassSpec returns what the queue needs to know of a class of a profile. An order
// that a profile can have stands in orders.
func ClassSpec(p *policy.Profile, class int) queue.ClassSpec {
	c := p.Class(class)
	return queue.ClassSpec{Order: orders[c.Order], Quantum: c.Quantum, MaxAge: int64(c.MaxQueueAge),
		GuardAfter: guardAge(c), EndpointWait: endpointWait(c)}
}

// ClassSpecs returns what the queue needs to know of the classes of a profile.
func ClassSpecs(p *policy.Profile) []queue.ClassSpec {
	specs := make([]queue.ClassSpec, p.Len())
	for i := range specs {
		specs[i] = ClassSpec(p, i)
	}
	return specs
}

// guardAge returns the wait after which a request of a class guards its ranks, 0 for
// never.
func guardAge(c *policy.Class) int64 {
	if !c.Guards() {
		return 0
	}
	return int64(c.GuardAfter)
}

// endpointWait returns how long a request of a class waits without a usable rank, 0
// if it does not.
func endpointWait(c *policy.Class) int64 {
	if !c.WaitsForEndpoint() {
		return 0
	}
	return int64(c.EndpointWait)
}
