package sequencer

import (
	"errors"
	"fmt"
	"testing"
)

// The protocol of the turn as a model of atomic steps: callers that publish a
// request, enter, wait for its result and may leave; an epoch that settles one
// request and then gives the turn up or passes it on. Every interleaving is
// explored. The design as it stands must lose nothing, and each breach of it
// must be found: else the model proves nothing.

const modelCallers = 3

// The steps of a caller, each one atomic access.
const (
	pcPublish uint8 = iota
	pcLoad          // take: read the word
	pcSwap          // take: compare-and-swap against what was read
	pcDetach        // epoch: take the arrivals
	pcUnlink        // epoch: let the leavers go
	pcSettle        // epoch: settle one request
	pcToken         // epoch: wake its owner
	pcGiveUp        // compare-and-swap to idle
	pcClear         // forget the dirty mark
	pcHeir          // choose the heir
	pcPass          // compare-and-swap to required
	pcWake          // wake the heir
	pcAgain         // another epoch, dirty or not
	pcWait          // wait for one's own result
	pcLeave         // settle one's own request, as left
	pcLeaver        // publish that one has left
	pcDone
)

const (
	waiting uint8 = iota
	granted
	left
)

type modelCaller struct {
	pc      uint8
	read    uint8 // the word as loaded
	more    bool
	chosen  uint8 // whom the holder settles or wakes
	leaving bool  // in the last Enter
	result  uint8
	token   bool
}

type modelState struct {
	word      uint8
	callers   [modelCallers]modelCaller
	holders   uint8 // how many run an epoch
	arrivals  uint8 // published and not detached, a bit each
	leavers   uint8 // left and not unlinked
	backlog   uint8 // detached and not settled: the holder's
	published uint8
}

// turnModel is the protocol, or a breach of it.
type turnModel struct {
	callers int
	leave   uint8 // who may leave, a bit each

	giveUpByStore  bool // give up without looking for a dirty mark
	passByStore    bool // pass on without looking for a dirty mark
	wakeFirst      bool // wake the heir before the word says required
	heirMayBeGone  bool // choose an heir without looking whether it has left
	leaverWalksOff bool // a leaver does not enter
	publishLate    bool // enter before the work is published
}

func (m turnModel) start() modelState {
	var s modelState
	for i := range s.callers {
		s.callers[i].pc = pcPublish
		if m.publishLate {
			s.callers[i].pc = pcLoad
		}
		if i >= m.callers {
			s.callers[i].pc = pcDone
		}
	}
	return s
}

func (m turnModel) moves(s modelState) []move[modelState] {
	var out []move[modelState]
	for i := range m.callers {
		for _, to := range m.step(s, i) {
			out = append(out, move[modelState]{fmt.Sprintf("caller %d: %s", i, to.label), to.to})
		}
	}
	return out
}

// step returns what caller i can do next; nothing if it is parked or done.
func (m turnModel) step(s modelState, i int) (out []move[modelState]) {
	bit := uint8(1) << i
	me := &s.callers[i]
	var text string
	emit := func() { out = append(out, move[modelState]{text, s}) }
	switch me.pc {
	case pcPublish:
		text = "publish"
		s.arrivals |= bit
		s.published |= bit
		me.pc = pcLoad
		if m.publishLate {
			me.pc = pcWait
		}
		emit()
	case pcLoad:
		text = fmt.Sprint("read the word: ", s.word)
		me.read, me.pc = s.word, pcSwap
		emit()
	case pcSwap:
		m.swap(&s, i, &text)
		emit()
	case pcDetach:
		text = "detach"
		s.backlog |= s.arrivals
		s.arrivals = 0
		me.pc = pcUnlink
		emit()
	case pcUnlink:
		text = "unlink"
		s.backlog &^= s.leavers
		s.leavers = 0
		me.pc = pcSettle
		emit()
	case pcSettle:
		me.pc = pcGiveUp
		text = "nothing to settle"
		if n, ok := lowest(s.backlog); ok {
			text = fmt.Sprint("settle ", n)
			s.backlog &^= 1 << n
			if owner := &s.callers[n]; owner.result == waiting {
				owner.result = granted
				me.chosen, me.pc = n, pcToken
			} else {
				s.leavers &^= 1 << n // its entry is gone by now
			}
		}
		s.callers[i].more = s.backlog != 0
		emit()
	case pcToken:
		text = fmt.Sprint("token for ", me.chosen)
		s.callers[me.chosen].token = true
		me.pc = pcGiveUp
		emit()
	case pcGiveUp:
		text = "do not give up"
		me.pc = pcClear
		if m.passByStore || m.wakeFirst {
			me.pc = pcHeir
		}
		if !me.more && (s.word == uint8(turnRunning) || m.giveUpByStore) {
			text = "give up"
			s.word = uint8(turnIdle)
			m.leaveEnter(&s, i)
		}
		emit()
	case pcClear:
		text = "forget the dirty mark"
		s.word = uint8(turnRunning)
		me.pc = pcHeir
		emit()
	case pcHeir:
		heirs := s.backlog
		for n := range m.callers {
			if s.callers[n].result != waiting && !m.heirMayBeGone {
				heirs &^= 1 << n
			}
		}
		text = "no heir"
		me.pc = pcAgain
		if n, ok := lowest(heirs); ok {
			text = fmt.Sprint("heir ", n)
			me.chosen, me.pc = n, pcPass
			if m.wakeFirst {
				me.pc = pcWake
			}
		}
		emit()
	case pcPass:
		text = "cannot pass on"
		me.pc = pcAgain
		if s.word == uint8(turnRunning) || m.passByStore || m.wakeFirst {
			text = "pass on"
			s.word = uint8(turnRequired)
			s.holders--
			me.pc = pcWake
			if m.wakeFirst {
				m.outside(&s, i)
			}
		}
		emit()
	case pcWake:
		text = fmt.Sprint("wake ", me.chosen)
		s.callers[me.chosen].token = true
		if m.wakeFirst {
			me.pc = pcPass
		} else {
			m.outside(&s, i)
		}
		emit()
	case pcAgain:
		text = "run again"
		me.pc = pcDetach
		emit()
	case pcWait:
		before := s
		if me.result != waiting {
			text = "has its result"
			me.pc = pcDone
			emit()
			return out
		}
		if me.token {
			text = "is woken"
			me.token, me.pc = false, pcLoad
			emit()
		}
		if m.leave&bit != 0 {
			s = before
			text = "wants to leave"
			me.pc = pcLeave
			emit()
		}
	case pcLeave:
		text = "leaves"
		me.pc = pcDone
		if me.result == waiting {
			me.result, me.pc = left, pcLeaver
		}
		emit()
	case pcLeaver:
		text = "says it has left"
		s.leavers |= bit
		me.leaving, me.pc = true, pcLoad
		if m.leaverWalksOff {
			me.pc = pcDone
		}
		emit()
	}
	return out
}

func (m turnModel) swap(s *modelState, i int, text *string) {
	me := &s.callers[i]
	if me.read == uint8(turnDirty) {
		*text = "finds it dirty"
		m.outside(s, i)
		return
	}
	if s.word != me.read {
		*text = "lost the swap"
		me.pc = pcLoad
		return
	}
	if me.read == uint8(turnRunning) {
		*text = "marks it dirty"
		s.word = uint8(turnDirty)
		m.outside(s, i)
		return
	}
	*text = "takes the turn"
	s.word = uint8(turnRunning)
	s.holders++
	me.pc = pcDetach
}

// leaveEnter is a return from Enter by the holder.
func (m turnModel) leaveEnter(s *modelState, i int) {
	s.holders--
	m.outside(s, i)
}

// outside is where a caller goes on after Enter.
func (m turnModel) outside(s *modelState, i int) {
	me := &s.callers[i]
	me.read, me.chosen, me.more = 0, 0, false
	switch {
	case me.leaving:
		me.pc = pcDone
	case m.publishLate && s.published&(1<<i) == 0:
		me.pc = pcPublish
	default:
		me.pc = pcWait
	}
}

func (m turnModel) check(s modelState, terminal bool) error {
	if s.holders > 1 {
		return errors.New("two have the turn")
	}
	if !terminal {
		return nil
	}
	for i := range m.callers {
		if s.callers[i].pc != pcDone {
			return fmt.Errorf("%w: caller %d waits", errLost, i)
		}
	}
	if s.arrivals|s.leavers|s.backlog != 0 || s.word != uint8(turnIdle) {
		return fmt.Errorf("%w: %+v", errLost, s)
	}
	return nil
}

func lowest(set uint8) (uint8, bool) {
	for n := range uint8(modelCallers) {
		if set&(1<<n) != 0 {
			return n, true
		}
	}
	return 0, false
}

func TestModelOfTheTurnLosesNothing(t *testing.T) {
	t.Parallel()
	models := []turnModel{
		{callers: 2},
		{callers: 2, leave: 0b11},
		{callers: 3},
	}
	if !testing.Short() {
		models = append(models, turnModel{callers: 3, leave: 0b011}, turnModel{callers: 3, leave: 0b111})
	}
	for _, m := range models {
		t.Run(fmt.Sprintf("%d callers, leavers %03b", m.callers, m.leave), func(t *testing.T) {
			t.Parallel()
			states, err := explore(m.start(), m.moves, m.check)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states", states)
		})
	}
}

func TestModelOfTheTurnFindsEachBreach(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]turnModel{
		"give up without compare-and-swap":                {callers: 2, giveUpByStore: true},
		"pass on over the dirty mark of the heir":         {callers: 3, leave: 0b010, passByStore: true},
		"wake before the word is set":                     {callers: 3, wakeFirst: true},
		"an heir that has left":                           {callers: 3, leave: 0b010, heirMayBeGone: true},
		"a leaver that does not enter":                    {callers: 3, leave: 0b010, leaverWalksOff: true},
		"a caller that enters before its work is visible": {callers: 2, publishLate: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, err := explore(m.start(), m.moves, m.check)
			if !errors.Is(err, errLost) {
				t.Fatalf("not found in %d states: %v", states, err)
			}
			t.Logf("%d states: %v", states, err)
		})
	}
}
