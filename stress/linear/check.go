package linear

import (
	"fmt"
	"hash/maphash"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

func (w *world) rank(id sched.RankID) int { return slices.Index(w.ranks, id) }

var seed = maphash.MakeSeed()

// specification is the sequential scheduler of a world for the checker. It takes
// a step for as long as allow says so.
func (w *world) specification(allow func() bool) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{w.initial()} },
		Step: func(s, input, _ any) (next []any) {
			if !allow() {
				return nil
			}
			for _, view := range views(s.(*state), input.(step)) {
				for _, n := range input.(step).from(w, view) {
					if n == view { // nothing changed but who looks
						n = s.(*state)
					}
					next = append(next, n)
				}
			}
			return next
		},
		Equal:             func(a, b any) bool { return a.(*state).key == b.(*state).key },
		Hash:              func(s any) uint64 { return maphash.String(seed, s.(*state).key) },
		DescribeOperation: func(input, _ any) string { return input.(step).String() },
		DescribeState:     func(s any) string { return s.(*state).String() },
	}
	return m.ToModel()
}

// views are how a state may look to a step: its clock may have been read just before
// it moved the last time, unless all is at rest.
func views(s *state, o step) []*state {
	if _, resting := o.(rest); resting || s.ticks == 0 {
		return []*state{s}
	}
	late := *s
	late.lag = 1
	return []*state{s, &late}
}

// attempts are the searches for an explanation, one after the other.
var attempts = [...]loose{
	{},
	{order: inTurn},
	{stood: 2, order: inTurn},
	{stood: 6, order: inTurn},
	{stood: 2, granted: true, order: inTurn},
	{stood: 2, order: anyOrder},
	{stood: all, order: inTurn},
	{stood: all, granted: true, order: inTurn},
	{stood: all, granted: true, order: anyOrder},
}

// all is more than any history holds.
const all = math.MaxInt

// verdict is what the checker says of a history.
type verdict struct {
	porcupine.CheckResult
	// looser says how many searches it took to explain the history, less one, and
	// how what the last one allowed.
	looser int
	how    loose
	// refuted tells of the last search that came to an end without an explanation.
	refuted *search
}

// search is one search for an order that explains a history.
type search struct {
	how   loose
	ops   []porcupine.Operation
	model porcupine.Model
	info  porcupine.LinearizationInfo
}

// check decides whether the history is linearizable, at first in the order in
// which decisions were told and as if nothing had happened unseen. A search may
// take so many steps of the specification, whatever time that is: if the last one
// needs more, the verdict is Unknown.
func (h *history) check(steps int) (v verdict) {
	model := h.world.specification(func() bool { return true })
	for v.looser, v.how = range attempts {
		left := steps
		limited := h.world.specification(func() bool { left--; return left >= 0 })
		s := &search{how: v.how, ops: h.operations(v.how), model: model}
		v.CheckResult, s.info = porcupine.CheckOperationsVerbose(limited, s.ops, 0)
		switch {
		case v.CheckResult == porcupine.Ok:
			return v
		case left < 0:
			v.CheckResult = porcupine.Unknown
		default:
			v.refuted = s
		}
	}
	return v
}

// draw writes a page that shows where the history goes wrong to a new temporary
// directory and returns its path.
func (s *search) draw() (string, error) {
	dir, err := os.MkdirTemp("", "turnstile-linear-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "history.html")
	return path, porcupine.VisualizePath(s.model, s.info, path)
}

// String lists the steps of the history and the longest order that was found for
// its beginning.
func (s *search) String() string {
	var text strings.Builder
	ops := slices.Clone(s.ops)
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, op := range ops {
		fmt.Fprintf(&text, "[%4d,%4d] client %2d: %v\n", op.Call, op.Return, op.ClientId, op.Input)
	}
	var longest []porcupine.Operation
	for _, order := range s.info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	text.WriteString("longest order of a beginning, and the states it may end in:\n")
	states, fits := s.model.Init(), make(map[string]bool)
	for _, op := range longest {
		fmt.Fprintf(&text, "  %v\n", op.Input)
		fits[fmt.Sprint(op.Input)] = true
		_, states = s.model.Step(states, op.Input, nil)
	}
	text.WriteString(s.model.DescribeState(states) + "\nand what did not fit any more:\n")
	for _, op := range ops {
		if !fits[fmt.Sprint(op.Input)] {
			fmt.Fprintf(&text, "  [%d,%d] %v\n", op.Call, op.Return, op.Input)
		}
	}
	return text.String()
}
