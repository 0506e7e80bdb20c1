package sequencer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/internal/explore"
)

var errLost = errors.New("work is left and nobody will look at it")

// The protocol of the turn as a model of atomic steps: callers that publish a
// request, enter, wait for its result and may leave; an epoch that settles one
// request, or breaks; a holder that gives the turn up or hands it over; helpers
// that come when the turn was handed over. Every interleaving is explored. The
// design as it stands must lose nothing, and each breach of it must be found: else
// the model proves nothing.

const (
	modelCallers = 3
	modelHelpers = 4 // at most as many at once; one more is an error of the model
)

// The steps of a caller or a helper, each one atomic access.
const (
	pcAbsent      uint8 = iota // a helper that was not started, or has ended
	pcPublish                  // caller: publish a request
	pcLoad                     // take: read the word
	pcSwap                     // take: compare-and-swap against what was read
	pcDetach                   // epoch: take the arrivals
	pcUnlink                   // epoch: let the leavers go
	pcSettle                   // epoch: settle one request
	pcGiveUp                   // compare-and-swap to idle
	pcRunAgain                 // caller with allowance left: forget the dirty mark
	pcRequire                  // hand over: set the word to required
	pcStart                    // hand over: start a helper if none is on its way
	pcClear                    // helper: on its way no longer
	pcLook                     // helper: compare-and-swap from required to running
	pcSetOnWay                 // helper with work left: on its way again
	pcRequireSelf              // helper with work left: set the word to required
	pcWait                     // caller: wait for one's own result
	pcLeave                    // caller: settle one's own request, as left
	pcLeaver                   // caller: publish that one has left
	pcDone
)

const (
	waiting uint8 = iota
	granted
	left
)

// modelActor is a caller or a helper.
type modelActor struct {
	pc        uint8
	read      uint8 // the word as loaded
	allowance uint8 // of a caller that has the turn, in epochs
	more      bool
	leaving   bool // in the last Enter
	result    uint8
}

type modelState struct {
	word      uint8
	onWay     bool
	actors    [modelCallers + modelHelpers]modelActor // callers first
	holders   uint8                                   // how many run an epoch
	arrivals  uint8                                   // published and not detached, a bit each
	leavers   uint8                                   // left and not unlinked
	backlog   uint8                                   // detached and not settled: the holder's
	published uint8
	broken    uint8 // epochs that broke
}

// turnModel is the protocol, or a breach of it.
type turnModel struct {
	callers   int
	leave     uint8 // who may leave, a bit each
	allowance uint8 // of a caller, in epochs
	breaks    uint8 // how many epochs may break

	giveUpByStore   bool // give up without looking for a dirty mark
	startFirst      bool // look whether a helper is on its way before the word is set
	startNone       bool // hand over to nobody
	lookFirst       bool // the helper looks at the word before it says that it is on its way no longer
	endWithWork     bool // the helper ends after one epoch
	forgetOnWay     bool // the helper does not say that it is on its way again: loses nothing
	breakWithTurn   bool // an epoch that breaks keeps the turn
	leaverWalksOff  bool // a leaver does not enter
	publishLate     bool // enter before the work is published
	overlookTheMark bool // take: go without marking a running turn dirty
}

func (m turnModel) start() modelState {
	var s modelState
	for i := range modelCallers {
		s.actors[i].pc = pcPublish
		if m.publishLate {
			s.actors[i].pc = pcLoad
		}
		if i >= m.callers {
			s.actors[i].pc = pcDone
		}
	}
	return s
}

func (m turnModel) moves(s modelState) []explore.Move[modelState] {
	var out []explore.Move[modelState]
	for i := range s.actors {
		for _, to := range m.step(s, i) {
			who := "caller"
			if i >= modelCallers {
				who = "helper"
			}
			out = append(out, explore.Move[modelState]{Label: fmt.Sprintf("%s %d: %s", who, i, to.Label), To: to.To})
		}
	}
	return out
}

// step returns what actor i can do next; nothing if it is absent, parked or done.
func (m turnModel) step(s modelState, i int) (out []explore.Move[modelState]) {
	bit := uint8(1) << i
	before := s
	me := &s.actors[i]
	emit := func(text string) { out = append(out, explore.Move[modelState]{Label: text, To: s}) }
	switch me.pc {
	case pcPublish:
		s.arrivals |= bit
		s.published |= bit
		me.pc = pcLoad
		if m.publishLate {
			me.pc = pcWait
		}
		emit("publish")
	case pcLoad:
		me.read, me.pc = s.word, pcSwap
		emit(fmt.Sprint("read the word: ", s.word))
	case pcSwap:
		emit(m.swap(&s, i))
	case pcWait:
		if me.result != waiting {
			me.pc = pcDone
			emit("has its result")
		} else if m.leave&bit != 0 {
			me.pc = pcLeave
			emit("wants to leave")
		}
	case pcLeave:
		me.pc = pcDone
		if me.result == waiting {
			me.result, me.pc = left, pcLeaver
		}
		emit("leaves")
	case pcLeaver:
		s.leavers |= bit
		me.leaving, me.pc = true, pcLoad
		if m.leaverWalksOff {
			me.pc = pcDone
		}
		emit("says it has left")
	case pcDetach:
		s.backlog |= s.arrivals
		s.arrivals = 0
		me.pc = pcUnlink
		emit("detach")
	case pcUnlink:
		s.backlog &^= s.leavers
		s.leavers = 0
		me.pc = pcSettle
		emit("unlink")
	case pcSettle:
		emit(m.settle(&s, i))
		if before.broken < m.breaks {
			s = before
			s.broken++
			emit("break: " + m.handOver(&s, i, m.breakWithTurn))
		}
	case pcGiveUp:
		emit(m.giveUp(&s, i))
	case pcRunAgain:
		s.word = uint8(turnRunning)
		me.pc = pcDetach
		emit("forget the dirty mark")
	case pcRequire:
		s.word = uint8(turnRequired)
		s.holders--
		me.pc = pcStart
		if m.startFirst || m.startNone {
			m.outside(&s, i)
		}
		emit("the turn is required")
	case pcStart:
		text := "a helper is on its way"
		if !s.onWay {
			s.onWay = true
			text = fmt.Sprint("start helper ", m.startHelper(&s))
		}
		if m.startFirst {
			s.actors[i].pc = pcRequire
		} else {
			m.outside(&s, i)
		}
		emit(text)
	case pcClear:
		s.onWay = false
		me.pc = pcLook
		if m.lookFirst { // it has looked
			me.pc = pcAbsent
			if me.more {
				me.more, me.pc = false, pcDetach
			}
		}
		emit("on its way no longer")
	case pcLook:
		text := "the turn is not required"
		takes := s.word == uint8(turnRequired)
		me.pc = pcAbsent
		if takes {
			text = "takes the turn"
			s.word = uint8(turnRunning)
			s.holders++
			me.pc = pcDetach
		}
		if m.lookFirst {
			me.more, me.pc = takes, pcClear
		}
		emit(text)
	case pcSetOnWay:
		s.onWay = true
		me.pc = pcRequireSelf
		emit("on its way again")
	case pcRequireSelf:
		s.word = uint8(turnRequired)
		s.holders--
		*me = modelActor{pc: m.helperStart()}
		if m.endWithWork {
			me.pc = pcAbsent
		}
		emit("the turn is required")
	}
	return out
}

// swap is a caller's try to take the turn that it has read.
func (m turnModel) swap(s *modelState, i int) string {
	me := &s.actors[i]
	switch {
	case me.read == uint8(turnDirty), me.read == uint8(turnRunning) && m.overlookTheMark:
		m.outside(s, i)
		return "somebody has it"
	case s.word != me.read:
		me.pc = pcLoad
		return "lost the swap"
	case me.read == uint8(turnRunning):
		s.word = uint8(turnDirty)
		m.outside(s, i)
		return "marks it dirty"
	}
	s.word = uint8(turnRunning)
	s.holders++
	me.read, me.allowance, me.pc = 0, m.allowance, pcDetach
	return "takes the turn"
}

// settle is an epoch's decision about one request.
func (m turnModel) settle(s *modelState, i int) string {
	text := "nothing to settle"
	for n := range m.callers {
		if s.backlog&(1<<n) == 0 {
			continue
		}
		text = fmt.Sprint("settle ", n)
		s.backlog &^= 1 << n
		if owner := &s.actors[n]; owner.result == waiting {
			owner.result = granted
		} else {
			s.leavers &^= 1 << n // its entry is gone by now
		}
		break
	}
	s.actors[i].more = s.backlog != 0
	s.actors[i].pc = pcGiveUp
	return text
}

// giveUp is the end of an epoch that returned.
func (m turnModel) giveUp(s *modelState, i int) string {
	me := &s.actors[i]
	if !me.more && (s.word == uint8(turnRunning) || m.giveUpByStore) {
		s.word = uint8(turnIdle)
		s.holders--
		m.outside(s, i)
		return "give up"
	}
	me.more = false
	switch {
	case i >= modelCallers && m.forgetOnWay:
		me.pc = pcRequireSelf
	case i >= modelCallers:
		me.pc = pcSetOnWay
	case me.allowance > 1:
		me.allowance--
		me.pc = pcRunAgain
	default:
		return "do not give up: " + m.handOver(s, i, false)
	}
	return "do not give up"
}

// handOver is where whoever leaves the turn with work to do goes on.
func (m turnModel) handOver(s *modelState, i int, keep bool) string {
	switch {
	case keep:
		s.holders--
		m.outside(s, i)
		return "gone with the turn"
	case m.startFirst:
		s.actors[i].pc = pcStart
	default:
		s.actors[i].pc = pcRequire
	}
	return "hand over"
}

// outside is where a caller goes on after Enter; a helper ends.
func (m turnModel) outside(s *modelState, i int) {
	me := &s.actors[i]
	me.read, me.allowance, me.more = 0, 0, false
	switch {
	case i >= modelCallers:
		me.pc = pcAbsent
	case me.leaving:
		me.pc = pcDone
	case m.publishLate && s.published&(1<<i) == 0:
		me.pc = pcPublish
	default:
		me.pc = pcWait
	}
}

func (m turnModel) helperStart() uint8 {
	if m.lookFirst {
		return pcLook
	}
	return pcClear
}

// startHelper returns the number of the helper that it has started. If there are
// too many it is that of the last, twice, which check finds.
func (m turnModel) startHelper(s *modelState) int {
	for i := modelCallers; i < len(s.actors); i++ {
		if s.actors[i].pc == pcAbsent {
			s.actors[i].pc = m.helperStart()
			return i
		}
	}
	s.broken = 0xff
	return len(s.actors)
}

var errHelpers = errors.New("more helpers at once than the model has")

func (m turnModel) check(s modelState, terminal bool) error {
	if s.holders > 1 {
		return errors.New("two have the turn")
	}
	if s.broken == 0xff {
		return errHelpers
	}
	if !terminal {
		return nil
	}
	for i := range m.callers {
		if s.actors[i].pc != pcDone {
			return fmt.Errorf("%w: caller %d waits", errLost, i)
		}
	}
	if s.arrivals|s.leavers|s.backlog != 0 || s.word != uint8(turnIdle) || s.onWay {
		return fmt.Errorf("%w: %+v", errLost, s)
	}
	return nil
}

// helpers returns how many helpers there are.
func (s *modelState) helpers() (n int) {
	for i := modelCallers; i < len(s.actors); i++ {
		if s.actors[i].pc != pcAbsent {
			n++
		}
	}
	return n
}

// exploreTurn explores the model and returns how many states it has and how many
// helpers there are at once at most.
func exploreTurn(m turnModel) (states, helpers int, err error) {
	if m.allowance == 0 {
		m.allowance = 1
	}
	states, err = explore.All(m.start(), m.moves, func(s modelState, terminal bool) error {
		helpers = max(helpers, s.helpers())
		return m.check(s, terminal)
	})
	return states, helpers, err
}

func TestModelOfTheTurnLosesNothing(t *testing.T) {
	t.Parallel()
	models := []turnModel{
		{callers: 2},
		{callers: 2, leave: 0b11},
		{callers: 2, leave: 0b11, allowance: 2},
		{callers: 2, leave: 0b11, breaks: 1},
		{callers: 3},
		// What a helper says when it has work left saves starts, but nothing is lost
		// without that: it looks at the word in any case.
		{callers: 3, forgetOnWay: true},
	}
	if !testing.Short() {
		models = append(models,
			// Three leavers and a break lose nothing either, in 7.4 million states: too many
			// for every day.
			turnModel{callers: 2, leave: 0b11, breaks: 2},
			turnModel{callers: 3, leave: 0b001},
			turnModel{callers: 3, allowance: 2, breaks: 1},
		)
	}
	for _, m := range models {
		t.Run(fmt.Sprintf("%d callers, leavers %03b, allowance %d, breaks %d, forgetful %t",
			m.callers, m.leave, max(m.allowance, 1), m.breaks, m.forgetOnWay), func(t *testing.T) {
			t.Parallel()
			states, helpers, err := exploreTurn(m)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states, at most %d helpers", states, helpers)
		})
	}
}

func TestModelOfTheTurnFindsEachBreach(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]turnModel{
		"a caller that marks nothing":                     {callers: 2, overlookTheMark: true},
		"give up without compare-and-swap":                {callers: 2, giveUpByStore: true},
		"hand over and start no helper":                   {callers: 3, startNone: true},
		"look for a helper before the word says required": {callers: 3, startFirst: true},
		"a helper that looks before it is not on its way": {callers: 3, leave: 0b001, lookFirst: true},
		"a helper that ends while work is left":           {callers: 3, endWithWork: true},
		"an epoch that breaks and keeps the turn":         {callers: 2, breaks: 1, breakWithTurn: true},
		"a leaver that does not enter":                    {callers: 2, leave: 0b010, leaverWalksOff: true},
		"a caller that enters before its work is visible": {callers: 2, publishLate: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, _, err := exploreTurn(m)
			if !errors.Is(err, errLost) {
				t.Fatalf("not found in %d states: %v", states, err)
			}
			t.Logf("%d states: %v", states, err)
		})
	}
}
