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
				"		if !more && t.word.CompareAndSwap(turnRunning, turnIdle) {\n			return\n		}\n		if left",
				"		if !more {\n			t.word.Store(turnIdle)\n			return\n		}\n		if left"),
			Test: sequencerTest("TestEnterDuringAnEpochHasItsHolderRunAnother"),
		},
		{
			Name:      "hand over and start no helper",
			Breaks:    "what is left is done by nobody",
			Invariant: "6",
			Edits:     edit(turnFile, "	if t.onWay.CompareAndSwap(false, true) {\n		go t.help(e)\n	}\n", ""),
			Test:      sequencerTest("TestEnterRunsAsFarAsItsAllowanceGoes"),
		},
		{
			Name:      "look for a helper before the word says required",
			Breaks:    "a helper that is just going looks at the word too early, and no other is started",
			Invariant: "6",
			Edits: edit(turnFile,
				"	t.word.Store(turnRequired)\n	perturb.Point()\n	if t.onWay.CompareAndSwap(false, true) {\n		go t.help(e)\n	}\n",
				"	if t.onWay.CompareAndSwap(false, true) {\n		go t.help(e)\n	}\n	perturb.Point()\n	t.word.Store(turnRequired)\n"),
			Test: Test{Package: "sched/sequencer", Name: "TestHandOverMeetsHelpers", Tags: "perturb"},
		},
		{
			Name:      "have the helper look before it says that it is on its way no longer",
			Breaks:    "who hands over in between relies on a helper that has looked already",
			Invariant: "6",
			Edits: edit(turnFile,
				"		t.onWay.Store(false)\n		perturb.Point()\n		if !t.word.CompareAndSwap(turnRequired, turnRunning) {\n			return\n		}\n",
				"		taken := t.word.CompareAndSwap(turnRequired, turnRunning)\n		perturb.Point()\n		t.onWay.Store(false)\n		if !taken {\n			return\n		}\n"),
			Test: Test{Package: "sched/sequencer", Name: "TestHandOverMeetsHelpers", Tags: "perturb"},
		},
		{
			Name:      "start a helper though one is on its way",
			Breaks:    "each hand-over starts a goroutine",
			Invariant: "11",
			Edits: edit(turnFile,
				"	if t.onWay.CompareAndSwap(false, true) {\n		go t.help(e)\n	}\n",
				"	t.onWay.Store(true)\n	go t.help(e)\n"),
			Test: sequencerTest("TestHelperOnItsWayIsEnough"),
		},
		{
			Name:      "say that the helper is on its way for as long as it lives",
			Breaks:    "who hands over after its last look starts no other",
			Invariant: "6",
			Edits: []Edit{
				{turnFile, "	for {\n		t.onWay.Store(false)\n		perturb.Point()\n", "	defer t.onWay.Store(false)\n	for {\n		perturb.Point()\n"},
			},
			Test: sequencerTest("TestHelperThatWorksIsNotOnItsWay"),
		},
		{
			Name:      "have the helper end after one epoch",
			Breaks:    "what is left then is done by nobody",
			Invariant: "6",
			Edits: edit(turnFile,
				"		t.word.Store(turnRequired)\n		runtime.Gosched()\n",
				"		t.onWay.Store(false)\n		t.word.Store(turnRequired)\n		runtime.Gosched()\n		return\n"),
			Test: sequencerTest("TestEnterRunsAsFarAsItsAllowanceGoes"),
		},
		{
			Name:      "have the helper give up over a dirty mark",
			Breaks:    "a mark that is left during a helper's epoch is overwritten by idle",
			Invariant: "6",
			Edits: edit(turnFile,
				"		if !more && t.word.CompareAndSwap(turnRunning, turnIdle) {\n			return\n		}\n		// The helper may",
				"		if !more {\n			t.word.Store(turnIdle)\n			return\n		}\n		// The helper may"),
			Test: sequencerTest("TestEnterDuringAHelpersEpochHasItRunAnother"),
		},
		{
			Name:      "keep the turn when an epoch breaks",
			Breaks:    "a panic, or a goroutine that ends, takes the turn along",
			Invariant: "6",
			Edits:     edit(turnFile, "		defer t.handOver(e) // even if Broke panics\n", ""),
			Test:      sequencerTest("TestTurnOutlivesAnEpochThatBreaks"),
		},
		{
			Name:      "hand over only after what broke was put right",
			Breaks:    "a panic while that is done takes the turn along",
			Invariant: "6",
			Edits: edit(turnFile,
				"		defer t.handOver(e) // even if Broke panics\n		e.Broke(recover())\n",
				"		e.Broke(recover())\n		t.handOver(e)\n"),
			Test: sequencerTest("TestTurnOutlivesBrokeThatPanics"),
		},
		{
			Name:      "hand over after a panic only if the call returns",
			Breaks:    "a panic of a goroutine that is ending takes the turn along",
			Invariant: "6",
			Edits: []Edit{
				{turnFile, "		defer t.handOver(e) // even if Broke panics\n		e.Broke(recover())\n",
					"		cause := recover()\n		e.Broke(cause)\n		left, more, returned = 0, true, cause != nil\n		if cause == nil {\n			t.handOver(e)\n		}\n"},
			},
			Test: sequencerTest("TestTurnOutlivesAnEpochThatBreaks"),
		},
		{
			Name:      "let whoever finds the turn required pass",
			Breaks:    "nobody goes on before the helper has a processor",
			Invariant: "6",
			Edits:     edit(turnFile, "		case turnIdle, turnRequired:\n", "		case turnIdle:\n"),
			Test:      sequencerTest("TestWhoeverEntersBeforeTheHelperTakesTheTurn"),
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
			Name:      "do not look at what is left of the allowance",
			Breaks:    "one caller works for the others without end",
			Invariant: "11",
			Edits:     edit(turnFile, "		if left <= 0 {\n			t.handOver(e)\n			return\n		}\n", ""),
			Test:      sequencerTest("TestEnterRunsAsFarAsItsAllowanceGoes"),
		},
		{
			Name:      "give every epoch the whole allowance",
			Breaks:    "one caller works for the others as long as there is work",
			Invariant: "11",
			Edits:     edit(turnFile, "		allowance = left\n", ""),
			Test:      sequencerTest("TestEnterRunsAsFarAsItsAllowanceGoes"),
		},
		{
			Name:      "leave the stack of arrivals as it is",
			Breaks:    "those who came last are looked at first",
			Invariant: "4",
			Edits:     edit(arrivalsFile, "i < j; i, j = i+1, j-1", "i > j; i, j = i+1, j-1"),
			Test:      sequencerTest("TestDetachGivesTicketsInTheOrderOfArrival"),
		},
		{
			Name:      "leave a taken ticket linked",
			Breaks:    "a ticket that is not used keeps others in memory",
			Invariant: "10",
			Edits:     edit(arrivalsFile, "	next := t.next\n	t.next = nil\n	return next\n", "	return t.next\n"),
			Test:      sequencerTest("TestTakenTicketsCanBeReadOnceAndUsedAgain"),
		},
		{
			Name:      "take all tickets by a load and a store",
			Breaks:    "an arrival that comes in between is lost",
			Invariant: "6",
			Edits:     edit(arrivalsFile, "Take() *Ticket[T] { return a.head.Swap(nil) }", "Take() *Ticket[T] {\n	head := a.head.Load()\n	perturb.Point()\n	a.head.Store(nil)\n	return head\n}"),
			Test:      Test{Package: "sched/sequencer", Name: "TestTakeLosesNoArrival", Tags: "perturb"},
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
			Invariant: "11",
			Edits:     edit(ringFile, "	if mark.set.Load() {\n		return\n	}\n", ""),
			Test:      ringTest("TestHintsComeOutInOrderAndOnce"),
		},
	}
}
