package mutate

const (
	shardFile      = "shards/shard.go"
	busyFile       = "lifecycle/busy.go"
	viewFile       = "shards/view.go"
	prefixesFile   = "shards/prefixes.go"
	seatsFile      = "shards/seats.go"
	editFile       = "shards/edit.go"
	thresholdsFile = "sched/pool/thresholds.go"
	prefillFile    = "lifecycle/prefill.go"
	rankFile       = "lifecycle/rank.go"
	blocksFile     = "lifecycle/blocks.go"
)

func shardsTest(name string) Test { return Test{Package: "shards", Name: name} }
func rankTest(name string) Test   { return Test{Package: "lifecycle", Name: name} }

// shardsTable breaks what a rank publishes, and the indexes.
func shardsTable() []Mutation {
	return []Mutation{
		{
			Name:      "publish the load after the mark",
			Breaks:    "the drainer clears the mark and reads the old load",
			Invariant: "6",
			Edits: []Edit{
				{shardFile, "	s.published.write(load)\n", "	defer s.published.write(load)\n"},
			},
			Test: hammered("TestReleaseRacesWithAnArrival"),
		},
		{
			Name:      "leave a hint only while somebody waits",
			Breaks:    "who comes to wait before the load is published is not told",
			Invariant: "6",
			Edits: []Edit{
				{shardFile, "	NoPrefixIndex bool\n", "	NoPrefixIndex bool\n	Waits         func() bool\n"},
				{shardFile, "	s.published.write(load)\n", "	waits := s.env.Waits == nil || s.env.Waits()\n	s.published.write(load)\n"},
				{shardFile, "	if !freed || s.mu.dead {\n", "	if !freed || s.mu.dead || !waits {\n"},
				{newFile, "	s.env = &shards.Env{Now: s.now}\n", "	s.env = &shards.Env{Now: s.now, Waits: func() bool { return s.waiting.Load() != 0 }}\n"},
			},
			Test: hammered("TestReleaseRacesWithAnArrival"),
		},
		{
			Name:      "leave no hint when a load decays otherwise",
			Breaks:    "the instant remembered for a lane is wrong",
			Invariant: "5, 6",
			Edits:     edit(busyFile, "is.AnchorTokens != was.AnchorTokens || ", ""),
			Test:      shardsTest("TestHints"),
		},
		{
			Name:      "leave no hint when the load falls",
			Breaks:    "what is freed is noticed by nobody",
			Invariant: "5, 6",
			Edits:     edit(busyFile, "	case is.Sum < was.Sum,\n		w.Requests", "	case w.Requests"),
			Test:      shardsTest("TestHints"),
		},
		{
			Name:      "leave no hint when the first prefill of a rank decays",
			Breaks:    "the instant at which it ends is not remembered",
			Invariant: "5, 6",
			Edits:     edit(busyFile, "		return is.Decays()\n", "		return false\n"),
			Test:      shardsTest("TestHints"),
		},
		{
			Name:      "leave no hint when requests fall",
			Breaks:    "a class with a cap of requests is not told of a release",
			Invariant: "5, 6",
			Edits:     edit(busyFile, "		w.Requests && after.Requests < before.Requests,\n", ""),
			Test:      shardsTest("TestHintsOfWhatIsWatched"),
		},
		{
			Name:      "leave no hint when blocks fall",
			Breaks:    "a class with a threshold of KV blocks is not told of it",
			Invariant: "5, 6",
			Edits:     edit(busyFile, "		w.Blocks && after.Blocks < before.Blocks:\n", "		false:\n"),
			Test:      shardsTest("TestHintsOfWhatIsWatched"),
		},
		{
			Name:      "leave no hint at the rank a transfer leaves",
			Breaks:    "what it frees is noticed by nobody",
			Invariant: "6",
			Edits:     edit(shardFile, "	s.publishLocked()\n	to.publishLocked()\n", "	to.publishLocked()\n"),
			Test:      shardsTest("TestTransferHintsAtTheRankItLeaves"),
		},
		{
			Name:      "keep the mark of a removed rank",
			Breaks:    "every drain from then on is an overflow",
			Invariant: "10",
			Edits:     edit(shardFile, "	if ring := s.env.ring.Load(); ring != nil {\n		ring.Forget(s)\n	}\n", ""),
			Test:      shardsTest("TestRemovedRankLeavesNoMark"),
		},
		{
			Name:      "lock two ranks as they come",
			Breaks:    "two transfers against each other lock for ever",
			Invariant: "9",
			Edits:     edit(shardFile, "	case a.Before(b):\n		a.Lock()\n		b.Lock()\n	default:\n		b.Lock()\n		a.Lock()\n", "	default:\n		a.Lock()\n		b.Lock()\n"),
			Test:      shardsTest("TestTransfersInAllDirections"),
			Hangs:     true,
		},
		{
			Name:      "read the published load without a second look",
			Breaks:    "a reader sees two moments at once",
			Invariant: "4",
			Edits:     edit(viewFile, "		if p.version.Load() == version {\n			return version\n		}\n", "		return version\n"),
			Test:      Test{Package: "shards", Name: "TestReadersSeeOneMoment", Tags: "perturb"},
		},
		{
			Name:      "publish in the slot that stands",
			Breaks:    "a reader sees two moments at once",
			Invariant: "4",
			Edits:     edit(viewFile, "	version := p.version.Load() + 1\n	s := &p.slots[version&1]\n", "	version := p.version.Load() + 1\n	s := &p.slots[(version-1)&1]\n"),
			Test:      shardsTest("TestPublishedLoadComesBackWhole"),
		},
		{
			Name:      "do not split an edge where paths part",
			Breaks:    "a rank is said to hold blocks of another's path",
			Invariant: "4, 7",
			Edits:     edit(prefixesFile, "matched < len(e.hashes) {\n				p.split", "matched < 0 {\n				p.split"),
			Test:      shardsTest("TestPrefixesAgainstEachRank"),
		},
		{
			Name:      "keep a holder that dropped its blocks",
			Breaks:    "blocks that are gone count as held",
			Invariant: "7",
			Edits:     edit(prefixesFile, "		case !p.leave(key, e, s):\n", "		case at < 0 && !p.leave(key, e, s):\n"),
			Test:      shardsTest("TestPrefixesAgainstEachRank"),
		},
		{
			Name:      "drop the whole of an edge of which a beginning stays",
			Breaks:    "a rank is said to hold less than it does",
			Invariant: "4, 7",
			Edits:     edit(prefixesFile, "		case at < to:\n", "		case at < to && at < 0:\n"),
			Test:      shardsTest("TestPrefixesAgainstEachRank"),
		},
		{
			Name:      "enter an edge that has gone",
			Breaks:    "a holder that came while the edge was split is lost",
			Invariant: "7",
			Edits:     edit(prefixesFile, "	if e.mu.gone {\n		return false\n	}\n	if h := e.holders.Load()", "	if h := e.holders.Load()"),
			Test:      Test{Package: "shards", Name: "TestPrefixesPartWhileHeld", Tags: "perturb", Count: 4},
		},
		{
			Name:      "leave an edge that has gone",
			Breaks:    "who gives blocks up while the edge is split holds them for good",
			Invariant: "7",
			Edits:     edit(prefixesFile, "	if e.mu.gone {\n		return false\n	}\n	h := e.holders.Load()\n	switch left", "	h := e.holders.Load()\n	switch left"),
			Test:      Test{Package: "shards", Name: "TestPrefixesPartWhileHeld", Tags: "perturb", Count: 4},
		},
		{
			Name:      "store the upper part of a split edge before the lower",
			Breaks:    "who looks in between finds a rank with less than it holds",
			Invariant: "4",
			Edits:     edit(prefixesFile, "	p.edges.Store(edgeKey{upper.tag, lower.hashes[0]}, lower)\n	perturb.Point()\n	p.edges.Store(key, upper)\n", "	p.edges.Store(key, upper)\n	perturb.Point()\n	p.edges.Store(edgeKey{upper.tag, lower.hashes[0]}, lower)\n"),
			Test:      Test{Package: "shards", Name: "TestPrefixesUnderHammering", Tags: "perturb", Count: 4},
		},
		{
			Name:      "let a split edge keep the array of the whole for as long as it is halved",
			Breaks:    "short prompts keep the long ones that they are the beginning of",
			Invariant: "10",
			Edits:     edit(prefixesFile, "newEdge(p.tag(s), e.hashes[:at:at], e.array)", "newEdge(p.tag(s), e.hashes[:at:at], len(e.hashes))"),
			Test:      shardsTest("TestHalvedPromptsLetGoOfTheWhole"),
		},
		{
			Name:      "copy the holders each time that one enters",
			Breaks:    "a booking costs what all ranks hold",
			Invariant: "9",
			Edits:     edit(prefixesFile, "	if h := e.holders.Load(); !h.enter(seat) {\n", "	if h := e.holders.Load(); h.words != nil || !h.enter(seat) {\n"),
			Test:      shardsTest("TestPartingPointsAreNotMultipliedByRanks"),
		},
		{
			Name:      "take a rank for the one whose seat it got",
			Breaks:    "an idle rank is said to hold what a dead one held",
			Invariant: "4",
			Edits:     edit(seatsFile, "	if word>>seatBits > given {\n", "	if word>>seatBits > given+1 {\n"),
			Test:      shardsTest("TestSeatsAreUsedAgain"),
		},
		{
			Name:      "keep the seat of a rank that has died",
			Breaks:    "the sets grow with each rank that ever was",
			Invariant: "10",
			Edits:     edit(shardFile, "	if p := s.env.prefixes.Load(); p != nil && s.mu.rank.Len() == 0 {\n", "	if p := s.env.prefixes.Load(); p != nil && s.mu.rank.Len() < 0 {\n"),
			Test:      shardsTest("TestSeatsAreUsedAgain"),
		},
		{
			Name:      "ask all candidates for a prefix that few hold",
			Breaks:    "a selection costs more than the ranks that matter",
			Invariant: "9",
			Edits:     edit(lookFile, "	case common > 0 || fewAmong*l.walk.Holders(0) > len(l.candidates):\n", "	case common > 0 || fewAmong > 0:\n"),
			Test:      poolTest("TestDepthsAreAskedOnceOfEachCandidate"),
		},
		{
			Name:      "let a worker that is added again have its old ranks",
			Breaks:    "an upsert makes new ranks of those that stay",
			Invariant: "7",
			Edits:     edit(editFile, "at >= 0 && same {\n", "at >= 0 && same && newShard == nil {\n"),
			Test:      shardsTest("TestUpsertKeepsShards"),
		},
		{
			Name:      "end draining by an upsert",
			Breaks:    "a worker that drains takes new requests",
			Invariant: "4",
			Edits:     edit(editFile, "		if c.old == nil || c.now != nil && !c.old.Another(c.now.Incarnation) {\n", "		if c.old == nil {\n"),
			Test:      shardsTest("TestDraining"),
		},
		{
			Name:      "append to arrays of which another table has the end",
			Breaks:    "a table that nobody changed says something else",
			Invariant: "4",
			Edits:     edit(editFile, "changes[0].at == n && t.room.claim(n, len(changes)) {\n", "changes[0].at == n && (t.room.claim(n, len(changes)) || true) {\n"),
			Test:      shardsTest("TestTablesAgainstTheSimplest"),
		},
		{
			Name:      "append to arrays that are still another table's",
			Breaks:    "two tables that came of one overwrite each other's workers",
			Invariant: "4",
			Edits:     edit(editFile, "			t.workers, t.ids, t.first = slices.Clip(t.workers), slices.Clip(t.ids), slices.Clip(t.first)\n", ""),
			Test:      shardsTest("TestTablesAgainstTheSimplest"),
		},
		{
			Name:      "move ranks behind a new worker without telling them",
			Breaks:    "a rank is taken for one of another worker",
			Invariant: "4",
			Edits:     edit(editFile, "			t.slots[i].WorkerIndex += byWorkers\n", "			t.slots[i].WorkerIndex += 0 * byWorkers\n"),
			Test:      shardsTest("TestTablesAgainstTheSimplest"),
		},
		{
			Name:      "keep all kinds of worker that ever were",
			Breaks:    "what is kept of a pool grows with the workers that it had",
			Invariant: "10",
			Edits:     edit(editFile, "	if t.kinds.full(len(t.workers)) {\n", "	if t.kinds.full(1 << 30) {\n"),
			Test:      shardsTest("TestTablesAgainstTheSimplest"),
		},
		{
			Name:      "copy the arrays for each worker that comes",
			Breaks:    "to announce a fleet takes the square of its size",
			Invariant: "9",
			Edits:     edit(editFile, "	if n := len(t.workers); n > 0 && changes[0].old == nil", "	if n := len(t.workers); n < 0 && changes[0].old == nil"),
			Test:      shardsTest("TestAnnouncingCostsWhatChanges"),
		},
		{
			Name:      "look at all ranks for the index with each table",
			Breaks:    "to announce a fleet takes the square of its size, in locks",
			Invariant: "9",
			Edits:     edit(indexingFile, "t.moveTo(old, old.known) {\n", "t.moveTo(old, nil) {\n"),
			Test:      shardsTest("TestAnnouncingCostsWhatChanges"),
		},
		{
			Name:      "do not tell the index what was said of a worker",
			Breaks:    "an overloaded rank opens the gate for all",
			Invariant: "1",
			Edits:     edit(editFile, "		t.last = &edit{touched, t.last}\n", "		t.last = &edit{before: t.last}\n"),
			Test:      shardsTest("TestIndexFollowsTables"),
		},
		{
			Name:      "use the thresholds of another profile",
			Breaks:    "a class goes by the rules of one that stood in its place",
			Invariant: "1",
			Edits:     edit(thresholdsFile, "w.busy != nil && w.busy.profile == w.Profile && w.busy.kinds == kinds {\n", "w.busy != nil && w.busy.kinds == kinds && len(w.busy.classes) >= w.Profile.Len() {\n"),
			Test:      poolTest("TestThresholdsFollowTableAndProfile"),
		},
		{
			Name:      "compute the thresholds of all classes with each world",
			Breaks:    "a change of the pool costs what classes there are",
			Invariant: "9",
			Edits:     edit(thresholdsFile, "	if w.busy != nil && w.busy.profile", "	if w.busy != nil && w.Table == nil && w.busy.profile"),
			Test:      poolTest("TestWorldsDoNotPayForIdleClasses"),
		},
		{
			Name:      "take what was the same for the workers before for what is",
			Breaks:    "the index says of ranks that they are busy by another's threshold",
			Invariant: "1, 4",
			Edits:     edit(thresholdsFile, "	if t == nil || t.inUse != w.Table.KindsInUse() {\n", "	if t == nil {\n"),
			Test:      poolTest("TestThresholdsFollowTableAndProfile"),
		},
	}
}

// rankTable breaks the accounting of one rank.
func rankTable() []Mutation {
	return []Mutation{
		{
			Name:      "let the next anchor decay since the last one's time",
			Breaks:    "load disappears when the oldest prefill is done",
			Invariant: "7",
			Edits:     edit(prefillFile, "		return b.prefillNext, anchoredSince(b.prefillNext, clk)\n", "		return b.prefillNext, l.since\n"),
			Test:      rankTest("TestPrefillAnchor"),
		},
		{
			Name:      "do not move the anchor when another is done",
			Breaks:    "the load jumps down",
			Invariant: "7",
			Edits:     edit(prefillFile, "	if l.head.Expected > 0 && b.Expected >= 0 {\n", "	if l.head.Expected > 0 && b.Expected >= 0 && clk == nil {\n"),
			Test:      rankTest("TestPrefillAnchor"),
		},
		{
			Name:      "round decayed tokens down",
			Breaks:    "a rank is idle before its time",
			Invariant: "1, 4",
			Edits:     edit(prefillFile, "	left, rem := bits.Div64(hi, lo, duration) // at most tokens, so it fits\n	if rem > 0 {\n", "	left, rem := bits.Div64(hi, lo, duration) // at most tokens, so it fits\n	if rem > duration {\n"),
			Test:      rankTest("TestPrefillActive"),
		},
		{
			Name:      "name the instant of decay one too early",
			Breaks:    "the timer fires while the rank is still busy",
			Invariant: "6",
			Edits:     edit(prefillFile, "		if rem > 0 {\n			if q == math.MaxUint64 {\n				return math.MaxInt64, false\n			}\n			q++\n		}\n", "		_ = rem\n"),
			Test:      rankTest("TestFallsToInvertsActive"),
		},
		{
			Name:      "remove prefill tokens twice",
			Breaks:    "the load falls below what is booked",
			Invariant: "7, 8",
			Edits:     edit(rankFile, "	if b.rank != r || b.prefillDone {\n		return false\n	}\n	b.prefillDone = true\n	if b.inPrefill {\n", "	if b.rank != r {\n		return false\n	}\n	b.prefillDone = true\n	if b.inPrefill {\n"),
			Test:      rankTest("TestAgainstModel"),
		},
		{
			Name:      "release a booking of another rank",
			Breaks:    "a late call spoils the sums",
			Invariant: "7",
			Edits:     edit(rankFile, "func (r *Rank) Release(b *Booking, now Now) {\n	if b.rank != r {\n		return\n	}\n", "func (r *Rank) Release(b *Booking, now Now) {\n"),
			Test:      rankTest("TestCallsOnTheDead"),
		},
		{
			Name:      "keep the output blocks of a released booking",
			Breaks:    "a rank never comes back to zero",
			Invariant: "7",
			Edits:     edit(rankFile, "	r.blocks.weight -= b.outputWeight\n	r.blocks.drop(b)\n", "	r.blocks.drop(b)\n"),
			Test:      rankTest("TestAgainstModel"),
		},
		{
			Name:      "move done prefill along with a transfer",
			Breaks:    "tokens that were computed count again",
			Invariant: "7",
			Edits:     edit(rankFile, "	if b.Tracked && b.Tokens > 0 && !b.prefillDone {\n", "	if b.Tracked && b.Tokens > 0 {\n"),
			Test:      rankTest("TestTransfer"),
		},
		{
			Name:      "keep on an idle rank what its prompts took",
			Breaks:    "thousands of ranks keep room that nobody needs",
			Invariant: "10",
			Edits:     edit(blocksFile, "		if t.peak > idleMap {\n			t.runs, t.peak = nil, 0\n		}\n", ""),
			Test:      shardsTest("TestReleasedPromptsLeaveNothing"),
		},
	}
}
