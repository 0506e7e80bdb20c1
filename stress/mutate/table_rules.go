package mutate

const asideTableFile = "shards/aside.go"

// rulesTable breaks the rules that go beyond Dynamo's.
func rulesTable() []Mutation {
	return []Mutation{
		{
			Name:      "set no timer for the end of a setting aside",
			Breaks:    "a request waits on a worker that is not aside any more",
			Invariant: "6",
			Edits:     edit(lineFile, "	return min(l.queue.Queue().NextFree(), l.world.Table.AsideEnd())\n", "	return l.queue.Queue().NextFree()\n"),
			Test:      schedTest("TestAsideEndsForRequestsThatWait"),
			Hangs:     true,
		},
		{
			Name:      "have no caller end a setting aside",
			Breaks:    "a worker is aside until somebody waits for it",
			Invariant: "4",
			Edits:     edit(asideFile, "	if w.Table.AsideEnd() == shards.NeverEnds {\n", "	if true {\n"),
			Test:      schedTest("TestSetAside"),
		},
		{
			Name:      "let a shorter setting aside hold",
			Breaks:    "who learned less of a worker overrules who learned more",
			Invariant: "4",
			Edits:     edit(asideTableFile, "	copied.hold(id, max(until, t.aside[id]))\n", "	copied.hold(id, until)\n"),
			Test:      schedTest("TestSetAside"),
		},
		{
			Name:      "set a worker aside after its rank was released",
			Breaks:    "the next request in line goes to the worker that failed",
			Invariant: "4",
			Edits: []Edit{
				{doFile, "	defer func() { _ = b.Release() }()\n	worker", "	worker"},
				{doFile, "	err = f(ctx, b)\n", "	func() {\n		defer func() { _ = b.Release() }()\n		err = f(ctx, b)\n	}()\n"},
			},
			Test: schedTest("TestDoSetsAsideFirst"),
		},
		{
			Name:      "set aside whatever process has the id",
			Breaks:    "a new process pays for the one before it",
			Invariant: "4",
			Edits:     edit(doFile, "s.SetAsideIncarnation(worker.ID, worker.Incarnation, retry.aside)", "s.SetAside(worker.ID, retry.aside)"),
			Test:      schedTest("TestDoSetsAside"),
		},
		{
			Name:      "take another process for the one before it",
			Breaks:    "a process that starts empty has the load of the one that went",
			Invariant: "7",
			Edits:     edit(editFile, "	same := c.old != nil && !c.old.Another(w.Incarnation)\n", "	same := c.old != nil\n"),
			Test:      shardsTest("TestIncarnations"),
		},
		{
			Name:      "forget the incarnation that is known",
			Breaks:    "another process is not recognised after an update without a name",
			Invariant: "7",
			Edits:     edit(editFile, "	if w.Incarnation == \"\" {\n		w.Incarnation = known.Incarnation // w is not published yet: known is another\n	}\n", ""),
			Test:      shardsTest("TestIncarnations"),
		},
		{
			Name:      "remove whatever process has the id",
			Breaks:    "late news of a process ends the one that took its place",
			Invariant: "7",
			Edits:     edit(topologyFile, "	case w.Another(incarnation):\n		return staleIncarnation", "	case false:\n		return staleIncarnation"),
			Test:      schedTest("TestSetAside"),
		},
		{
			Name:      "replace the workers before the sets that go with them",
			Breaks:    "requests that wait see a moment without a worker",
			Invariant: "4",
			Edits:     edit(topologyFile, "				table = set.apply(table)\n", "				_ = set.apply(table)\n"),
			Test:      schedTest("TestPoolIsReplacedWhole"),
		},
		{
			Name:      "move a refreshed booking to a guarded rank",
			Breaks:    "a rank that somebody has waited for long is filled again",
			Invariant: "4",
			Edits:     edit("sched/transfer.go", "			l.Guards = s.guardsAt(w, s.now())\n", ""),
			Test:      schedTest("TestGuardsOutsideTheTurn"),
		},
		{
			Name:      "choose a guarded rank",
			Breaks:    "steady traffic of a loose class starves a strict one",
			Invariant: "4",
			Edits:     edit(barredFile, "		if idle && busy || l.bound && l.guarded[i] {\n", "		if idle && busy {\n"),
			Test:      schedTest("TestGuardsOutsideTheTurn"),
		},
		{
			Name:      "wait for no guarded rank",
			Breaks:    "steady traffic of a loose class starves a strict one",
			Invariant: "4",
			Edits:     edit("sched/pool/look.go", " || l.Guarded > 0 && blocked+l.Guarded == l.Eligible\n", "\n"),
			Test:      scriptTest("guard_age.txt"),
		},
		{
			Name:      "free nobody when a guard ceases",
			Breaks:    "requests wait for ranks that nobody guards any more",
			Invariant: "6",
			Edits:     edit(hostFile, "		if rank == nil {\n			q.OpenAll()\n		} else {\n			q.Free(*rank)\n		}\n", "		_, _ = rank, q\n"),
			Test:      schedTest("TestGuardEndsWithItsRequest"),
		},
		{
			Name:      "let a request come of age too late",
			Breaks:    "a rank is filled further although its time has come",
			Invariant: "4",
			Edits:     edit("sched/queue/guard.go", "			if now < addSaturating(e.Arrival, c.guardAfter) {\n", "			if now <= addSaturating(e.Arrival, c.guardAfter) {\n"),
			Test:      scriptTest("guard_age.txt"),
		},
		{
			Name:      "guard for a request that has left",
			Breaks:    "a rank is held back for nobody",
			Invariant: "6",
			Edits:     edit("sched/queue/guard.go", "	if l.aged--; l.aged == 0 {\n", "	if l.aged--; l.aged < 0 {\n"),
			Test:      schedTest("TestGuardEndsWithItsRequest"),
		},
		{
			Name:      "set no timer for who lacks an endpoint",
			Breaks:    "a request waits for an endpoint for ever",
			Invariant: "6",
			Edits:     edit(lineFile, "	next := min(l.queue.Queue().NextDue(), l.nextFree(), l.queue.Queue().NextFail())\n", "	next := min(l.queue.Queue().NextDue(), l.nextFree())\n"),
			Test:      schedTest("TestEndpointWaitIsSeenAndEnds"),
			Hangs:     true,
		},
		{
			Name:      "fail a lane that has a rank by now",
			Breaks:    "a request fails at the instant at which its worker is back",
			Invariant: "4",
			Edits:     edit("sched/queue/lacking.go", "			if !still(l) {\n", "			if false {\n"),
			Test:      scriptTest("endpoint_break.txt"),
			Hangs:     true,
		},
		{
			Name:      "count the time of a break",
			Breaks:    "a request fails although it had a rank meanwhile",
			Invariant: "4",
			Edits:     edit("sched/queue/lacking.go", "	l.lacks, l.lacksSince = lacks, now\n", "	l.lacks = true\n	if l.lacksSince == 0 {\n		l.lacksSince = now\n	}\n"),
			Test:      scriptTest("endpoint_break.txt"),
			Hangs:     true,
		},
	}
}
