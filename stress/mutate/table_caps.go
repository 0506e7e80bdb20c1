package mutate

const (
	barredFile   = "sched/pool/barred.go"
	transferFile = "sched/transfer.go"
	costFile     = "sched/selector/cost.go"
)

// capsTable breaks caps, and the transfer to the best rank.
func capsTable() []Mutation {
	return []Mutation{
		{
			Name:      "give a class that chooses from idle ranks all of them",
			Breaks:    "a cap is a gate",
			Invariant: "1",
			Edits:     edit(barredFile, "	idle := l.World.choosesIdle(l.Class) && l.Busy > 0\n", "	idle := false\n"),
			Test:      schedTest("TestNoRankEverHasMoreThanTheCap"),
		},
		{
			Name:      "count a booking that moves where it is",
			Breaks:    "a booking flees from its own load",
			Invariant: "4",
			Edits:     edit(transferFile, "		l.Correct(m.own.ID(), &m.load, m.live)\n", ""),
			Test:      schedTest("TestTransferToBest"),
		},
		{
			Name:      "transfer by what the ranks were",
			Breaks:    "many that move at once go to the same rank",
			Invariant: "4",
			Edits:     edit(transferFile, "	if !l.StandsLocked(choice, &load) || !l.MayTakeLocked(to, &load) {\n", "	if !l.MayTakeLocked(to, &load) {\n"),
			Test:      Test{Package: "sched", Name: "TestTransferToBestSpreads", Count: 3, Tags: "perturb"},
		},
		{
			Name:      "cost a decode pool like any other",
			Breaks:    "what is cached counts as nothing where prompts are not computed",
			Invariant: "4",
			Edits:     edit(costFile, "	if decodes(in) {\n", "	if decodes(in) && in.TrackPrefill {\n"),
			Test:      Test{Package: "sched/selector", Name: "TestCost"},
		},
	}
}
