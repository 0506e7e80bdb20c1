package mutate

const (
	admissionFile = "sched/admission.go"
	bookFile      = "sched/book.go"
	scheduleFile  = "sched/schedule.go"
	jobFile       = "sched/job.go"
	lineFile      = "sched/line.go"
	epochFile     = "sched/epoch.go"
	overdueFile   = "sched/overdue.go"
	hostFile      = "sched/host.go"
	ledgerFile    = "sched/ledger.go"
	lifecycleFile = "sched/lifecycle.go"
	expiryFile    = "sched/expiry.go"
	topologyFile  = "sched/topology.go"
	newFile       = "sched/new.go"
	recordFile    = "sched/record.go"
	closeFile     = "sched/close.go"
	doFile        = "sched/do.go"
	asideFile     = "sched/aside.go"
	bookingFile   = "sched/booking.go"
	idsFile       = "sched/internal/ids/table.go"
)

func schedTest(name string) Test { return Test{Package: "sched", Name: name} }

// hammered tests race where the code is perturbed.
func hammered(name string) Test { return Test{Package: "sched", Name: name, Tags: "perturb"} }

func scriptTest(name string) Test {
	return Test{Package: "stress", Name: "TestScripts/testdata/scripts/" + name + "/sharded"}
}

// bookingTable breaks select-and-book.
func bookingTable() []Mutation {
	return []Mutation{
		{
			Name:      "skip the witness under the lock",
			Breaks:    "a rank that became busy after the look is booked again",
			Invariant: "1",
			Edits:     edit(bookFile, "		(!gated || a.idleLocked(witness)) &&\n", ""),
			Test:      schedTest("TestWitnessIsGoneBeforeTheBooking"),
		},
		{
			Name:      "skip the world under the lock",
			Breaks:    "a rank that is overloaded by now is booked",
			Invariant: "4",
			Edits:     edit(bookFile, "	if s.world.Load() != a.world {\n		return false\n	}\n", ""),
			Test:      schedTest("TestWorldThatChangesBeforeTheBooking"),
		},
		{
			Name:      "forget the dead (and skip the world)",
			Breaks:    "a rank that was removed is booked, and its load stays",
			Invariant: "7, 8",
			Edits: []Edit{
				{bookFile, "	return !chosen.Shard.DeadLocked() && s.undisturbed(a) &&\n", "	return s.undisturbed(a) &&\n"},
				{bookFile, "	if s.world.Load() != a.world {\n		return false\n	}\n", ""},
			},
			Test: schedTest("TestWorldThatChangesBeforeTheBooking/removed"),
		},
		{
			Name:      "skip the waiting under the lock",
			Breaks:    "a caller that paused takes what was freed for who waits",
			Invariant: "3",
			Edits:     edit(bookFile, "	case s.waiting.Load() == 0:\n		return true\n	case !a.never:\n", "	case !a.turn:\n		return true\n	case !a.never:\n"),
			Test:      schedTest("TestNewcomerDoesNotTakeWhatWasFreedForWhoWaits"),
		},
		{
			Name:      "skip whether the choice stands",
			Breaks:    "a rank that became dearer than the next is booked",
			Invariant: "2, 4",
			Edits:     edit(bookFile, "		a.look.StandsLocked(choice, &load)\n", "		load.Requests >= 0\n"),
			Test:      schedTest("TestChoiceThatBecameDearerBeforeTheBooking"),
		},
		{
			Name:      "skip the hint under the lock",
			Breaks:    "who came later takes what was freed for those before",
			Invariant: "5",
			Edits:     edit(bookFile, "		(!a.turn || !chosen.Shard.HintedLocked() && !witness.Shard.HintedLocked()) &&\n", ""),
			Test:      schedTest("TestGrantTakesNoRankWithAHintUnderWay"),
		},
		{
			Name:      "skip the instants that have come",
			Breaks:    "with a late timer, who came later goes before whom time freed",
			Invariant: "5",
			Edits:     edit(bookFile, "	return next == queue.NoDue || s.now() < next\n", "	return next <= queue.NoDue\n"),
			Test:      schedTest("TestGrantGoesNotPastAnInstantThatHasCome"),
		},
		{
			Name:      "book after the locks are given back",
			Breaks:    "selection and booking are two steps",
			Invariant: "1, 2",
			Edits: []Edit{
				{bookFile, "	s.takeLocked(a, choice, chosen.Shard)\n", "	shards.UnlockBoth(chosen.Shard, witness.Shard)\n	perturb.Point()\n	shards.LockBoth(chosen.Shard, witness.Shard)\n	s.takeLocked(a, choice, chosen.Shard)\n"},
			},
			Test: hammered("TestOnePlaceIsBookedOnce"),
		},
		{
			Name:      "let a query book",
			Breaks:    "a query leaves load behind",
			Invariant: "7",
			Edits:     edit(bookFile, "	if !a.job.query {\n		s.bookLocked(a, choice, shard)\n	}\n", "	s.bookLocked(a, choice, shard)\n"),
			Test:      scriptTest("query_waits.txt"),
		},
		{
			Name:      "let a query move the round robin",
			Breaks:    "a query changes where the next booking goes",
			Invariant: "4",
			Edits: edit(bookFile, "		p := placementOf(a.look.Placed(choice.Candidate))\n		// Reserved",
				"		a.look.TrackLocked(choice)\n		p := placementOf(a.look.Placed(choice.Candidate))\n		// Reserved"),
			Test: scriptTest("round_robin.txt"),
		},
		{
			Name:      "choose under the locks by what was seen before",
			Breaks:    "the gate of a ratio is that of a moment ago",
			Invariant: "1",
			Edits:     edit(bookFile, "	if l.Retake(); l.MustWait() {\n", "	if l.MustWait() {\n"),
			Test:      schedTest("TestRatioIsLookedAtUnderAllLocks"),
		},
	}
}

// lifecycleTable breaks bookings once they are made.
func lifecycleTable() []Mutation {
	return []Mutation{
		{
			Name:      "release without looking at the attempt",
			Breaks:    "an old handle ends somebody else's attempt",
			Invariant: "8",
			Edits:     edit(lifecycleFile, "func (s *Scheduler) end(rec *record, attempt uint64, how EventKind) error {\n	shard, err := s.lockLive(rec, attempt)\n", "func (s *Scheduler) end(rec *record, attempt uint64, how EventKind) error {\n	shard, err := s.lockLive(rec, 0*attempt)\n"),
			Test:      schedTest("TestLifecycleIsIdempotentAndAttemptsCount"),
		},
		{
			Name:      "accept a stale attempt",
			Breaks:    "calls of an attempt that was overtaken count",
			Invariant: "8",
			Edits:     edit(recordFile, "	case attempt != 0 && attempt < r.Attempt:\n", "	case attempt != 0 && attempt+1 < r.Attempt:\n"),
			Test:      schedTest("TestLifecycleIsIdempotentAndAttemptsCount"),
		},
		{
			Name:      "accept an attempt to come",
			Breaks:    "a number that was never given is taken for the live one",
			Invariant: "8",
			Edits:     edit(recordFile, "	case attempt > r.Attempt:\n", "	case attempt > r.Attempt+1:\n"),
			Test:      schedTest("TestLifecycleIsIdempotentAndAttemptsCount"),
		},
		{
			Name:      "release twice",
			Breaks:    "an ended booking is ended again",
			Invariant: "8",
			Edits:     edit(recordFile, "	case !r.Live():\n		return &Error{Code: ErrUnchanged, Request: r.ID, Rule: \"the booking has ended\"}\n", ""),
			Test:      schedTest("TestRemovedWorkerComesBackEmpty"),
		},
		{
			Name:      "forget the dead in a transfer",
			Breaks:    "a booking is moved to a rank that was removed",
			Invariant: "7",
			Edits:     edit(lifecycleFile, "		if rec.shard.Load() != from || dest.Shard.DeadLocked() {\n", "		if rec.shard.Load() != from {\n"),
			Test:      schedTest("TestTransferToARankThatIsBeingRemoved"),
		},
		{
			Name:      "forget the generation under the lock",
			Breaks:    "a call changes the rank on which the booking was",
			Invariant: "7, 8",
			Edits:     edit(recordFile, "		if r.shard.Load() == shard {\n			return shard\n		}\n		shard.Unlock()\n", "		return shard\n"),
			Test:      schedTest("TestLifecycleFollowsATransfer"),
		},
		{
			Name:      "move a booking without a hint to who waits",
			Breaks:    "what a transfer frees is noticed by nobody",
			Invariant: "6",
			Edits:     edit(lifecycleFile, "		s.loadFell()\n		return p, nil\n", "		s.flush()\n		return p, nil\n"),
			Test:      scriptTest("transfer_wakes.txt"),
		},
		{
			Name:      "do not enter the turn after prefill is done",
			Breaks:    "what it frees is noticed by nobody",
			Invariant: "6",
			Edits:     edit(lifecycleFile, "	if !changed {\n		return ErrUnchanged\n	}\n	s.loadFell()\n", "	if !changed {\n		return ErrUnchanged\n	}\n	s.flush()\n"),
			Test:      schedTest("TestPrefillDoneServesWhoWaits"),
		},
		{
			Name:      "keep the bookings of a removed worker",
			Breaks:    "their owners are not told",
			Invariant: "7",
			Edits:     edit(topologyFile, "	for _, shard := range gone {\n		s.dropRank(shard)\n	}\n", "	_ = gone\n"),
			Test:      schedTest("TestRemovedWorkerComesBackEmpty"),
			Hangs:     true,
		},
		{
			Name:      "sweep what was touched meanwhile",
			Breaks:    "a booking expires though its owner is there",
			Invariant: "ttl",
			Edits:     edit(expiryFile, "	if rec.Touched > since {\n", "	if rec.Touched > since && since < 0 {\n"),
			Test:      schedTest("TestTouchDuringTheSweep"),
		},
		{
			Name:      "touch without moving back in touch order",
			Breaks:    "one that was touched keeps those behind it from expiring",
			Invariant: "ttl",
			Edits:     edit(lifecycleFile, "		shard.TouchLocked(&rec.Booking)\n", ""),
			Test:      schedTest("TestTouchedBookingHidesNoOther"),
		},
		{
			Name:      "touch without noting when",
			Breaks:    "a booking expires though its owner is there",
			Invariant: "ttl",
			Edits:     edit(lifecycleFile, "		rec.Touched = s.now()\n		shard", "		shard"),
			Test:      schedTest("TestBookingTTL"),
		},
		{
			Name:      "set no timer for the next ttl",
			Breaks:    "after the first sweep nothing expires",
			Invariant: "ttl, 6",
			Edits:     edit(expiryFile, "	e.arm(s, min(w.again, w.now+ttl))\n", ""),
			Test:      schedTest("TestBookingTTL"),
		},
		{
			Name:      "keep the ttl timer of an idle scheduler",
			Breaks:    "a timer without a booking",
			Invariant: "10",
			Edits:     edit(expiryFile, "	if e.live.Load() == 0 {\n		e.disarmLocked()\n	}\n", ""),
			Test:      schedTest("TestNoTimerWhileIdle"),
		},
		{
			Name:      "reclaim a detached booking",
			Breaks:    "a booking left to its id is released as leaked",
			Invariant: "8",
			Edits:     edit(bookingFile, "	if b.made() && b.cleanup != nil {\n		b.cleanup.Stop()\n	}\n", ""),
			Test:      schedTest("TestDetachedBookingIsNotReclaimed"),
		},
		{
			Name:      "let Do keep the booking when the callback panics",
			Breaks:    "load that nobody will release",
			Invariant: "7, 10",
			Edits: []Edit{
				{doFile, "	defer func() { _ = b.Release() }()\n", ""},
				{doFile, "	err = f(ctx, b)\n", "	err = f(ctx, b)\n	_ = b.Release()\n"},
			},
			Test: schedTest("TestDo"),
		},
		{
			Name:      "let Do reroute a pin",
			Breaks:    "an explicit pin is taken elsewhere",
			Invariant: "4",
			Edits:     edit(doFile, "		if !errors.As(err, &retry) || r.Pin != nil {\n", "		if !errors.As(err, &retry) {\n"),
			Test:      schedTest("TestDoTriesAPinOnce"),
		},
	}
}

// doorTable breaks what is decided before anything is looked at.
func doorTable() []Mutation {
	return []Mutation{
		{
			Name:      "do not notice duplicates",
			Breaks:    "one id is booked twice",
			Invariant: "8",
			Edits:     edit(idsFile, "other.hash == e.hash && t.idOf(other.value) == id", "other == e"),
			Test:      scriptTest("duplicate.txt"),
		},
		{
			Name:      "keep the id of a request refused at the door",
			Breaks:    "the id is a duplicate for ever",
			Invariant: "8, 10",
			Edits:     edit(scheduleFile, "	if err != nil {\n		s.ids.Free(&rec.claimed)\n	}\n	return err\n", "	return err\n"),
			Test:      schedTest("TestErrorsCarryDetails"),
		},
		{
			Name:      "admit new requests during Shutdown",
			Breaks:    "a drain that never ends",
			Invariant: "10",
			Edits:     edit(scheduleFile, "	w := s.world.Load()\n	if w.Closed || w.Draining {\n		return &Error{Code: ErrClosed, Request: r.ID}\n	}\n	if r.ID == \"\" {\n", "	w := s.world.Load()\n	if w.Closed {\n		return &Error{Code: ErrClosed, Request: r.ID}\n	}\n	if r.ID == \"\" {\n"),
			Test:      schedTest("TestShutdownAdmitsNobody"),
		},
		{
			Name:      "close before who waits is served",
			Breaks:    "Shutdown cuts everyone short",
			Invariant: "10",
			Edits:     edit(closeFile, "	err := s.await(ctx, func() bool { return s.waiting.Load() == 0 })\n	err = errors.Join(err, s.Close())\n", "	err := ctx.Err()\n	err = errors.Join(err, s.Close())\n"),
			Test:      schedTest("TestShutdownServesThoseWhoWait"),
		},
		{
			Name:      "tell of a grant that was undone",
			Breaks:    "the journal has an admission that never was",
			Invariant: "8",
			Edits:     edit(hostFile, "	told.Drop()\n	if !query && placement", "	told.Keep()\n	if !query && placement"),
			Test:      schedTest("TestGrantWhoseOwnerLeavesIsUndone"),
		},
		{
			Name:      "tell decisions as they come",
			Breaks:    "a decision is told before one that was made earlier",
			Invariant: "decision order",
			Edits:     edit("sched/internal/journal/journal.go", "	for len(j.mu.pending) > 0 && j.mu.pending[0].state != open {\n", "	for len(j.mu.pending) > 0 {\n"),
			Test:      Test{Package: "sched/internal/journal", Name: "TestDecisionsComeInOrder"},
		},
	}
}
