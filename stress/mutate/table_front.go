package mutate

const (
	sequenceFile = "sched/queue/sequence.go"
	queueRing    = "sched/queue/ring.go"
	watchFile    = "sched/queue/watch.go"
)

// frontTable breaks how freed ranks ask the lanes, and what the queue is kept in.
func frontTable() []Mutation {
	return []Mutation{
		{
			Name:      "have a rank ask beyond the first lane that it opens",
			Breaks:    "each release asks all lanes",
			Invariant: "11",
			Edits: []Edit{
				{frontFile, "			return cameUp\n", "			_ = cameUp\n"},
				{frontFile, "				n.lane.witness, n.lane.hasWitness, n.lane.asked = rank, true, true\n", "				n.lane.witness, n.lane.hasWitness, n.lane.asked = rank, true, true\n				a.next, a.at.behind = 0, true\n"},
			},
			Test: queueTest("TestFreedRankAsksInOrderAndNoFurther"),
		},
		{
			Name:      "have a busy rank go on asking",
			Breaks:    "each release asks all lanes",
			Invariant: "11",
			Edits: edit(frontFile, "				last := len(a.ranks) - 1\n				a.ranks[a.next] = a.ranks[last]\n				a.ranks = a.ranks[:last]\n",
				"				a.next++\n"),
			Test: queueTest("TestBusyRankAsksNobodyElse"),
		},
		{
			Name:      "have a rank begin anew when the budget was used up",
			Breaks:    "with a long line it never comes to the end",
			Invariant: "6, 11",
			Edits: []Edit{
				{frontFile, "		if !b.Spend(CostLane) {\n			return usedUp\n", "		if !b.Spend(CostLane) {\n			a.at = place{}\n			return usedUp\n"},
				{frontFile, "			if !b.Spend(CostRank) {\n				return usedUp\n", "			if !b.Spend(CostRank) {\n				a.at = place{}\n				return usedUp\n"},
			},
			Test: queueTest("TestRankGoesOnWhereTheBudgetEnded"),
		},
		{
			Name:      "go on in the middle of the ranks at another lane",
			Breaks:    "a rank that asked a lane that has gone misses the next",
			Invariant: "6",
			Edits:     edit(frontFile, "			a.next = 0 // it is another lane than the one last asked\n", "			_ = a.next\n"),
			Test:      queueTest("TestAllRanksAskTheLaneAfterOneThatHasGone"),
		},
		{
			Name:      "forget the ranks that come up to others",
			Breaks:    "they ask nobody behind",
			Invariant: "6",
			Edits:     edit(frontFile, "		second.ranks = append(second.ranks, first.ranks...)\n", ""),
			Test:      queueTest("TestRanksThatMeetGoOnTogether"),
		},
		{
			Name:      "have a rank pass others on the way",
			Breaks:    "a lane further behind goes first",
			Invariant: "4",
			Edits:     edit(frontFile, "		if len(g.asks) > 1 && !g.asks[1]", "		if len(g.asks) < 0 && !g.asks[1]"),
			Test:      queueTest("TestRanksThatMeetGoOnTogether"),
		},
		{
			Name:      "take ranks on the way for all that there is to look at",
			Breaks:    "after a change of the world the lanes behind are not looked at",
			Invariant: "6",
			Edits:     edit(frontFile, "		second.every, second.ranks = true, nil\n", "		second.ranks = append(second.ranks, first.ranks...)\n"),
			Test:      queueTest("TestRankIsMetByWhoOpensEveryLane"),
		},
		{
			Name:      "leave a lane blocked that comes to stand ahead",
			Breaks:    "a rank on the way does not come to it any more",
			Invariant: "6",
			Edits:     edit(queueFile, " && l.mayBePassed() {\n", " && l.order.len() < 0 {\n"),
			Test:      queueTest("TestLaneThatPassesARankOnTheWay"),
		},
		{
			Name:      "look at a lane anew again and again",
			Breaks:    "whoever looks at every lane stays at the first that cannot run",
			Invariant: "6",
			Edits:     edit(frontFile, "			a.at.behind = true\n			n.lane.class.open(n.lane)\n", "			n.lane.class.open(n.lane)\n"),
			Test:      queueTest("TestRankIsMetByWhoOpensEveryLane"),
		},
		{
			Name:      "have a rank that cannot tell ask again",
			Breaks:    "it stays at the first lane that cannot run",
			Invariant: "6",
			Edits:     edit(frontFile, "				a.next, a.at.behind = 0, true\n				n.lane.class.open(n.lane)\n", "				n.lane.class.open(n.lane)\n"),
			Test:      queueTest("TestRankThatCannotTell"),
		},
		{
			Name:      "look at all ranks of a lane that a freed rank has opened",
			Breaks:    "a release looks at all ranks for each lane",
			Invariant: "11",
			Edits:     edit(roundFile, "			if l.asked {\n				return false\n			}\n", ""),
			Test:      queueTest("TestFreedRankAsksInOrderAndNoFurther"),
		},
		{
			Name:      "take an overloaded lane for a busy one",
			Breaks:    "who comes waits where all ranks are overloaded",
			Invariant: "4 (rule 3)",
			Edits:     edit(queueLineFile, "lane.blocked && !lane.overloaded && ", "lane.blocked && "),
			Test:      queueTest("TestAllOverloaded"),
		},
		{
			Name:      "take a lane for looked at that is not yet in this world",
			Breaks:    "who comes waits where all ranks have become overloaded",
			Invariant: "4 (rule 3)",
			Edits:     edit(queueLineFile, " && lane.stamp == l.q.stamp\n", "\n"),
			Test:      queueTest("TestThoseWhoJoinedAreTestedAtRest"),
		},
		{
			Name:      "take a leaver out of the queue that stands now",
			Breaks:    "who leaves while others are moved stays in the old queue",
			Invariant: "10",
			Edits:     edit(queueFile, "	q = c.queue // which is another one while entries are moved to it\n", ""),
			Test:      queueTest("TestLeavingWhileOthersAreMoved"),
		},
		{
			Name:      "watch ranks for nobody",
			Breaks:    "an idle scheduler has a timer",
			Invariant: "10",
			Edits:     edit(queueFile, "		q.watch.clear()\n", ""),
			Test:      queueTest("TestWatchedRanks"),
		},
		{
			Name:      "watch a rank for the last of its instants",
			Breaks:    "who could run earlier is not tested then",
			Invariant: "6",
			Edits:     edit(watchFile, "	case at < known.at:\n", "	default:\n"),
			Test:      queueTest("TestWatchKeepsTheEarliest"),
		},
		{
			Name:      "expire any of many first",
			Breaks:    "some wait longer past their due time than those who were due later",
			Invariant: "one instant",
			Edits:     edit(queueFile, "	if len(late) > most {\n		late = late[:0]\n		for len(late) < most {\n", "	if len(late) > most {\n		late = late[:most]\n		for len(late) < most {\n"),
			Test:      queueTest("TestOverdueInPieces"),
		},
		{
			Name:      "grant one that is due and not answered yet",
			Breaks:    "a request is granted after its due time",
			Invariant: "one instant",
			Edits:     edit(queueLineFile, "		if e.Due <= l.host.Now() {\n", "		if e.Due < 0 {\n"),
			Test:      queueTest("TestNobodyIsServedWhoIsDue"),
		},
		{
			Name:      "label no class anew",
			Breaks:    "after many visits two classes have the same place",
			Invariant: "4 (rule 8)",
			Edits:     edit(queueRing, "		return\n	}\n	r.relabel()\n", "		return\n	}\n"),
			Test:      queueTest("TestRingIsAList"),
		},
		{
			Name:      "leave the front where it is when its class goes to the back",
			Breaks:    "the class keeps its place",
			Invariant: "4 (rule 8d)",
			Edits:     edit(queueRing, "		r.head = c.after\n		return\n", "		return\n"),
			Test:      queueTest("TestRingIsAList"),
		},
		{
			Name:      "put a class before the front and not at it",
			Breaks:    "a blocked class goes to the back",
			Invariant: "4 (rule 8d)",
			Edits:     edit(queueRing, "		r.insert(c, r.head)\n		r.head = c\n", "		r.insert(c, r.head)\n"),
			Test:      queueTest("TestRingIsAList"),
		},
		{
			Name:      "keep a list whoever comes",
			Breaks:    "who must go before others goes behind them",
			Invariant: "4 (rule 6)",
			Edits:     edit(sequenceFile, "		s.compact()\n		s.heap = true\n", ""),
			Test:      queueTest("TestOrderInAClass"),
		},
		{
			Name:      "make a heap of a list with gaps",
			Breaks:    "the heap has holes",
			Invariant: "4 (rule 6)",
			Edits:     edit(sequenceFile, "		s.compact()\n		s.heap = true\n", "		s.heap = true\n"),
			Test:      queueTest("TestSequenceAgainstSorting"),
		},
		{
			Name:      "leave a gap at the end of a list",
			Breaks:    "the next to come is compared with nobody",
			Invariant: "4 (rule 6)",
			Edits:     edit(sequenceFile, "		s.members, s.gaps = s.members[:last], s.gaps-1\n", "		break\n"),
			Test:      queueTest("TestSequenceAgainstSorting"),
		},
		{
			Name:      "keep the gaps",
			Breaks:    "a line that moves along grows for ever",
			Invariant: "10",
			Edits:     edit(sequenceFile, "	if wasted := s.head + s.gaps; wasted > 32 && wasted > s.len() {\n		s.compact()\n	}\n", ""),
			Test:      queueTest("TestSequenceInOrderIsAList"),
		},
		{
			Name:      "keep a heap when it has run empty",
			Breaks:    "one who came out of order makes all that follow dearer",
			Invariant: "11",
			Edits:     edit(sequenceFile, "s.members[:0], 0, 0, false\n", "s.members[:0], 0, 0, s.heap\n"),
			Test:      queueTest("TestSequenceThatRanEmptyIsAList"),
		},
		{
			Name:      "test first the last who has joined",
			Breaks:    "who came first is rejected for who came later",
			Invariant: "4 (rule 5)",
			Edits:     edit(queueLineFile, "	return l.remain(l.joined[l.joinedFrom], b)\n", "	for i := len(l.joined) - 1; ; i-- {\n		if l.joined[i] != nil {\n			return l.remain(l.joined[i], b)\n		}\n	}\n"),
			Test:      queueTest("TestThoseWhoJoinedAreTestedAtRest"),
		},
		{
			Name:      "believe a freed rank after a lost race",
			Breaks:    "the race is lost again and again",
			Invariant: "6",
			Edits:     edit(queueLineFile, "			e.lane.hasWitness, e.lane.asked = false, false\n", ""),
			Test:      queueTest("TestLostRaceHasAllRanksLookedAt"),
		},
		{
			Name:      "lose who has joined when the queue is made anew",
			Breaks:    "they wait whatever the limits say",
			Invariant: "4 (rule 5)",
			Edits:     edit(queueLineFile, "		since, lacks := e.Lacks()\n", "		since, lacks := e.Lacks()\n		l.leaveJoined(e)\n"),
			Test:      queueTest("TestRebuild"),
		},
	}
}
