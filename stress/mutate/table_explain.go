package mutate

// explainTable breaks what shows a scheduler, and what a selector of the
// embedder's may do to it.
func explainTable() []Mutation {
	const (
		explainFile = "sched/explain.go"
		rollFile    = "sched/roll.go"
		ownFile     = "sched/pool/own.go"
		classesFile = "sched/internal/measure/classes.go"
	)
	return []Mutation{
		{
			Name:      "explain with the scheduler's random numbers",
			Breaks:    "looking changes what is drawn next",
			Invariant: "explaining changes nothing",
			Edits: []Edit{
				{explainFile, "l.Explain(rand.New(rand.NewPCG(0, 0)))", "l.Explain(s.rand)"},
				{explainFile, "	\"math/rand/v2\"\n", ""},
			},
			Test: schedTest("TestExplainChangesNothing"),
		},
		{
			Name:      "explain a class with backlog as one without",
			Breaks:    "a refusal is foretold as a booking",
			Invariant: "an explanation is what is done",
			Edits:     edit(explainFile, "c.WaitsForEndpoint(), usage.Requests) {\n", "c.WaitsForEndpoint(), 0) {\n"),
			Test:      schedTest("TestExplainAClassWithABacklogFromBefore"),
		},
		{
			Name:      "go on a roll without leaving one's place",
			Breaks:    "whoever has left is still shown, and another in its job",
			Invariant: "10",
			Edits:     edit(ledgerFile, "			place.class = nil\n			place.place.leave()\n", "			place.class = nil\n"),
			Test:      schedTest("TestSnapshotOfALongLine"),
		},
		{
			Name:      "stop where the lock is given to others",
			Breaks:    "a long line is cut short",
			Invariant: "who waits is shown",
			Edits:     edit(rollFile, "			l.mu.Unlock()\n			l.mu.Lock()\n			continue\n", "			return\n"),
			Test:      schedTest("TestSnapshotOfALongLine"),
		},
		{
			Name:      "lend what is decided by",
			Breaks:    "a selector that sorts its input has another rank booked than it is told",
			Invariant: "9",
			Edits:     edit(chooseFile, "l.pickSafely(l.World.Selector, l.lend())", "l.pickSafely(l.World.Selector, in)"),
			Test:      schedTest("TestSelectorCannotBreakItsInput"),
		},
		{
			Name:      "leave the chosen rank as the selector needed it",
			Breaks:    "a booking counts cached tokens as work, and shared blocks twice",
			Invariant: "7",
			Edits:     edit(ownFile, "	if l.whole {\n", "	if candidate >= 0 {\n"),
			Test:      schedTest("TestSelectorSeesWhatItNeeds"),
		},
		{
			Name:      "compare a cost that is not finite",
			Breaks:    "a selector's NaN is booked",
			Invariant: "8",
			Edits:     edit(chooseFile, "	case math.IsNaN(pick.Cost) || math.IsInf(pick.Cost, 0):\n", "	case math.IsNaN(pick.Cost) && math.IsInf(pick.Cost, 0):\n"),
			Test:      schedTest("TestMisbehavingSelectorIsATypedError"),
		},
		{
			Name:      "forget the counters of classes that a profile lacks",
			Breaks:    "counters fall when a policy is replaced",
			Invariant: "counters only grow",
			Edits:     edit(classesFile, "byName: maps.Clone(old.byName),", "byName: maps.Clone(map[string]*Class(nil)),"),
			Test:      schedTest("TestDecisionsAreCountedByClass"),
		},
		{
			Name:      "forget what classes counted that are long gone",
			Breaks:    "the sums fall",
			Invariant: "counters only grow",
			Edits:     edit(classesFile, "		class.gone.Store(true)\n		c.sumLocked(class)\n", "		class.gone.Store(true)\n"),
			Test:      Test{Package: "sched/internal/measure", Name: "TestClassesThatGoLeaveTheirCounts"},
		},
		{
			Name:      "read the counters of a class that goes once",
			Breaks:    "what is counted in it later is lost",
			Invariant: "counters only grow",
			Edits:     edit(classesFile, "	if c.gone.Load() {\n", "	if c.gone.Load() && c.name == \"\" {\n"),
			Test:      Test{Package: "sched/internal/measure", Name: "TestClassesThatGoLeaveTheirCounts"},
		},
	}
}
