package linear

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/stress/model"
)

// oneRank is a pool of one rank and three requests of class f.
func oneRank(t *testing.T) *world {
	w := &world{
		workers: []sched.Worker{{ID: 1, Ranks: 1, MaxBatchedTokens: 1000}},
		ranks:   []sched.RankID{{Worker: 1}},
	}
	p, err := model.ParseProfile([]byte(policies[0]))
	require.NoError(t, err)
	w.profiles = []*model.Profile{p}
	w.classes = [][]int{{0, 0, 0}}
	for i, id := range []string{"a", "b", "c"} {
		w.requests = append(w.requests, &request{index: i, id: id, isl: 10, class: "f", pin: noRank})
	}
	return w
}

// TestSpecification has histories checked whose answer is known: steps of one
// line come one after the other, those of one entry are concurrent.
func TestSpecification(t *testing.T) {
	w := oneRank(t)
	a, b, c := w.requests[0], w.requests[1], w.requests[2]
	admitted := func(r *request) step { return grant{r, result{rank: 0}} }
	granted := func(r *request) step { return grant{r, result{rank: 0, queued: true}} }
	release := func(r *request) step { return lifecycle{r: r, kind: "release"} }
	full := func(usage int64) step {
		return refusal{c, result{rank: noRank, err: &sched.Error{
			Code: sched.ErrQueueFull, Class: "f", Limit: "requests", Usage: usage, Bound: 2,
		}}}
	}
	for name, test := range map[string]struct {
		want  porcupine.CheckResult
		steps [][]step
	}{
		"one after the other": {porcupine.Ok, [][]step{{admitted(a)}, {release(a)}, {admitted(b)}}},
		"oversubscribed":      {porcupine.Illegal, [][]step{{admitted(a)}, {admitted(b)}}},
		"freed meanwhile":     {porcupine.Ok, [][]step{{admitted(a)}, {release(a), admitted(b)}}},
		"waits for nothing":   {porcupine.Illegal, [][]step{{arrival{a}}}},
		"waits":               {porcupine.Ok, [][]step{{admitted(a)}, {arrival{b}}, {release(a)}, {granted(b)}}},
		"bypassed": {porcupine.Illegal, [][]step{
			{admitted(a)}, {arrival{b}}, {release(a)}, {admitted(c)},
		}},
		"out of order": {porcupine.Illegal, [][]step{
			{admitted(a)}, {arrival{b}}, {arrival{c}}, {release(a)}, {granted(c)},
		}},
		"two at once": {porcupine.Ok, [][]step{
			{admitted(a)}, {arrival{b}, arrival{c}}, {release(a)}, {granted(c)},
		}},
		"refused below the limit": {porcupine.Illegal, [][]step{{admitted(a)}, {arrival{b}}, {full(1)}}},
		"granted twice":           {porcupine.Illegal, [][]step{{admitted(a)}, {release(a)}, {admitted(a)}}},
		"left, and was granted unseen": {porcupine.Ok, [][]step{
			{admitted(a)}, {arrival{b}}, {release(a)}, {secret{b, noRank, true}, leave{r: b}}, {admitted(c)},
		}},
		"left, and holds the rank": {porcupine.Illegal, [][]step{
			{admitted(a)}, {arrival{b}}, {release(a)}, {leave{r: b}}, {arrival{c}},
		}},
		"forgotten at rest": {porcupine.Illegal, [][]step{
			{admitted(a)}, {arrival{b}}, {release(a)}, {rest{loads: []sched.RankLoad{{Rank: w.ranks[0]}}}},
		}},
		"dropped with its worker": {porcupine.Ok, [][]step{
			{admitted(a)}, {change{kind: "remove"}, drop{rank: 0}, lifecycle{r: a, kind: "prefill-done"}},
			{lifecycle{r: a, kind: "release", err: sched.ErrUnchanged}},
		}},
		"released twice": {porcupine.Illegal, [][]step{{admitted(a)}, {release(a)}, {release(a)}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(w)
			for _, together := range test.steps {
				call := h.now()
				for _, s := range together {
					h.mu.steps = append(h.mu.steps, timed{step: s, call: call, done: call})
				}
			}
			v := h.check(effort)
			require.Equal(t, test.want, v.CheckResult, "%v", v.refuted)
		})
	}
}
