package mutate

const (
	queueFile      = "sched/queue/queue.go"
	queueLineFile  = "sched/queue/line.go"
	roundFile      = "sched/queue/round.go"
	entryFile      = "sched/queue/entry.go"
	frontFile      = "sched/queue/front.go"
	lookFile       = "sched/pool/look.go"
	gateFile       = "sched/pool/gate.go"
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
			Name:      "plan with all classes",
			Breaks:    "a grant costs as much as there are classes",
			Invariant: "11",
			Edits:     edit(roundFile, "	for _, c := range q.active {\n		p.at = append", "	for _, c := range q.classes {\n		p.at = append"),
			Test:      queueTest("TestGrantDealsWithActiveClasses"),
		},
		{
			Name:      "have an arrival wait with those who wait, whatever has become of its ranks",
			Breaks:    "an arrival all of whose ranks are overloaded waits instead of being told",
			Invariant: "4",
			Edits:     edit(queueLineFile, "	if e.lane.overloaded {\n", "	if e.lane == nil {\n"),
			Test:      queueTest("TestAllOverloadedSinceItJoined"),
		},
		{
			Name:      "end the visit of a blocked class",
			Breaks:    "its turn is lost for a moment's blocking",
			Invariant: "4 (rule 8a)",
			Edits:     edit(roundFile, "		case e == nil:\n			i++\n		case", "		case e == nil:\n			at.onVisit = false\n			i++\n		case"),
			Test:      queueTest("TestBlockedClassStaysInFront"),
		},
		{
			Name:      "let a visit go on that cannot be afforded",
			Breaks:    "a class is served beyond its share",
			Invariant: "4 (rule 8a)",
			Edits:     edit(roundFile, "		case e.Cost <= at.deficit:\n			return i\n		default:\n", "		case e.Cost > 0:\n			return i\n		default:\n"),
			Test:      queueTest("TestVisitsByDeficit"),
		},
		{
			Name:      "let blocked classes lose their place",
			Breaks:    "they go behind whoever was served",
			Invariant: "4 (rule 8d)",
			Edits:     edit(roundFile, "; p.candidate == nil {\n", "; p.class.pending < 0 {\n"),
			Test:      queueTest("TestBlockedClassStaysInFront"),
		},
		{
			Name:      "let empty classes keep their place",
			Breaks:    "a class that had nothing goes before those that stood behind it",
			Invariant: "4 (rule 8d)",
			Edits: edit(roundFile, "	q.ring.head = served\n",
				"	for c := served.before; c.after != q.ring.head; c = c.before {\n		if c.pending == 0 {\n			defer q.ring.toFront(c)\n		}\n	}\n	q.ring.head = served\n"),
			Test: queueTest("TestEmptyClassesArePassed"),
		},
		{
			Name:      "let a blocked class earn",
			Breaks:    "what it could not spend it spends later, at once",
			Invariant: "4 (rule 8b)",
			Edits:     edit(roundFile, "		if e == nil {\n			continue\n		}\n", "		if e == nil {\n			at.deficit += at.class.quant\n			continue\n		}\n"),
			Test:      queueTest("TestBlockedClassEarnsNothing"),
		},
		{
			Name:      "keep the deficit of a class that is left empty",
			Breaks:    "it comes back with credit",
			Invariant: "4 (rule 10)",
			Edits:     edit(queueFile, "		c.deficit, c.onVisit = 0, false\n", ""),
			Test:      queueTest("TestEmptyClassLosesItsDeficitWhenLeft"),
		},
		{
			Name:      "keep the deficit of a class that is served empty",
			Breaks:    "it keeps its place in front",
			Invariant: "4 (rule 8d)",
			Edits:     edit(roundFile, "	if served.pending == 1 {\n		served.deficit = 0\n	}\n", ""),
			Test:      queueTest("TestEmptyClassLosesItsDeficitWhenServed"),
		},
		{
			Name:      "charge nothing",
			Breaks:    "a class is served without end",
			Invariant: "4 (rule 8d)",
			Edits:     edit(roundFile, "	served.deficit = max(0, served.deficit-e.Cost)\n", "	served.deficit = max(0, served.deficit)\n"),
			Test:      queueTest("TestVisitsByDeficit"),
		},
		{
			Name:      "earn before the service is committed",
			Breaks:    "a lost race changes the round",
			Invariant: "4",
			Edits:     edit(roundFile, "	p.place, p.served = at, p.at[at].candidate\n", "	p.place, p.served = at, p.at[at].candidate\n	for i := range p.at {\n		p.at[i].class.deficit = p.at[i].deficit\n	}\n"),
			Test:      queueTest("TestNextChangesNothingUntilCommit"),
		},
		{
			Name:      "make up for a round too few",
			Breaks:    "nobody can afford to be served",
			Invariant: "4, 6 (rule 8c)",
			Edits:     edit(roundFile, "		if missing%at.class.quant != 0 {\n			n++\n		}\n", ""),
			Test:      queueTest("TestRoundsAreMadeUpFor"),
		},
		{
			Name:      "make up for a round too many",
			Breaks:    "all classes earn what they are not due",
			Invariant: "4 (rule 8c)",
			Edits:     edit(roundFile, "		n := missing / at.class.quant\n", "		n := missing/at.class.quant + 1\n"),
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
			Breaks:    "who could run is rejected as if it would wait",
			Invariant: "4 (rule 5)",
			Edits: edit(queueLineFile, "	l.join(class, e)\n	return Done\n}\n\nfunc (l *Line[T]) gate(",
				"	u := l.host.Usage(class)\n	if limit, _, bound, full := l.host.Rules(class).LimitReached(u.Requests, u.Raw, u.Cached, l.host.Workers()); full {\n		l.host.Reject(class, e.Value, Rejection{Why: Full, Usage: u, Limit: limit, Bound: bound})\n		return Done\n	}\n	l.join(class, e)\n	return Done\n}\n\nfunc (l *Line[T]) gate("),
			Test: queueTest("TestThoseWhoJoinedAreTestedAtRest"),
		},
		{
			Name:      "refuse by a usage that is not up to date",
			Breaks:    "a request is refused for a limit that was not reached while it had to wait",
			Invariant: "4 (rule 5)",
			Edits:     edit(queueLineFile, " || l.host.Usage(class) != usage {", " {"),
			Test:      queueTest("TestRefusalKnowsWhoHasLeft"),
		},
		{
			Name:      "let a never-queue class ignore its backlog",
			Breaks:    "it goes before those who wait",
			Invariant: "3 (rule 4)",
			Edits:     edit(queueLineFile, "	case rules.CanQueue() && usage.Requests > 0:\n", "	case rules.CanQueue() && usage.Requests < 0:\n"),
			Test:      queueTest("TestNeverQueueClass"),
		},
		{
			Name:      "refuse a never-queue request without an exact look",
			Breaks:    "load that moves makes all ranks look busy though they never were",
			Invariant: "4",
			Edits:     edit(queueLineFile, "		if !l.exactly(class, e, b) {\n			return Again\n		}\n", ""),
			Test:      queueTest("TestRefusalIsLookedAtTwice"),
		},
		{
			Name:      "refuse in line without an exact look",
			Breaks:    "load that moves makes all ranks look busy though they never were",
			Invariant: "4",
			Edits:     edit(queueLineFile, "	if !l.exactly(class, e.lane.First(), b) || l.host.Usage(class) != usage {\n		l.q.open(e.lane)\n		return Again\n	}\n", ""),
			Test:      queueTest("TestRefusalIsLookedAtTwice"),
		},
		{
			Name:      "leave the entry of a refused arrival",
			Breaks:    "who asked not to wait waits",
			Invariant: "10",
			Edits:     edit(queueLineFile, "	l.Remove(e)\n	l.host.Reject(", "	l.leaveJoined(e)\n	l.host.Reject("),
			Test:      queueTest("TestWouldQueueLeavesNoTrace"),
		},
		{
			Name:      "admit an arrival past the backlog",
			Breaks:    "a newcomer runs beside the round",
			Invariant: "3",
			Edits:     edit(queueLineFile, "	case l.q.length > 0 || gate.MustWait:\n", "	case gate.MustWait:\n"),
			Test:      queueTest("TestArrivalBehindABacklogTakesPartInTheRound"),
		},
		{
			Name:      "serve a lane that is blocked",
			Breaks:    "a head that cannot run holds up all behind it",
			Invariant: "6",
			Edits:     edit(roundFile, "		c.block(best.lane)\n		if b.Exhausted() {\n			return nil, false\n		}\n", "		c.block(best.lane)\n		return nil, !b.Exhausted()\n"),
			Test:      queueTest("TestBlockedLaneStopsNoOther"),
		},
		{
			Name:      "forget the instant at which time frees a rank",
			Breaks:    "decay frees a rank and nobody is tested",
			Invariant: "6",
			Edits:     edit(queueFile, "	if q.length > 0 {\n		q.watch.add(rank, at)\n	}\n", ""),
			Test:      queueTest("TestWatchedRanks"),
		},
		{
			Name:      "ask no lane that is allowed some workers",
			Breaks:    "a freed rank of theirs passes it by",
			Invariant: "6",
			Edits:     edit(frontFile, "		f.send(f.groups[groupKey{worker: rank.Worker}], rank)\n", ""),
			Test:      queueTest("TestFreedRankAsksTheLanesItConcerns"),
		},
		{
			Name:      "order by score before due time",
			Breaks:    "an early due time does not go first",
			Invariant: "4 (rule 6)",
			Edits:     edit(entryFile, "	case a.due != b.due:\n		return a.due < b.due\n	case a.score.whole != b.score.whole:\n		return a.score.whole > b.score.whole\n", "	case a.score.whole != b.score.whole:\n		return a.score.whole > b.score.whole\n	case a.due != b.due:\n		return a.due < b.due\n"),
			Test:      queueTest("TestOrderInAClass"),
		},
		{
			Name:      "let age come a nanosecond late",
			Breaks:    "at exactly the maximum age a request does not go first",
			Invariant: "4 (rule 6)",
			Edits:     edit(roundFile, "now-oldest.Arrival >= c.maxAge", "now-oldest.Arrival > c.maxAge"),
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
			Edits:     edit(gateFile, "ratio > 0 && ratio < 1 && !gate.MustWait && len(l.slots) > 1 {\n", "ratio > 1 && len(l.slots) > 1 {\n"),
			Test:      poolTest("TestRatioIsSeenAtOneInstant"),
		},
		{
			Name:      "say must-wait from one pass over the ranks",
			Breaks:    "load that moves makes all ranks look busy though they never were",
			Invariant: "4",
			Edits:     edit(gateFile, "	for tries := 0; exact && gate.MustWait && !l.Unmoved(); tries++ {\n", "	for tries := 0; exact && gate.MustWait && tries < 0; tries++ {\n"),
			Test:      poolTest("TestExactGateSeesLoadThatMoves"),
		},
		{
			Name:      "let an overloaded rank open the gate",
			Breaks:    "who must wait is let through to no rank",
			Invariant: "1",
			Edits:     edit(gateFile, "		if slot.Overloaded {\n			gate.Overloaded++\n			continue\n		}\n", "		if slot.Overloaded {\n			gate.Overloaded++\n		}\n"),
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
			Name:      "count best cached over ranks that long lists exclude",
			Breaks:    "a request's class goes by a cache that it may not use",
			Invariant: "4 (rule 1)",
			Edits:     edit(poolRequest, "place >= 0 && set.Has(&slots[place]) {\n", "place >= 0 && slots[place].Available {\n"),
			Test:      poolTest("TestBestCachedWithLongLists"),
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
