package mutate

const (
	loadsFile     = "shards/loads.go"
	searchFile    = "shards/search.go"
	looseFile     = "shards/loose.go"
	drawFile      = "shards/draw.go"
	anyFile       = "shards/any.go"
	selectionFile = "shards/selection.go"
	indexingFile  = "shards/indexing.go"
	indexedFile   = "sched/pool/indexed.go"
	drawnFile     = "sched/pool/drawn.go"
	countFile     = "shards/count.go"
	fewFile       = "sched/pool/few.go"
)

// indexMutations break how the least loaded of many ranks is found.
func indexTable() []Mutation {
	return []Mutation{
		{
			Name:      "let a group's head stay when its last tied rank rises",
			Breaks:    "the index names a rank that is not the least",
			Invariant: "4",
			Edits:     edit(loadsFile, "		if ties--; ties == 0 {\n			least, ties = x.leastOf(d, number)\n		}\n", "		ties--\n"),
			Test:      shardsTest("TestIndexAgreesWithTheScan"),
		},
		{
			Name:      "show a rank in the index that must not be chosen",
			Breaks:    "an overloaded rank opens the gate for all",
			Invariant: "1",
			Edits:     edit(indexingFile, "		hidden := !slot.Available || slot.Overloaded\n", "		hidden := !slot.Available && slot.Overloaded\n"),
			Test:      shardsTest("TestIndexAgreesWithTheScan"),
		},
		{
			Name:      "use an index that is being changed",
			Breaks:    "a rank that is hidden by now is found",
			Invariant: "4",
			Edits:     edit(loadsFile, "	return epoch, epoch%2 == 0\n", "	return epoch, true\n"),
			Test:      shardsTest("TestIndexIsNotUsedWhileItIsChanged"),
		},
		{
			Name:      "take the key of a load that decays for the load",
			Breaks:    "a rank that is not the least by now is found",
			Invariant: "4",
			Edits:     edit(loadsFile, "			loose = 1<<ByCost | 1<<ByPrefill\n", ""),
			Test:      shardsTest("TestIndexAgreesWithTheScan"),
		},
		{
			Name:      "take the bound of a load that decays at its beginning",
			Breaks:    "a rank that has become the least is passed over",
			Invariant: "4",
			Edits:     edit(loadsFile, "			prefill = pre.Elsewhere\n", ""),
			Test:      shardsTest("TestIndexAgreesWithTheScan"),
		},
		{
			Name:      "do not read the loads that may be below the least",
			Breaks:    "a rank that decays is never found",
			Invariant: "4",
			Edits:     edit(drawFile, "	x.judgeBelow(q, c)\n", ""),
			Test:      shardsTest("TestIndexAgreesWithTheScan"),
		},
		{
			Name:      "take a bound that may be tied for a tie",
			Breaks:    "a dearer rank is drawn with those that are tied",
			Invariant: "4",
			Edits:     edit(drawFile, "			if x.judge(q, r); r.key != c.key {\n				others = min(others, r.key)\n				continue\n			}\n", ""),
			Test:      shardsTest("TestIndexAgreesWithTheScan"),
		},
		{
			Name:      "take a rank out of the loose ones before its group's head has it",
			Breaks:    "a rank on its way is in neither, and missed",
			Invariant: "4",
			Edits:     edit(loadsFile, "	if old != key {\n		word.Store(key)\n	}\n", "	if old != key {\n		word.Store(key)\n	}\n	if was && !is {\n		loose.And(^bit)\n	}\n"),
			Test:      Test{Package: "shards", Name: "TestRankIsNeverMissedOnItsWay", Tags: "perturb"},
		},
		{
			Name:      "do not look at a head's version again",
			Breaks:    "a rank that changed places meanwhile is missed",
			Invariant: "4",
			Edits:     edit(looseFile, "		q.gather(x, group, x.loose[q.By][group].Load())\n		if (head^word.Load())&versionMask == 0 {\n", "		q.gather(x, group, x.loose[q.By][group].Load())\n		if head != 0 {\n"),
			Test:      Test{Package: "shards", Name: "TestRankIsNeverMissedOnItsWay", Tags: "perturb"},
		},
		{
			Name:      "find a rank that was drawn though it may not be found",
			Breaks:    "an excluded worker is chosen",
			Invariant: "4",
			Edits:     edit(drawFile, "if unsure && f.Shard != nil &&", "if unsure && f.Shard == nil &&"),
			Test:      shardsTest("TestIndexAgreesWithTheScan"),
		},
		{
			Name:      "list the ranks before any is drawn, where one may not be found",
			Breaks:    "a selection reads all ranks as soon as one is left out and some decay",
			Invariant: "11",
			Edits:     edit(drawFile, "	for range min(draws, ties+known+open) {\n", "	for range 0 {\n"),
			Test:      shardsTest("TestSearchReadsLittle"),
		},
		{
			Name:      "draw a group before a rank",
			Breaks:    "of equals, those in a group of few have the greater chance",
			Invariant: "4",
			Edits:     edit(drawFile, "		n := int(head & tiesMask)\n", "		n := min(4, int(head&tiesMask))\n"),
			Test:      shardsTest("TestTiedRanksAreDrawnEvenly"),
		},
		{
			Name:      "pass over groups by a bound for the others",
			Breaks:    "an idle rank is not found, and somebody waits beside it",
			Invariant: "6",
			Edits:     edit(anyFile, "		return int64(head>>keyShift) > most && head&looseFlag == 0\n", "		return int64(head>>keyShift) > most\n"),
			Test:      shardsTest("TestIndexAgreesWithTheScan"),
		},
		{
			Name:      "take a kept selection for other lists",
			Breaks:    "a request gets the ranks of another's constraints",
			Invariant: "4",
			Edits:     edit(selectionFile, "	if found != nil && found.of(c) {\n", "	if found != nil {\n"),
			Test:      shardsTest("TestSelectionAgreesWithTheChecks"),
		},
		{
			Name:      "keep the lists of a request",
			Breaks:    "its owner changes what others get",
			Invariant: "4, 10",
			Edits:     edit(selectionFile, "		allowed: slices.Clone(c.Allowed), excluded", "		allowed: c.Allowed, excluded"),
			Test:      shardsTest("TestSelectionOfASetThatComesAgainIsMadeOnce"),
		},
		{
			Name:      "make a selection anew each time",
			Breaks:    "a set that all requests share costs each of them its length",
			Invariant: "11",
			Edits:     edit(selectionFile, "	if k.sums[at].Load() != sum {\n", "	if k.sums[at].Load() != sum || found == nil {\n"),
			Test:      shardsTest("TestSelectionOfASetThatComesAgainIsMadeOnce"),
		},
		{
			Name:      "trust what the index promised of the others",
			Breaks:    "a dearer rank is chosen when the loads moved on the way",
			Invariant: "4",
			Edits:     edit(chooseFile, "		if pick.Cost > l.indexed.others {\n", "		if pick.Cost < 0 {\n"),
			Test:      poolTest("TestIndexedLookSeesWhatMovedOnTheWay"),
		},
		{
			Name:      "confirm against the candidates of the index only",
			Breaks:    "a rank is booked that is dearer than one not looked at",
			Invariant: "4",
			Edits:     edit(chooseFile, "		pick.RunnerUp = min(pick.RunnerUp, l.indexed.others)\n", ""),
			Test:      poolTest("TestIndexedChoiceIsConfirmedAgainstAllRanks"),
		},
		{
			Name:      "let a rank with a cache stand for as many as all that are as cheap",
			Breaks:    "of equals, the one with the cache has half the chances",
			Invariant: "4",
			Edits:     edit(chooseFile, "		if pick.Cost == pick.RunnerUp {\n			pick = l.settleTie(in, pick)\n		}\n", ""),
			Test:      poolTest("TestEqualsHaveEqualChances"),
		},
		{
			Name:      "look at all ranks for a request with constraints",
			Breaks:    "one excluded worker makes a selection cost the pool",
			Invariant: "11",
			Edits:     edit(indexedFile, "	if !ok || l.Rand == nil || r.Constraints.Pinned || w", "	if !ok || l.Rand == nil || !r.Constraints.Unconstrained() || w"),
			Test:      poolTest("TestLooksReadFewRanks"),
		},
		{
			Name:      "judge every load that decays",
			Breaks:    "a selection costs as much as ranks decay",
			Invariant: "11",
			Edits:     edit(drawFile, "		if open == 0 && !unsure {\n", "		if open >= 0 && !unsure {\n"),
			Test:      shardsTest("TestSearchReadsLittle"),
		},
		{
			Name:      "let all look at many ranks at a time",
			Breaks:    "long selections are cut, and who is cut waits for a second",
			Invariant: "11",
			Edits:     edit(lookFile, "		l.Few.enter(l)\n		l.hasPlace = true\n", ""),
			Test:      poolTest("TestFewLookAtManyRanksAtATime"),
		},
		{
			Name:      "give a place to whoever asks next",
			Breaks:    "some callers look again and again, others never",
			Invariant: "bounded favour",
			Edits:     edit(fewFile, "	if first == nil {\n		f.mu.free++\n", "	if f.mu.free++; first == nil {\n"),
			Test:      poolTest("TestLooksAreTakenInTheOrderInWhichTheyWereAskedFor"),
		},
		{
			Name:      "count busy ranks without holding them",
			Breaks:    "two callers each count the other's rank as idle, and both book",
			Invariant: "1",
			Edits:     edit(bookFile, "		a.look.LockCount(chosen.Shard)\n		defer a.look.UnlockCount(chosen.Shard)\n", ""),
			Test:      Test{Package: "sched", Name: "TestRatioIsNotOverrun", Tags: "perturb"},
		},
		{
			Name:      "lock all ranks for a ratio",
			Breaks:    "every admission waits for every rank's lock",
			Invariant: "11",
			Edits:     edit(bookFile, "	if exclusive || counted && !a.look.CountsBusy() {\n", "	if exclusive || counted {\n"),
			Test:      schedTest("TestRatioLocksNoOtherRank"),
			Hangs:     true,
		},
		{
			Name:      "do not count anew when the pool changes",
			Breaks:    "nothing is counted, and all ranks are locked instead",
			Invariant: "11",
			Edits:     edit("sched/topology.go", "		world.CountBusy(before.Profile)\n", ""),
			Test:      schedTest("TestRatioLocksNoOtherRank"),
			Hangs:     true,
		},
		{
			Name:      "count while a booking is halfway between two ranks",
			Breaks:    "a rank too few is counted as busy",
			Invariant: "1",
			Edits:     edit(shardFile, "		x.LockCount(s)\n		defer x.UnlockCount(s)\n", "		x.count.Lock()\n		x.count.Unlock()\n		s.mu.spot.counting = s.mu.dead\n"),
			Test:      Test{Package: "shards", Name: "TestBookingThatMovesIsCountedOnce", Tags: "perturb"},
		},
		{
			Name:      "count a rank that time makes idle as busy",
			Breaks:    "requests wait beside ranks that are idle by now",
			Invariant: "6",
			Edits:     edit(countFile, "			fading |= 1 << i\n", "			busy |= 1 << i\n"),
			Test:      poolTest("TestIndexedLookAgreesWithTheScan"),
		},
		{
			Name:      "draw an excluded rank",
			Breaks:    "a selector that goes by no load chooses what a request excludes",
			Invariant: "4",
			Edits:     edit(drawnFile, "	return among == nil || among[spot/64]>>(spot%64)&1 != 0\n", "	return among == nil || spot >= 0\n"),
			Test:      poolTest("TestIndexedLookAgreesWithTheScan"),
		},
	}
}
