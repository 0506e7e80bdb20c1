package mutate

const (
	outboxFile = "sched/internal/outbox/outbox.go"
	eventsFile = "sched/events.go"
)

// outboxTable breaks what observers are told.
func outboxTable() []Mutation {
	return []Mutation{
		{
			Name:      "end without looking at the outbox again",
			Breaks:    "an event pushed just then is told by nobody",
			Invariant: "6",
			Edits:     edit(outboxFile, "		if o.items.Empty() || !o.running.CompareAndSwap(false, true) {\n			finished = true\n			return\n		}\n", "		finished = true\n		return\n"),
			Test:      hammered("TestNoEventIsForgotten"),
		},
		{
			Name:      "make room for every event",
			Breaks:    "an observer that is stuck fills the memory",
			Invariant: "bounded",
			Edits:     edit(outboxFile, "	if o.pending.Add(1) > int64(room) {\n", "	if o.pending.Add(1) > int64(room) && room < 0 {\n"),
			Test:      schedTest("TestStuckObserverHoldsUpNobody"),
		},
		{
			Name:      "let an observer's panic through",
			Breaks:    "it ends the program",
			Invariant: "observers break nothing",
			Edits:     edit(outboxFile, "	defer recovered(o.config.ObserverFailed)\n", ""),
			Test:      schedTest("TestObserverThatBreaks"),
		},
		{
			Name:      "tell no more when an observer ends its goroutine",
			Breaks:    "all later events are lost",
			Invariant: "observers break nothing",
			Edits:     edit(outboxFile, "		if !finished {\n			go o.run()\n		}\n", "		_ = finished\n"),
			Test:      schedTest("TestObserverThatBreaks"),
			Hangs:     true,
		},
		{
			Name:      "tell the end of a booking at once",
			Breaks:    "it is told before the grant",
			Invariant: "events in order",
			Edits:     edit(eventsFile, "	if l.stage.Load() == nil {\n", "	if l.stage.Load() == nil && rec == nil {\n"),
			Test:      schedTest("TestEndBeforeTheGrantIsTold"),
		},
	}
}
