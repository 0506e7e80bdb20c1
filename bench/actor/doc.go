// Package actor is the design to compare the sharded scheduler with: the whole
// scheduler is one goroutine with a channel in front, as in NVIDIA Dynamo's KV
// router and the routers that followed it. It is built from the same parts as the
// sharded one (loads, eligibility, costs, queue and rules of admission), keeps
// the same contract and passes the same scripts, so that it differs in
// concurrency alone.
//
//	Schedule, Query ──┐                                 ┌─ queue, counters, timers
//	Select, Loads ────┤  commands    ┌───────────────┐  ├─ the world (workers, policy)
//	lifecycle ────────┼─ (65,536) ──▶│ the goroutine ├──┤
//	topology, Stats ──┘              └───────────────┘  └─ ranks, each under its lock
//	                 wake (1), departures ──▲
//
// # The two forms
//
// In the form actor everything is a message. The loads are its own; their locks
// are there and never contended.
//
// In the form actor-direct, the best public design today, lifecycle calls change the
// rank under its lock on the caller's goroutine, and Select and Loads read the
// published loads there. A call that freed capacity while a request waits leaves a hint
// and a token in the wake channel, which has room for one: however many such calls come
// before the actor gets to it, they cost one pass. As loads now move under the actor's
// eyes, it confirms its choice under the lock of the chosen rank and looks again if
// that has moved.
//
// In both, a selection with Config.Index false looks at every eligible rank and
// walks the live prompt blocks of each.
//
// # What it guarantees
//
// Scheduling is sequential: decisions are made one after the other, in the order
// in which the commands came, and each sees all before it. What was freed, or
// fell due, or was left by its caller before a command is looked at counts for
// that command. The decision hook is called by the actor between decisions, so it
// is told in order, and it must not call the engine.
//
// A caller whose context ends does not stand in line to say so: departures have
// a list of their own, which the actor looks at between any two commands. It waits
// for the command under way, and for nothing if the channel had no room for it.
// If the grant raced with it, the booking is taken back.
//
// The goroutine ends with Close. As lifecycle calls must work after that, the
// role of the actor then falls to whoever calls, under the lock that the goroutine
// held until then; so does that of timers. An engine that is not closed leaks
// the goroutine.
//
// # Where the published design differs
//
// The published actor notices a caller that has gone when it tries to answer it;
// it drops lifecycle messages whose booking it does not know; it polls for what
// time alone frees; its channel makes no room for leavers. Its policy
// differs too, in the points that the contract lists. All that is as the contract
// has it here. Overlap refresh, the prefill estimator and the reclaiming of leaked
// handles are left out: they happen on the caller's side, and would be the same.
//
// # What it costs
//
// A call is two hand-overs between goroutines, each a channel operation or, if
// the other side sleeps, a park and a wake-up. All that the actor does is done by
// one goroutine, however many cores there are: with n ranks a selection costs it
// some tens of nanoseconds for each. A slow selector or hook holds up everybody.
// The channel's buffer is 1 MiB for each engine.
//
// Jobs with their reply channels, lifecycle messages and the storage of
// projections are used again; what is allocated for a booking is its record.
//
// Floor: beside package engine, above sched.
package actor
