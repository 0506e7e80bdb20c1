package sched

import (
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
)

// ruling is what the rules of admission say of a request that no waiter may go before.
type ruling uint8

const (
	// tryNow: it takes a rank, or fails because it may have none.
	tryNow ruling = iota
	// mustWait: it stands in line.
	mustWait
	// mustNotWait: it would have to, and its class never queues.
	mustNotWait
)

// ruleOn applies the rules of admission to a look at the ranks of a request. awaits: the
// request may wait while it has no usable rank. waiting is how many requests of its
// class wait.
func ruleOn(l *pool.Look, class *policy.Class, awaits bool, waiting int64) ruling {
	_, never := class.NeverQueues()
	switch {
	case l.NoneUsable() && awaits:
		return mustWait
	case l.AllOverloaded():
		return tryNow // and fails
	case !never && l.MustWait():
		return mustWait
	case never && class.CanQueue() && (waiting > 0 || l.MustWait()):
		return mustNotWait
	}
	return tryNow
}
