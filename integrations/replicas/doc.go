// Package replicas has several schedulers before one pool count each other's load.
//
// A replica is one process with a scheduler of its own, a peer is another. Each says
// what load it causes on each rank, and counts what its peers say as load: in the gate,
// in the cost of a rank, in Explain, Loads and Stats. Nobody leads, nothing is stored,
// and nothing is asked for on a request's way.
//
//	r, err := replicas.New(replicas.Config{Name: hostname, Transport: transport})
//	s, err := sched.New(config, sched.WithFleet(r))
//	err = r.Join(ctx, s) // returns when it knows what its peers cause: serve after it
//	…
//	err = r.Close()
//
// What is said and how it heals is in package protocol; here the protocol is bound to a
// scheduler and to a Transport. Package overnats has the one for NATS, the module
// integrations/replicas/embedded a NATS server inside the process; Network is in memory,
// for tests and simulations.
//
// # What holds
//
// A booking is visible at its peers after a message's way and at most a millisecond
// before that; until then they may book the same rank. A peer that says nothing for
// 1.5 s is dropped in one step, with all load that it caused; one that is closed or
// started again at once. Without its peers a replica goes on alone: no request fails for
// that, and Stats says so.
//
// Loads alone give no fairness between the replicas where classes queue: the caller
// that frees a rank is the first to see it free.
package replicas
