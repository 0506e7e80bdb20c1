package mutate

const (
	queueFile      = "sched/queue/queue.go"
	queueLineFile  = "sched/queue/line.go"
	roundFile      = "sched/queue/round.go"
	entryFile      = "sched/queue/entry.go"
	laneFile       = "sched/queue/lane.go"
	lookFile       = "sched/pool/look.go"
	chooseFile     = "sched/pool/choose.go"
	poolRequest    = "sched/pool/request.go"
	roundRobinFile = "sched/selector/round_robin.go"
	kvFile         = "sched/selector/kv.go"
)

func queueTest(name string) Test { return Test{Package: "sched/queue", Name: name} }
func poolTest(name string) Test  { return Test{Package: "sched/pool", Name: name} }

// queueTable breaks order, rounds and limits.
func queueTable() []Mutation {
	return []Mutation{
		{
			Name:      "end the visit of a blocked class",
			Breaks:    "its turn is lost for a moment's blocking",
			Invariant: "4 (rule 8a)",
			Edits:     edit(roundFile, "		case e == nil:\n			i++\n		case", "		case e == nil:\n			p.onVisit[class] = false\n			i++\n		case"),
			Test:      queueTest("TestBlockedClassStaysInFront"),
		},
		{
			Name:      "let a visit go on that cannot be afforded",
			Breaks:    "a class is served beyond its share",
			Invariant: "4 (rule 8a)",
			Edits:     edit(roundFile, "		case e.Cost <= p.deficits[class]:\n			return e\n		default:\n", "		case e.Cost > 0:\n			return e\n		default:\n"),
			Test:      queueTest("TestVisitsByDeficit"),
		},
		{
			Name:      "let blocked classes lose their place",
			Breaks:    "they go behind whoever was served",
			Invariant: "4 (rule 8d)",
			Edits:     edit(roundFile, "		if q.classes[before].pending > 0 && candidateOf(before) == nil {\n", "		if q.classes[before].pending < 0 {\n"),
			Test:      queueTest("TestBlockedClassStaysInFront"),
		},
		{
			Name:      "let empty classes keep their place",
			Breaks:    "a class that had nothing goes before those that stood behind it",
			Invariant: "4 (rule 8d)",
			Edits:     edit(roundFile, "		if q.classes[before].pending > 0 && candidateOf(before) == nil {\n", "		if candidateOf(before) == nil {\n"),
			Test:      queueTest("TestEmptyClassesArePassed"),
		},
		{
			Name:      "let a blocked class earn",
			Breaks:    "what it could not spend it spends later, at once",
			Invariant: "4 (rule 8b)",
			Edits:     edit(roundFile, "		e := candidateOf(class)\n		if e == nil {\n			continue\n		}\n		if e.Cost > p.deficits[class] {\n", "		e := candidateOf(class)\n		if e == nil {\n			p.deficits[class] += q.classes[class].quant\n			continue\n		}\n		if e.Cost > p.deficits[class] {\n"),
			Test:      queueTest("TestBlockedClassEarnsNothing"),
		},
		{
			Name:      "keep the deficit of a class that is left empty",
			Breaks:    "it comes back with credit",
			Invariant: "4 (rule 10)",
			Edits:     edit(queueFile, "	if c.pending == 0 {\n		c.deficit, c.onVisit = 0, false\n	}\n", ""),
			Test:      queueTest("TestEmptyClassLosesItsDeficitWhenLeft"),
		},
		{
			Name:      "keep the deficit of a class that is served empty",
			Breaks:    "it keeps its place in front",
			Invariant: "4 (rule 8d)",
			Edits:     edit(roundFile, "	if q.classes[class].pending == 1 {\n		p.deficits[class] = 0\n	}\n", ""),
			Test:      queueTest("TestEmptyClassLosesItsDeficitWhenServed"),
		},
		{
			Name:      "charge nothing",
			Breaks:    "a class is served without end",
			Invariant: "4 (rule 8d)",
			Edits:     edit(roundFile, "	p.deficits[class] = max(0, p.deficits[class]-e.Cost)\n", "	p.deficits[class] = max(0, p.deficits[class])\n"),
			Test:      queueTest("TestVisitsByDeficit"),
		},
		{
			Name:      "refund what could not be booked twice",
			Breaks:    "a lost race changes the round",
			Invariant: "4",
			Edits:     edit(roundFile, "	q.serve(served, candidateOf)\n	return served\n", "	q.serve(served, candidateOf)\n	q.adopt()\n	return served\n"),
			Test:      queueTest("TestNextChangesNothingUntilCommit"),
		},
		{
			Name:      "make up for a round too few",
			Breaks:    "nobody can afford to be served",
			Invariant: "4, 6 (rule 8c)",
			Edits:     edit(roundFile, "		if missing%quantum != 0 {\n			n++\n		}\n", ""),
			Test:      queueTest("TestRoundsAreMadeUpFor"),
		},
		{
			Name:      "make up for a round too many",
			Breaks:    "all classes earn what they are not due",
			Invariant: "4 (rule 8c)",
			Edits:     edit(roundFile, "		n := missing / quantum\n", "		n := missing/quantum + 1\n"),
			Test:      queueTest("TestRoundsAreMadeUpFor"),
		},
		{
			Name:      "make up for the most rounds instead of the least",
			Breaks:    "all classes earn what they are not due",
			Invariant: "4 (rule 8c)",
			Edits:     edit(roundFile, "n < rounds {", "n > rounds {"),
			Test:      queueTest("TestRoundsAreMadeUpFor"),
		},
		{
			Name:      "test the limits before dispatch",
			Breaks:    "who could run is refused as if it would wait",
			Invariant: "4 (rule 5)",
			Edits: edit(queueLineFile, "	l.Add(class, e)\n	status, served := l.serve(budget, e)\n",
				"	early := l.host.Usage(class)\n	if limit, _, bound, full := rules.LimitReached(early.Requests, early.Raw, early.Cached, l.host.Workers()); full {\n		l.host.Refuse(class, e.Value, RefusedFull, early, limit, bound)\n		return Done\n	}\n	l.Add(class, e)\n	status, served := l.serve(budget, e)\n"),
			Test: queueTest("TestLimitsAreForWhoWouldRemain"),
		},
		{
			Name:      "refuse by a usage that is not up to date",
			Breaks:    "a request is refused for a limit that was not reached while it had to wait",
			Invariant: "4 (rule 5)",
			Edits:     edit(queueLineFile, ".MustWait || l.host.Usage(class) != usage {", ".MustWait {"),
			Test:      queueTest("TestRefusalKnowsWhoHasLeft"),
		},
		{
			Name:      "let a never-queue class ignore its backlog",
			Breaks:    "it goes before those who wait",
			Invariant: "3 (rule 4)",
			Edits:     edit(queueLineFile, "	case never && rules.CanQueue() && usage.Requests > 0:\n", "	case never && rules.CanQueue() && usage.Requests < 0:\n"),
			Test:      queueTest("TestNeverQueueClass"),
		},
		{
			Name:      "refuse a never-queue request without an exact look",
			Breaks:    "load that moves makes all ranks look busy though they never were",
			Invariant: "4",
			Edits:     edit(queueLineFile, "		if !l.host.Gate(class, e.Value, true).MustWait {\n			return l.again(budget)\n		}\n", ""),
			Test:      queueTest("TestRefusalIsLookedAtTwice"),
		},
		{
			Name:      "refuse in line without an exact look",
			Breaks:    "load that moves makes all ranks look busy though they never were",
			Invariant: "4",
			Edits:     edit(queueLineFile, "	if !l.host.Gate(class, e.Value, true).MustWait || l.host.Usage(class) != usage {\n		l.UnblockAll()\n		return l.again(budget)\n	}\n", ""),
			Test:      queueTest("TestRefusalIsLookedAtTwice"),
		},
		{
			Name:      "leave the entry of a refused arrival",
			Breaks:    "who asked not to wait waits",
			Invariant: "10",
			Edits:     edit(queueLineFile, "	l.Remove(e)\n	// A refusal", "	// A refusal"),
			Test:      queueTest("TestWouldQueueLeavesNoTrace"),
		},
		{
			Name:      "admit an arrival past the backlog",
			Breaks:    "a newcomer takes what was freed for who waits",
			Invariant: "3",
			Edits:     edit(queueLineFile, "	case never, l.Len() == 0 && !gate.MustWait:\n", "	case never, !gate.MustWait:\n"),
			Test:      queueTest("TestFreedCapacityGoesToWhoseTurnItIs"),
		},
		{
			Name:      "serve a lane that is blocked",
			Breaks:    "a head that cannot run holds up all behind it",
			Invariant: "6",
			Edits:     edit(roundFile, "		q.block(best.lane, retestAt)\n	}\n", "		q.block(best.lane, retestAt)\n		return nil\n	}\n"),
			Test:      queueTest("TestBlockedLaneStopsNoOther"),
		},
		{
			Name:      "forget the instant at which time unblocks a lane",
			Breaks:    "decay frees a rank and nobody is tested",
			Invariant: "6",
			Edits:     edit(queueFile, "	if retestAt != NoDue {\n		q.retest.push(l)\n	}\n", ""),
			Test:      queueTest("TestRetestInstants"),
		},
		{
			Name:      "wake no lane that is allowed some workers",
			Breaks:    "a hint about such a rank passes it by",
			Invariant: "6",
			Edits:     edit(queueFile, "	unblock(q.watch.worker[rank.Worker])\n", ""),
			Test:      queueTest("TestHintWakesTheLanesItConcerns"),
		},
		{
			Name:      "order by score before due time",
			Breaks:    "an early due time does not go first",
			Invariant: "4 (rule 6)",
			Edits:     edit(entryFile, "		cmp.Compare(e.Due, other.Due),\n		cmp.Compare(other.score.whole, e.score.whole),\n", "		cmp.Compare(other.score.whole, e.score.whole),\n		cmp.Compare(e.Due, other.Due),\n"),
			Test:      queueTest("TestOrderInAClass"),
		},
		{
			Name:      "let age come a nanosecond late",
			Breaks:    "at exactly the maximum age a request does not go first",
			Invariant: "4 (rule 6)",
			Edits:     edit(laneFile, "now-oldest.Arrival >= c.maxAge", "now-oldest.Arrival > c.maxAge"),
			Test:      queueTest("TestOrderInAClass"),
		},
	}
}

// poolTable breaks the look at the ranks and the choice.
func poolTable() []Mutation {
	return []Mutation{
		{
			Name:      "take a rank for idle that has changed",
			Breaks:    "a query is served by a rank that was not idle when nobody waited",
			Invariant: "3, 4",
			Edits:     edit(lookFile, "		if !busy && l.Slot(i).Shard.Version() == l.candidates[i].Version {\n", "		if !busy && i >= 0 {\n"),
			Test:      poolTest("TestStillIdle"),
		},
		{
			Name:      "let a ratio be that of several instants",
			Breaks:    "a class is owed tokens for a request that could not run",
			Invariant: "4 (rule 8)",
			Edits:     edit(lookFile, "ratio > 0 && ratio < 1 && !gate.MustWait && len(l.slots) > 1 {\n", "ratio > 1 && len(l.slots) > 1 {\n"),
			Test:      poolTest("TestRatioIsSeenAtOneInstant"),
		},
		{
			Name:      "say must-wait from one pass over the ranks",
			Breaks:    "load that moves makes all ranks look busy though they never were",
			Invariant: "4",
			Edits:     edit(lookFile, "	for tries := 0; exact && gate.MustWait && !l.Unmoved(); tries++ {\n", "	for tries := 0; exact && gate.MustWait && tries < 0; tries++ {\n"),
			Test:      poolTest("TestExactGateSeesLoadThatMoves"),
		},
		{
			Name:      "let an overloaded rank open the gate",
			Breaks:    "who must wait is let through to no rank",
			Invariant: "1",
			Edits:     edit(lookFile, "		if slot.Overloaded {\n			gate.Overloaded++\n			continue\n		}\n", "		if slot.Overloaded {\n			gate.Overloaded++\n		}\n"),
			Test:      poolTest("TestGateAgainstEachRank"),
		},
		{
			Name:      "count best cached over overloaded ranks no more",
			Breaks:    "overload changes a request's class",
			Invariant: "4 (rule 1)",
			Edits:     edit(poolRequest, "check == shards.Eligible || check == shards.Overloaded {\n			best = cached", "check == shards.Eligible {\n			best = cached"),
			Test:      poolTest("TestBestCachedLooksPastOverload"),
		},
		{
			Name:      "move the round robin for a pin",
			Breaks:    "a pinned booking changes where the next goes",
			Invariant: "4",
			Edits:     edit(chooseFile, "	if !ok || c.Forced || !l.BuiltinSelector() {\n		return true\n	}\n	return tracker.Booked(&l.input, c.pick, l.candidates[c.Candidate].Rank, false)\n", "	if !ok || !l.BuiltinSelector() {\n		return true\n	}\n	return tracker.Booked(&l.input, c.pick, l.candidates[c.Candidate].Rank, c.Forced)\n"),
			Test:      poolTest("TestRoundRobinMovesWithBookingsOnly"),
		},
		{
			Name:      "call a foreign selector to confirm",
			Breaks:    "code of the embedder's runs under a rank's lock",
			Invariant: "9",
			Edits:     edit(chooseFile, "	if !l.World.builtin {\n		if l.World.needs&(selector.NeedsLoad|selector.NeedsBlocks) != 0 {\n			return false\n		}\n", "	if !l.World.builtin && l.World.needs&(selector.NeedsLoad|selector.NeedsBlocks) == 0 {\n"),
			Test:      poolTest("TestForeignCodeIsNotCalledUnderLocks"),
		},
		{
			Name:      "confirm whatever the cost",
			Breaks:    "a rank that became dearer than the next is booked",
			Invariant: "4",
			Edits:     edit(kvFile, "	return finite(cost) && cost <= p.RunnerUp\n", "	return finite(cost)\n"),
			Test:      Test{Package: "sched/selector", Name: "TestKVConfirm"},
		},
		{
			Name:      "move the round robin without comparing",
			Breaks:    "two bookings that race go to one rank",
			Invariant: "4",
			Edits:     edit(roundRobinFile, "		if !force && last != p.seen && (last == nil || p.seen == nil || *last != *p.seen) {\n			return false\n		}\n", ""),
			Test:      Test{Package: "sched/selector", Name: "TestRoundRobinLostRace"},
		},
	}
}
