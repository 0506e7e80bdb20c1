package micro

// The scenario held: each row sets up a situation in which one call could work
// very long, most of it for others, and measures the longest. What it demands are
// fixed bounds, whatever waits and however large the pool is.

func heldRows(engines []Engine) []Spec {
	out := []Spec{
		releaseLanes(engines), releaseRow(engines), releaseIdle(engines), refused(engines), priority(engines),
		leavers(engines), dueTogether(engines), expiring(engines), closing(engines), busyRatio(engines),
	}
	out = append(out, choiceRows(engines)...)
	out = append(out, selectorRows(engines)...)
	out = append(out, sharedPrompt(engines), parting(engines))
	out = append(out, classRows(engines)...)
	out = append(out, upserts(engines))
	return append(out, softRows(engines)...)
}
