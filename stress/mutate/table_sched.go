package mutate

const (
	bookFile      = "sched/book.go"
	scheduleFile  = "sched/schedule.go"
	jobFile       = "sched/job.go"
	lineFile      = "sched/line.go"
	hostFile      = "sched/host.go"
	ledgerFile    = "sched/ledger.go"
	lifecycleFile = "sched/lifecycle.go"
	expiryFile    = "sched/expiry.go"
	schedulerFile = "sched/scheduler.go"
	closeFile     = "sched/close.go"
	doFile        = "sched/do.go"
	bookingFile   = "sched/booking.go"
	idsFile       = "sched/ids.go"
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
			Edits:     edit(bookFile, "	case s.world.Load() != a.world:\n		return false\n", ""),
			Test:      schedTest("TestWorldThatChangesBeforeTheBooking"),
		},
		{
			Name:      "forget the dead (and skip the world)",
			Breaks:    "a rank that was removed is booked, and its load stays",
			Invariant: "7, 8",
			Edits: []Edit{
				{bookFile, "	holds := !chosen.Shard.DeadLocked() && s.undisturbed(a) &&\n", "	holds := s.undisturbed(a) &&\n"},
				{bookFile, "	case s.world.Load() != a.world:\n		return false\n", ""},
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
			Edits:     edit(bookFile, "		a.look.StandsLocked(choice, &load) && a.trackLocked(choice)\n", "		load.Requests >= 0 && a.trackLocked(choice)\n"),
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
			Edits:     edit(bookFile, "		return next == queue.NoDue || s.now() < next\n", "		return next <= queue.NoDue\n"),
			Test:      schedTest("TestGrantGoesNotPastAnInstantThatHasCome"),
		},
		{
			Name:      "book after the locks are given back",
			Breaks:    "selection and booking are two steps",
			Invariant: "1, 2",
			Edits: []Edit{
				{bookFile, "	if holds {\n		s.takeLocked(a, choice, chosen.Shard)\n	}\n	shards.UnlockBoth(chosen.Shard, witness.Shard)\n", "	shards.UnlockBoth(chosen.Shard, witness.Shard)\n	perturb.Point()\n	if holds {\n		chosen.Shard.Lock()\n		s.takeLocked(a, choice, chosen.Shard)\n		chosen.Shard.Unlock()\n	}\n"},
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
			Name:      "book one rank alone though the class has a ratio",
			Breaks:    "the gate, which depends on all ranks, is that of a moment ago",
			Invariant: "1",
			Edits:     edit(bookFile, "	if exclusive || rules.BusyWorkerRatio > 0 && rules.BusyWorkerRatio < 1 {\n", "	if exclusive || rules.BusyWorkerRatio > 1 {\n"),
			Test:      schedTest("TestRatioIsLookedAtUnderAllLocks"),
		},
		{
			Name:      "choose under the locks by what was seen before",
			Breaks:    "the gate of a ratio is that of a moment ago",
			Invariant: "1",
			Edits:     edit(bookFile, "	l.Retake()\n", ""),
			Test:      schedTest("TestRatioIsLookedAtUnderAllLocks"),
		},
	}
}

// lineTable breaks the waiting side.
func lineTable() []Mutation {
	return []Mutation{
		{
			Name:      "wake before settling",
			Breaks:    "the waiter looks, finds nothing and parks again, for good",
			Invariant: "6",
			Edits: []Edit{
				{jobFile, "	wake := j.wake\n	perturb.Point()\n", "	wake := j.wake\n	sequencer.Wake(wake)\n	perturb.Point()\n"},
				{jobFile, "	perturb.Point()\n	sequencer.Wake(wake)\n	return class, true\n", "	return class, true\n"},
			},
			Test: hammered("TestReleaseRacesWithAnArrival"),
		},
		{
			Name:      "settle by a store",
			Breaks:    "a request that has left is granted as well",
			Invariant: "8",
			Edits: edit(jobFile, "	if !j.state.CompareAndSwap(jobWaiting, state) {\n		return nil, false\n	}\n",
				"	j.state.Store(state)\n"),
			Test: schedTest("TestGrantWhoseOwnerLeavesIsUndone"),
		},
		{
			Name:      "choose an heir that has left",
			Breaks:    "the turn is passed on to nobody",
			Invariant: "6",
			Edits:     edit(lineFile, "return j.parked.Load() && j.state.Load() == jobWaiting", "return true"),
			Test:      schedTest("TestLeaverIsNoHeir"),
		},
		{
			Name:      "leave without entering the turn",
			Breaks:    "the leaver stays linked, and an inheritance is lost with it",
			Invariant: "6, 10",
			Edits:     edit(scheduleFile, "	s.waiting.Add(-1)\n	perturb.Point()\n	s.enterTurn()\n	return err\n", "	s.waiting.Add(-1)\n	return err\n"),
			Test:      schedTest("TestLeaverIsUnlinkedAtOnce"),
		},
		{
			Name:      "leave a cancelled entry in the queue",
			Breaks:    "its job is used again while it is queued",
			Invariant: "10",
			Edits:     edit(lineFile, "		if l.queue != nil {\n			l.queue.Remove(&j.entry)\n		}\n		l.gone(j, false)\n", "		l.gone(j, false)\n"),
			Test:      schedTest("TestLeaverIsUnlinkedAtOnce"),
		},
		{
			Name:      "leave without the counters",
			Breaks:    "limits and statistics count who has gone",
			Invariant: "10",
			Edits:     edit(scheduleFile, "	if c := s.ledger.uncount(j); c != nil {\n		class = c.name\n	}\n", ""),
			Test:      schedTest("TestLeaverIsUnlinkedAtOnce"),
		},
		{
			Name:      "keep the id of a request that has left",
			Breaks:    "the id is a duplicate for ever",
			Invariant: "8, 10",
			Edits:     edit(scheduleFile, "	s.ids.unclaim(rec)\n	s.reject(rec, id, class, query, err)\n", "	s.reject(rec, id, class, query, err)\n"),
			Test:      schedTest("TestLeaverIsUnlinkedAtOnce"),
		},
		{
			Name:      "grant without counting out",
			Breaks:    "limits count who has been served",
			Invariant: "10",
			Edits:     edit(jobFile, "	class = s.ledger.uncount(j)\n	wake := j.wake\n", "	wake := j.wake\n"),
			Test:      schedTest("TestWaitingInABubble"),
		},
		{
			Name:      "keep the booking of an owner that has gone",
			Breaks:    "load that nobody will release",
			Invariant: "7, 10",
			Edits:     edit(hostFile, "		s.undo(rec)\n		l.undone = true\n", "		_ = rec\n		l.undone = true\n"),
			Test:      schedTest("TestGrantWhoseOwnerLeavesIsUndone"),
		},
		{
			Name:      "keep the booking of an owner that went during the refresh",
			Breaks:    "load that nobody will release",
			Invariant: "7, 10",
			Edits:     edit(scheduleFile, "		if !query {\n			s.undo(rec)\n		}\n", ""),
			Test:      schedTest("TestOwnerLeavesDuringTheRefresh"),
		},
		{
			Name:      "pass on nothing of a grant that came too late",
			Breaks:    "what it gives back is noticed by nobody",
			Invariant: "6",
			Edits:     edit(scheduleFile, "		s.freed() // for those who wait\n", ""),
			Test:      schedTest("TestAGrantThatComesTooLateIsPassedOn"),
		},
		{
			Name:      "be done when an arrival was served, whatever came after",
			Breaks:    "who could run after a lost race, or beyond the bound, is left",
			Invariant: "6",
			Edits:     edit(queueLineFile, "		if status != Done {\n			l.Unfinished = true\n		}\n", ""),
			Test:      schedTest("TestArrivalServedLeavesALostRaceToBeRunAgain"),
		},
		{
			Name:      "say that one waits after one has arrived",
			Breaks:    "a release in between sees nobody to serve, a newcomer nobody to wait behind",
			Invariant: "3, 6",
			Edits: edit(scheduleFile, "	s.waiting.Add(1)\n	perturb.Point()\n	s.arrivals.Push(&j.arrivalTicket)\n	perturb.Point()\n	s.enterTurn()\n",
				"	s.arrivals.Push(&j.arrivalTicket)\n	perturb.Point()\n	s.enterTurn()\n	perturb.Point()\n	s.waiting.Add(1)\n"),
			Test: hammered("TestReleaseRacesWithAnArrival"),
		},
		{
			Name:      "set no timer for decay",
			Breaks:    "a rank that decay frees is noticed by nobody",
			Invariant: "6",
			Edits:     edit(lineFile, "	next := min(l.queue.NextDue(), l.queue.NextRetest())\n", "	next := l.queue.NextDue()\n"),
			Test:      schedTest("TestDecayIsActedOnAtItsInstant"),
		},
		{
			Name:      "set no timer for due times",
			Breaks:    "a request waits past its due time",
			Invariant: "6",
			Edits:     edit(lineFile, "	next := min(l.queue.NextDue(), l.queue.NextRetest())\n", "	next := l.queue.NextRetest()\n"),
			Test:      schedTest("TestWaitingInABubble"),
		},
		{
			Name:      "leave the timer when nobody waits for it",
			Breaks:    "an idle scheduler has a timer",
			Invariant: "10",
			Edits:     edit(lineFile, "	if l.timer != nil {\n		l.timer.Stop()\n	}\n", ""),
			Test:      schedTest("TestNoTimerIsLeftByALeaver"),
		},
		{
			Name:      "let arrivals be after Close",
			Breaks:    "who was on the way waits for ever",
			Invariant: "10",
			Edits:     edit(lineFile, "		case l.world.Closed:\n			refused = &Error{Code: ErrClosed, Request: j.id}\n", ""),
			Test:      schedTest("TestCloseAnswersWhoIsOnTheWay"),
		},
		{
			Name:      "close over those who wait",
			Breaks:    "they wait for ever",
			Invariant: "10",
			Edits:     edit(lineFile, "	if l.queue != nil && l.world.Closed {\n", "	if l.queue == nil && l.world.Closed {\n"),
			Test:      schedTest("TestCloseAndShutdown"),
			Hangs:     true,
		},
		{
			Name:      "lose who waits when the profile changes",
			Breaks:    "they are in no queue any more",
			Invariant: "6",
			Edits:     edit(lineFile, "		l.queue.Add(class, e)\n", "		_ = e\n"),
			Test:      schedTest("TestSetProfileAtRunTime"),
		},
		{
			Name:      "keep the class of who waits when the profile changes",
			Breaks:    "they wait by rules that are gone",
			Invariant: "4",
			Edits:     edit(lineFile, "		l.queue.Add(class, e)\n", "		l.queue.Add(min(e.Class(), world.Profile.Len()-1), e)\n"),
			Test:      scriptTest("profile_reclass.txt"),
		},
		{
			Name:      "class anew one after the other",
			Breaks:    "a never-queue request is admitted or refused by a part of the backlog",
			Invariant: "3, 4",
			Edits: edit(ledgerFile, "	l.mu.Lock()\n	defer l.mu.Unlock()\n	l.resetLocked(p)\n	for _, e := range waiting {\n		e.Value.counted = nil\n		e.Value.place.leave()\n		l.countLocked(e.Value, e.Class())\n	}\n",
				"	l.reset(p)\n	for _, e := range waiting {\n		l.mu.Lock()\n		e.Value.counted = nil\n		e.Value.place.leave()\n		l.countLocked(e.Value, e.Class())\n		l.mu.Unlock()\n	}\n"),
			Test: schedTest("TestBacklogIsClassedAnewInOneStep"),
		},
		{
			Name:      "test no lane when the world changes",
			Breaks:    "a worker that comes serves nobody who waits",
			Invariant: "6",
			Edits:     edit(lineFile, "	l.queue.UnblockAll()\n	if old.Profile == world.Profile {\n", "	if old.Profile == world.Profile {\n"),
			Test:      scriptTest("availability.txt"),
		},
		{
			Name:      "test no lane on a recheck",
			Breaks:    "a recheck helps nobody",
			Invariant: "6",
			Edits:     edit(lineFile, "		if len(waiters) > 0 {\n			l.queue.UnblockAll()\n		}\n", ""),
			Test:      schedTest("TestRecheckTestsEveryLane"),
		},
		{
			Name:      "test no lane after an overflow",
			Breaks:    "hints that did not fit are lost",
			Invariant: "6",
			Edits:     edit(lineFile, "			ring.ClearAll(l.world.Table.Shards)\n			if l.queue != nil {\n				l.queue.UnblockAll()\n			}\n", "			ring.ClearAll(l.world.Table.Shards)\n"),
			Test:      schedTest("TestMoreHintsThanTheRingHolds"),
		},
		{
			Name:      "look at arrivals before the backlog",
			Breaks:    "an arrival's limits do not see what a release made room for",
			Invariant: "3",
			Edits:     edit(lineFile, "	status := l.queue.Serve(budget)\n	for ; status", "	status := queue.Done\n	for ; status"),
			Test:      scriptTest("transfer_wakes.txt"),
		},
		{
			Name:      "expire due times an instant late",
			Breaks:    "a request is granted at its due time",
			Invariant: "one instant",
			Edits:     edit(lineFile, "		for _, e := range l.queue.Overdue(l.now) {\n", "		for _, e := range l.queue.Overdue(l.now - 1) {\n"),
			Test:      scriptTest("one_instant.txt"),
		},
		{
			Name:      "let a never-queue class ignore its backlog at the door",
			Breaks:    "a never-queue request goes before the backlog of its class",
			Invariant: "3",
			Edits:     edit(scheduleFile, "		case never && rules.CanQueue() && (usage.Requests > 0 || mustWait):\n", "		case never && rules.CanQueue() && mustWait:\n"),
			Test:      scriptTest("never_queue_backlog.txt"),
		},
		{
			Name:      "refuse at the door without a second look",
			Breaks:    "load that moves makes all ranks look busy though they never were",
			Invariant: "4",
			Edits:     edit(scheduleFile, "			if s.world.Load() == w && (usage.Requests > 0 || l.Unmoved()) {\n", "			if s.world.Load() == w && (usage.Requests > 0 || mustWait) {\n"),
			Test:      schedTest("TestRefusalAtTheDoorWasTrueAtOneInstant"),
		},
		{
			Name:      "refuse at the door by rules that were replaced",
			Breaks:    "a request is refused by a profile that went before the ranks were busy",
			Invariant: "4",
			Edits:     edit(scheduleFile, "			if s.world.Load() == w && (usage.Requests > 0 || l.Unmoved()) {\n", "			if usage.Requests > 0 || l.Unmoved() {\n"),
			Test:      schedTest("TestRefusalAtTheDoorIsByTheRulesOfThatInstant"),
		},
		{
			Name:      "answer a query by ranks that moved",
			Breaks:    "a query is served though at no instant enough ranks were idle",
			Invariant: "1, 4",
			Edits:     edit(bookFile, "	if exclusive || rules.BusyWorkerRatio > 0 && rules.BusyWorkerRatio < 1 {\n", "	if exclusive || !a.job.query && rules.BusyWorkerRatio > 0 && rules.BusyWorkerRatio < 1 {\n"),
			Test:      schedTest("TestQueryWasServedAtOneInstant"),
		},
		{
			Name:      "refuse in the turn by rules that were replaced",
			Breaks:    "a request is refused by a profile that went before the ranks were busy",
			Invariant: "4",
			Edits:     edit(hostFile, "	if exact && l.s.world.Load() != l.world {\n", "	if exact && l.world == nil {\n"),
			Test:      schedTest("TestRefusalInTheTurnIsByTheRulesOfThatInstant"),
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
			Edits:     edit(lifecycleFile, "	case attempt != 0 && attempt < r.Attempt:\n", "	case attempt != 0 && attempt+1 < r.Attempt:\n"),
			Test:      schedTest("TestLifecycleIsIdempotentAndAttemptsCount"),
		},
		{
			Name:      "accept an attempt to come",
			Breaks:    "a number that was never given is taken for the live one",
			Invariant: "8",
			Edits:     edit(lifecycleFile, "	case attempt > r.Attempt:\n", "	case attempt > r.Attempt+1:\n"),
			Test:      schedTest("TestLifecycleIsIdempotentAndAttemptsCount"),
		},
		{
			Name:      "release twice",
			Breaks:    "an ended booking is ended again",
			Invariant: "8",
			Edits:     edit(lifecycleFile, "	case !r.Live():\n		return ErrUnchanged\n", ""),
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
			Edits:     edit(bookingFile, "		if r.shard.Load() == shard {\n			return shard\n		}\n		shard.Unlock()\n", "		return shard\n"),
			Test:      schedTest("TestLifecycleFollowsATransfer"),
		},
		{
			Name:      "move a booking without a hint to who waits",
			Breaks:    "what a transfer frees is noticed by nobody",
			Invariant: "6",
			Edits:     edit(lifecycleFile, "		s.outbox.deliver()\n		s.freed()\n		return p, nil\n", "		s.outbox.deliver()\n		return p, nil\n"),
			Test:      scriptTest("transfer_wakes.txt"),
		},
		{
			Name:      "do not enter the turn after prefill is done",
			Breaks:    "what it frees is noticed by nobody",
			Invariant: "6",
			Edits:     edit(lifecycleFile, "	if !changed {\n		return ErrUnchanged\n	}\n	s.outbox.deliver()\n	s.freed()\n", "	if !changed {\n		return ErrUnchanged\n	}\n	s.outbox.deliver()\n"),
			Test:      schedTest("TestPrefillDoneServesWhoWaits"),
		},
		{
			Name:      "keep the bookings of a removed worker",
			Breaks:    "their owners are not told",
			Invariant: "7",
			Edits:     edit(schedulerFile, "		for _, shard := range gone {\n			s.dropRank(shard)\n		}\n", "		_ = gone\n"),
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
			Edits:     edit(expiryFile, "	if next != math.MaxInt64 {\n		e.arm(s, next)\n	}\n", ""),
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
			Edits:     edit(bookingFile, "	if b.cleanup != nil {\n		b.cleanup.Stop()\n	}\n", ""),
			Test:      schedTest("TestDetachedBookingIsNotReclaimed"),
		},
		{
			Name:      "let Do keep the booking when the callback panics",
			Breaks:    "load that nobody will release",
			Invariant: "7, 10",
			Edits: edit(doFile, "	defer func() { _ = b.Release() }()\n	if _, err := b.Instance(); err != nil {\n		return RetryElsewhere(err)\n	}\n	return f(ctx, b)\n",
				"	if _, err := b.Instance(); err != nil {\n		_ = b.Release()\n		return RetryElsewhere(err)\n	}\n	err := f(ctx, b)\n	_ = b.Release()\n	return err\n"),
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
			Edits:     edit(idsFile, "other.claimed.hash == rec.claimed.hash && other.ID == rec.ID", "other == rec"),
			Test:      scriptTest("duplicate.txt"),
		},
		{
			Name:      "keep the id of a request refused at the door",
			Breaks:    "the id is a duplicate for ever",
			Invariant: "8, 10",
			Edits:     edit(scheduleFile, "	if err != nil {\n		s.ids.unclaim(rec)\n	}\n	return err\n", "	return err\n"),
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
			Edits:     edit(hostFile, "	told.drop()\n	if !query && placement", "	told.keep()\n	if !query && placement"),
			Test:      schedTest("TestGrantWhoseOwnerLeavesIsUndone"),
		},
		{
			Name:      "tell decisions as they come",
			Breaks:    "a decision is told before one that was made earlier",
			Invariant: "decision order",
			Edits:     edit("sched/journal.go", "	for len(j.mu.pending) > 0 && j.mu.pending[0].state != entryOpen {\n", "	for len(j.mu.pending) > 0 {\n"),
			Test:      schedTest("TestDecisionsAreToldInOrder"),
		},
	}
}
