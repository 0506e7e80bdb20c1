package mutate

const (
	policyThresholdsFile = "sched/policy/thresholds.go"
	policyCheckFile      = "sched/policy/check.go"
	policyNodesFile      = "sched/policy/nodes.go"
	policyWarnFile       = "sched/policy/warn.go"
	policySectionsFile   = "sched/policy/sections.go"
	configFile           = "sched/config.go"
)

func policyTest(name string) Test { return Test{Package: "sched/policy", Name: name} }

// policyTable breaks how a policy is read and checked.
func policyTable() []Mutation {
	return []Mutation{
		{
			Name:      "let a cap on requests make nobody wait",
			Breaks:    "a class with nothing but max_requests_per_rank is never gated",
			Invariant: "1",
			Edits:     edit(policyThresholdsFile, "c.HasPrefillThreshold() || c.MaxRequestsPerRank > 0 ||", "c.HasPrefillThreshold() ||"),
			Test:      policyTest("TestCanQueue"),
		},
		{
			Name:      "have a class that never queues guard ranks",
			Breaks:    "others are held back for somebody who cannot wait",
			Invariant: "guard",
			Edits:     edit(policyThresholdsFile, "	return c.GuardAfter > 0 && !never\n", "	_ = never\n	return c.GuardAfter > 0\n"),
			Test:      policyTest("TestWhoWaits"),
		},
		{
			Name:      "bind a class that never queues by guards",
			Breaks:    "a probe is refused because somebody else waits",
			Invariant: "guard",
			Edits:     edit(policyThresholdsFile, "	return c.CanQueue() && !never\n", "	_ = never\n	return c.CanQueue()\n"),
			Test:      policyTest("TestWhoWaits"),
		},
		{
			Name:      "compare blocks with a total that is not known",
			Breaks:    "every rank of a worker that does not say how many blocks it has is busy",
			Invariant: "1",
			Edits:     edit(policyThresholdsFile, "c.KVBusyThresholdFrac == nil || totalKVBlocks <= 0", "c.KVBusyThresholdFrac == nil || totalKVBlocks < 0"),
			Test:      policyTest("TestBlocksAbove"),
		},
		{
			Name:      "accept a guard beside a ratio",
			Breaks:    "a guard promises what one idle rank does not give",
			Invariant: "guard",
			Edits:     edit(policyCheckFile, "	case g > 0 && c.BusyWorkerRatio != 0:\n", "	case g > 0 && c.BusyWorkerRatio > 1:\n"),
			Test:      policyTest("TestParseRefuses"),
		},
		{
			Name:      "accept a guard without a prefill threshold",
			Breaks:    "a guard binds nobody, and nobody is told",
			Invariant: "guard",
			Edits:     edit(policyCheckFile, "	case g > 0 && noPrefill:\n", "	case g > 0 && noThreshold:\n"),
			Test:      policyTest("TestParseRefuses"),
		},
		{
			Name:      "cut a time that is too long",
			Breaks:    "a file that says what no clock can count is accepted",
			Invariant: "policy",
			Edits:     edit(policyNodesFile, "		s.report(at, n.Value, ruleTooLong)\n		return 0\n", "		return math.MaxInt64\n"),
			Test:      policyTest("TestParseRefuses"),
		},
		{
			Name:      "round a time to nothing",
			Breaks:    "a key that was set counts as absent",
			Invariant: "policy",
			Edits:     edit(policyNodesFile, "	return max(1, p.nanoseconds(s, at, n, *v))\n", "	return p.nanoseconds(s, at, n, *v)\n"),
			Test:      policyTest("TestParseValues"),
		},
		{
			Name:      "compare fractions for one worker alone",
			Breaks:    "a class that starves on other workers is not warned of",
			Invariant: "policy",
			Edits:     edit(policyWarnFile, "batched > 0 && (batched == 1 || fractions); batched *= 2", "batched > 0 && batched == 1; batched *= 2"),
			Test:      policyTest("TestParseWarnsOfSurprises"),
		},
		{
			Name:      "refuse a file for what other parts of Dynamo read",
			Breaks:    "a file of Dynamo 1.6 does not load",
			Invariant: "policy",
			Edits:     edit(policySectionsFile, "		p.warning(s, at, \"is not taken over: it \"+rule)\n", "		s.report(at, \"\", rule)\n"),
			Test:      policyTest("TestParseDynamo16"),
		},
		{
			Name:      "overrule the config by a policy file",
			Breaks:    "the weights of the tiers that the program sets are not those in use",
			Invariant: "policy",
			Edits:     edit(configFile, "	case c.TierWeights != nil:\n", "	case c.TierWeights != nil && f == nil:\n"),
			Test:      schedTest("TestTierWeightsOfThePolicyFile"),
		},
	}
}
