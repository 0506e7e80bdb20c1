package mutate

const (
	fleetFile     = "sched/fleet.go"
	elsewhereFile = "shards/elsewhere.go"
	protocolDir   = "integrations/replicas/protocol"
	protocolFile  = protocolDir + "/core.go"
	peerFile      = protocolDir + "/peer.go"
)

func protocolTest(name string) Test { return Test{Package: protocolDir, Name: name} }

// replicasTable breaks how schedulers count each other's load.
func replicasTable() []Mutation {
	return []Mutation{
		{
			Name:      "take a peer's older news for newer",
			Breaks:    "load that is over counts again",
			Invariant: "7",
			Edits:     edit(fleetFile, "		if found && load.Version <= was.Version ||", "		if found && load.Version < was.Version ||"),
			Test:      schedTest("TestPeerLoadCounts"),
		},
		{
			Name:      "keep the load of a peer that was dropped",
			Breaks:    "a rank stays loaded by nobody",
			Invariant: "7",
			Edits:     edit(fleetFile, "	delete(p.columns, peer)\n", ""),
			Test:      schedTest("TestPeerLoadCounts"),
		},
		{
			Name:      "do not look at those who wait when a peer's load falls",
			Breaks:    "a request waits though its rank is free",
			Invariant: "6",
			Edits:     edit(fleetFile, "	s.setPeerLoads(peer, loads)\n	s.loadFell()\n", "	s.setPeerLoads(peer, loads)\n"),
			Test:      schedTest("TestPeerLoadCounts"),
			Hangs:     true,
		},
		{
			Name:      "tell what peers cause as one's own",
			Breaks:    "load goes round among peers and never ends",
			Invariant: "7",
			Edits:     edit(elsewhereFile, "	s.elsewhere.load, s.elsewhere.quiet = load, true\n", "	s.elsewhere.load, s.elsewhere.quiet = load, false\n"),
			Test:      schedTest("TestOwnLoads"),
		},
		{
			Name:      "forget to tell that a rank has gone",
			Breaks:    "peers count its load for ever",
			Invariant: "7",
			Edits:     edit(fleetFile, "	dst = s.peers.appendGone(dst, mark)\n", ""),
			Test:      schedTest("TestOwnLoadsOfRanksThatGo"),
		},
		{
			Name:      "apply what came late",
			Breaks:    "load that is over counts again",
			Invariant: "7",
			Edits:     edit(peerFile, "found && l.Version <= was.Version, ", ""),
			Test:      protocolTest("TestExploreLossOrderAndRepetition"),
		},
		{
			Name:      "keep what a whole state does not list",
			Breaks:    "load whose end was lost counts for ever",
			Invariant: "7",
			Edits:     edit(peerFile, "		if _, listed := s.listed[l.Rank]; listed ||", "		if _, listed := s.listed[l.Rank]; !listed ||"),
			Test:      protocolTest("TestExploreLossOrderAndRepetition"),
		},
		{
			Name:      "let a replica that started again keep its column",
			Breaks:    "load of a process that is gone counts",
			Invariant: "7",
			Edits:     edit(peerFile, "	case p != nil:\n		c.drop(out, p, Restarted)\n", "	case p != nil:\n		p.incarnation = m.Incarnation\n		return p\n"),
			Test:      protocolTest("TestExploreLossOrderAndRepetition"),
		},
		{
			Name:      "never drop who is silent",
			Breaks:    "load of the dead counts for ever",
			Invariant: "7",
			Edits:     edit(protocolFile, "		if now-p.heard >= c.config.DeadAfter {\n", "		if false {\n"),
			Test:      protocolTest("TestPeersThatGo"),
		},
		{
			Name:      "drop all peers after having stood still",
			Breaks:    "a process that was paused finds the pool empty",
			Invariant: "7",
			Edits:     edit(protocolFile, "	if now-c.lastTick > 2*c.config.BeatEvery {\n", "	if false {\n"),
			Test:      protocolTest("TestOneThatStoodStill"),
		},
		{
			Name:      "hear who has said good-bye",
			Breaks:    "a late message brings a replica back that is gone",
			Invariant: "7",
			Edits:     edit(peerFile, "		c.left[m.From] = m.Incarnation\n", ""),
			Test:      protocolTest("TestPeersThatGo"),
		},
	}
}
