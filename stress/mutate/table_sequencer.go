package mutate

const (
	turnFile     = "sched/sequencer/turn.go"
	arrivalsFile = "sched/sequencer/arrivals.go"
	ringFile     = "capacity/ring.go"
)

func sequencerTest(name string) Test { return Test{Package: "sched/sequencer", Name: name} }
func ringTest(name string) Test      { return Test{Package: "capacity", Name: name} }

func sequencerTable() []Mutation {
	return []Mutation{
		{
			Name:      "drop the dirty mark",
			Breaks:    "work published during an epoch is not looked at",
			Invariant: "6",
			Edits: edit(turnFile,
				"			if t.word.CompareAndSwap(turnRunning, turnDirty) {\n				return false\n			}\n",
				"			return false\n"),
			Test: sequencerTest("TestEnterDuringAnEpochHasItsHolderRunAnother"),
		},
		{
			Name:      "give the turn up by a store",
			Breaks:    "a dirty mark is overwritten by idle",
			Invariant: "6",
			Edits: edit(turnFile,
				"		if !more && t.word.CompareAndSwap(turnRunning, turnIdle) {\n			return\n		}\n",
				"		if !more {\n			t.word.Store(turnIdle)\n			return\n		}\n"),
			Test: sequencerTest("TestEnterDuringAnEpochHasItsHolderRunAnother"),
		},
		{
			Name:      "hand the turn over by a store",
			Breaks:    "an heir that left while it was chosen takes the turn along",
			Invariant: "6",
			Edits: edit(turnFile,
				"		if heir != nil && t.word.CompareAndSwap(turnRunning, turnRequired) {\n",
				"		if heir != nil {\n			t.word.Store(turnRequired)\n"),
			Test: sequencerTest("TestHeirThatLeavesWhileItIsChosen"),
		},
		{
			Name:      "choose the heir before the mark is forgotten",
			Breaks:    "the mark of an heir that leaves is overwritten",
			Invariant: "6",
			Edits: []Edit{
				{turnFile, "		t.word.Store(turnRunning)\n		if epochs < maxEpochs {\n			continue\n		}\n", "		if epochs < maxEpochs {\n			t.word.Store(turnRunning)\n			continue\n		}\n"},
				{turnFile, "		heir := e.Heir()\n", "		heir := e.Heir()\n		t.word.Store(turnRunning)\n"},
			},
			Test: sequencerTest("TestHeirThatLeavesWhileItIsChosen"),
		},
		{
			Name:      "wake the heir before the word says required",
			Breaks:    "the heir finds the turn taken, marks it and goes",
			Invariant: "6",
			Edits: edit(turnFile,
				"		if heir != nil && t.word.CompareAndSwap(turnRunning, turnRequired) {\n			perturb.Point()\n			Wake(heir)\n			return\n",
				"		if heir != nil {\n			Wake(heir)\n			perturb.Point()\n			t.word.Store(turnRequired)\n			return\n"),
			Test: Test{Package: "sched/sequencer", Name: "TestHeirIsWokenWhenTheTurnCanBeTaken", Tags: "perturb"},
		},
		{
			Name:      "let whoever finds the turn required pass",
			Breaks:    "the turn that was passed on is taken by nobody",
			Invariant: "6",
			Edits:     edit(turnFile, "		case turnIdle, turnRequired:\n", "		case turnIdle:\n"),
			Test:      sequencerTest("TestWhoeverComesFirstTakesAnInheritance"),
		},
		{
			Name:      "take the turn without a compare-and-swap",
			Breaks:    "two hold the turn",
			Invariant: "4",
			Edits: edit(turnFile,
				"			if t.word.CompareAndSwap(word, turnRunning) {\n				return true\n			}\n",
				"			t.word.Store(turnRunning)\n			return true\n"),
			Test: Test{Package: "sched/sequencer", Name: "TestTurnHasOneHolderAndLosesNoWork", Tags: "perturb"},
		},
		{
			Name:      "do not pass the turn on",
			Breaks:    "one caller works for the others without end",
			Invariant: "bounded work",
			Edits:     edit(turnFile, "		if epochs < maxEpochs {\n", "		if epochs > 0 {\n"),
			Test:      sequencerTest("TestTurnIsPassedOnAfterSomeEpochs"),
			Hangs:     true,
		},
		{
			Name:      "leave the stack of arrivals as it is",
			Breaks:    "those who came last are looked at first",
			Invariant: "4",
			Edits:     edit(arrivalsFile, "i < j; i, j = i+1, j-1", "i > j; i, j = i+1, j-1"),
			Test:      sequencerTest("TestDetachGivesTicketsInTheOrderOfArrival"),
		},
		{
			Name:      "push an arrival by a store",
			Breaks:    "an arrival that came at the same time is lost",
			Invariant: "6",
			Edits: edit(arrivalsFile,
				"		if a.head.CompareAndSwap(head, t) {\n			return\n		}\n", "		a.head.Store(t)\n		return\n"),
			Test: Test{Package: "sched/sequencer", Name: "TestNoArrivalIsLost", Tags: "perturb"},
		},
		{
			Name:      "do not wake whoever is next if a token is there",
			Breaks:    "waking blocks, or a stale token is taken for a new one",
			Invariant: "6",
			Edits:     edit(turnFile, "	select {\n	case waiter <- struct{}{}:\n	default:\n	}\n", "	waiter <- struct{}{}\n"),
			Test:      sequencerTest("TestWakeDoesNotBlock"),
			Hangs:     true,
		},
	}
}

func ringTable() []Mutation {
	return []Mutation{
		{
			Name:      "clear the mark after reading the load",
			Breaks:    "what is freed in between leaves no hint",
			Invariant: "6",
			Edits: edit(ringFile,
				"		r.Forget(source)\n		perturb.Point()\n		visit(source)\n",
				"		visit(source)\n		perturb.Point()\n		r.Forget(source)\n"),
			Test: ringTest("TestHintsComeOutInOrderAndOnce"),
		},
		{
			Name:      "do not look at the count of marks",
			Breaks:    "a hint whose producer stands between mark and push is missed",
			Invariant: "5, 6",
			Edits:     edit(ringFile, "	if r.marked.Load() != 0 {\n		overflowed = true\n	}\n", ""),
			Test:      ringTest("TestMarkWithoutHintCountsAsOverflow"),
		},
		{
			Name:      "forget a hint whose push failed",
			Breaks:    "a full ring, or a lost race in it, loses hints",
			Invariant: "6",
			Edits: edit(ringFile,
				"		perturb.Point()\n		r.overflow.Store(true)\n", "		perturb.Point()\n		r.Forget(source)\n"),
			Test: ringTest("TestRingOverflowsWithOneSourceTooMany"),
		},
		{
			Name:      "raise no flag when a push fails (nor look at the count)",
			Breaks:    "the mark stays set, and the source is never heard of again",
			Invariant: "6",
			Edits: []Edit{
				{ringFile, "		r.overflow.Store(true)\n", ""},
				{ringFile, "	if r.marked.Load() != 0 {\n		overflowed = true\n	}\n", ""},
			},
			Test: ringTest("TestRingOverflowsWithOneSourceTooMany"),
		},
		{
			Name:      "read the flag first and clear it last (nor look at the count)",
			Breaks:    "an overflow during the drain is cleared unseen",
			Invariant: "6",
			Edits: []Edit{
				{ringFile, "	overflowed = r.overflow.Swap(false)\n	for {", "	overflowed = r.overflow.Load()\n	for {"},
				{ringFile, "	if r.marked.Load() != 0 {\n		overflowed = true\n	}\n", "	r.overflow.Store(false)\n"},
			},
			Test: ringTest("TestOverflowDuringADrainIsSeenByTheNext"),
		},
		{
			Name:      "set the mark without counting it",
			Breaks:    "the count says that no producer is in between",
			Invariant: "6",
			Edits:     edit(ringFile, "	r.marked.Add(1)\n", ""),
			Test:      ringTest("TestHintsComeOutInOrderAndOnce"),
		},
		{
			Name:      "push every change of a marked source too",
			Breaks:    "a busy rank fills the ring alone",
			Invariant: "bounded work",
			Edits:     edit(ringFile, "	if mark.set.Load() {\n		return\n	}\n", ""),
			Test:      ringTest("TestHintsComeOutInOrderAndOnce"),
		},
	}
}
