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
	return queue.ClassSpec{Order: orders[c.Order], Quantum: c.Quantum, MaxAge: int64(c.MaxQueueAge)}
}

// ClassSpecs returns what the queue needs to know of the classes of a profile.
func ClassSpecs(p *policy.Profile) []queue.ClassSpec {
	specs := make([]queue.ClassSpec, p.Len())
	for i := range specs {
		specs[i] = ClassSpec(p, i)
	}
	return specs
}
