package capacity

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/internal/explore"
)

var errLost = errors.New("a hint is lost")

// The ring as a model of atomic steps: two producers that change a load and
// record it, on one source or on two, and a drainer. The ring holds one hint, so
// that it overflows, and push and pop may fail for no reason, as xsync's do.
// Every interleaving is explored. The design must lose no hint, and the orders
// that were given up must be found to lose one.

const (
	ringProducers = 2
	ringSources   = 2
)

// The steps of a producer; those from pdLock to pdUnlock hold its source's lock.
const (
	pdAsk    uint8 = iota // whether somebody waits; only in a breach
	pdLock                // take the lock
	pdChange              // change the load
	pdLook                // look at the mark
	pdCount               // count it
	pdMark                // set the mark
	pdPush                // push
	pdFlag                // raise the flag
	pdUnlock              // give the lock back
	pdKick                // if somebody waits, have the ring drained
	pdDone
)

// The steps of the drainer.
const (
	drRaise  uint8 = iota // say that somebody waits
	drFirst               // look at the load of source at, for the first time
	drIdle                // wait to be kicked
	drFlag                // swap the flag out
	drPop                 // pop
	drClear               // clear the popped source's mark
	drRead                // read its load
	drCheck               // look at the count
	drForget              // overflow: clear the mark of source at
	drReadAt              // overflow: read the load of source at
	drLower               // lower the flag; only in a breach
	drEnd                 // the drain is over
)

type ringProducer struct {
	pc    uint8
	left  uint8 // changes to make
	asked bool  // somebody was seen to wait
}

type ringState struct {
	producers [ringProducers]ringProducer

	load     [ringSources]uint8 // versions
	locked   [ringSources]bool
	mark     [ringSources]bool
	count    uint8
	flag     bool
	waiting  bool
	kicked   bool
	full     bool
	hint     uint8
	recorded [ringSources]uint8 // the version up to which Record has returned

	drainer    uint8
	at         uint8 // the source it is at
	overflowed bool
	seen       [ringSources]uint8
	owed       [ringSources]uint8 // recorded when the drain began
}

// ringModel is the design, or a departure from it.
type ringModel struct {
	changes uint8
	source  [ringProducers]uint8

	readFirst   bool // read the load, then clear the mark
	flagDown    bool // a failed push does not raise the flag
	flagLast    bool // read the flag first and lower it last
	onlyWaiting bool // record only if somebody was seen to wait before the change
	noCount     bool // do not look at the count of marks
	// late asks only that every hint is seen in the end, not by the drain that
	// begins after it was recorded.
	late bool
}

func (m ringModel) start() ringState {
	var s ringState
	for i := range s.producers {
		s.producers[i] = ringProducer{pc: m.first(), left: m.changes}
	}
	return s
}

func (m ringModel) first() uint8 {
	if m.onlyWaiting {
		return pdAsk
	}
	return pdLock
}

func (m ringModel) moves(s ringState) []explore.Move[ringState] {
	var out []explore.Move[ringState]
	add := func(who string, moves []explore.Move[ringState]) {
		for _, to := range moves {
			out = append(out, explore.Move[ringState]{Label: who + ": " + to.Label, To: to.To})
		}
	}
	for i := range s.producers {
		add(fmt.Sprint("producer ", i), m.produce(s, i))
	}
	add("drainer", m.drain(s))
	return out
}

func (m ringModel) produce(s ringState, i int) (out []explore.Move[ringState]) {
	me, src := &s.producers[i], m.source[i]
	emit := func(text string) { out = append(out, explore.Move[ringState]{Label: text, To: s}) }
	switch me.pc {
	case pdAsk:
		me.asked, me.pc = s.waiting, pdLock
		emit(fmt.Sprint("somebody waits: ", me.asked))
	case pdLock:
		if !s.locked[src] {
			s.locked[src], me.pc = true, pdChange
			emit(fmt.Sprint("lock ", src))
		}
	case pdChange:
		s.load[src]++
		me.pc = pdLook
		if m.onlyWaiting && !me.asked {
			me.pc = pdUnlock
		}
		emit(fmt.Sprint("load ", s.load[src]))
	case pdLook:
		me.pc = pdCount
		if s.mark[src] {
			me.pc = pdUnlock
		}
		emit(fmt.Sprint("mark set: ", s.mark[src]))
	case pdCount:
		s.count++
		me.pc = pdMark
		emit("count")
	case pdMark:
		s.mark[src], me.pc = true, pdPush
		emit("mark")
	case pdPush:
		if !s.full {
			s.full, s.hint, me.pc = true, src, pdUnlock
			emit("push")
			s.full, s.hint = false, 0
		}
		me.pc = pdFlag
		if m.flagDown {
			me.pc = pdUnlock
		}
		emit("push fails")
	case pdFlag:
		s.flag, me.pc = true, pdUnlock
		emit("raise the flag")
	case pdUnlock:
		s.locked[src] = false
		s.recorded[src] = s.load[src]
		me.pc = pdKick
		emit("unlock")
	case pdKick:
		s.kicked = s.kicked || s.waiting
		me.left--
		me.asked, me.pc = false, m.first()
		if me.left == 0 {
			me.pc = pdDone
		}
		emit("kick")
	}
	return out
}

func (m ringModel) drain(s ringState) (out []explore.Move[ringState]) {
	emit := func(text string) { out = append(out, explore.Move[ringState]{Label: text, To: s}) }
	switch s.drainer {
	case drRaise:
		s.waiting, s.drainer = true, drFirst
		emit("somebody waits")
	case drFirst:
		s.seen[s.at] = s.load[s.at]
		text := fmt.Sprintf("source %d has load %d", s.at, s.load[s.at])
		if s.at++; s.at == ringSources {
			s.at, s.drainer = 0, drIdle
		}
		emit(text)
	case drIdle:
		if s.kicked {
			s.kicked, s.drainer, s.owed = false, drFlag, s.recorded
			emit("begin")
		}
	case drFlag:
		s.overflowed = s.flag
		if !m.flagLast {
			s.flag = false
		}
		s.drainer = drPop
		emit(fmt.Sprint("flag: ", s.overflowed))
	case drPop:
		if s.full {
			before := s
			s.full, s.at, s.hint = false, s.hint, 0
			s.drainer = drClear
			if m.readFirst {
				s.drainer = drRead
			}
			emit(fmt.Sprint("pop ", s.at))
			s = before
		}
		s.drainer = drCheck
		emit("pop fails")
	case drClear:
		m.clear(&s)
		text := fmt.Sprint("clear mark ", s.at)
		s.drainer = drRead
		if m.readFirst {
			s.at, s.drainer = 0, drPop
		}
		emit(text)
	case drRead:
		s.seen[s.at] = s.load[s.at]
		text := fmt.Sprintf("source %d has load %d", s.at, s.load[s.at])
		if m.readFirst {
			s.drainer = drClear
		} else {
			s.at, s.drainer = 0, drPop
		}
		emit(text)
	case drCheck:
		s.overflowed = s.overflowed || s.count != 0 && !m.noCount
		s.drainer = drEnd
		if s.overflowed {
			s.at, s.drainer = 0, drForget
		}
		emit(fmt.Sprint("overflow: ", s.overflowed))
	case drForget:
		m.clear(&s)
		text := fmt.Sprint("clear mark ", s.at)
		if s.at++; s.at == ringSources {
			s.at, s.drainer = 0, drReadAt
		}
		emit(text)
	case drReadAt:
		s.seen[s.at] = s.load[s.at]
		text := fmt.Sprintf("source %d has load %d", s.at, s.load[s.at])
		if s.at++; s.at == ringSources {
			s.at, s.drainer = 0, drEnd
			if m.flagLast {
				s.drainer = drLower
			}
		}
		emit(text)
	case drLower:
		s.flag, s.drainer = false, drEnd
		emit("lower the flag")
	case drEnd:
		s.overflowed, s.owed, s.drainer = false, [ringSources]uint8{}, drIdle
		emit("end")
	}
	return out
}

func (m ringModel) clear(s *ringState) {
	if s.mark[s.at] {
		s.mark[s.at] = false
		s.count--
	}
}

func (m ringModel) check(s ringState, terminal bool) error {
	for src := range ringSources {
		switch {
		case terminal && s.seen[src] != s.load[src]:
			return fmt.Errorf("%w: source %d is at %d, seen %d", errLost, src, s.load[src], s.seen[src])
		case s.drainer == drEnd && s.seen[src] < s.owed[src] && !m.late:
			return fmt.Errorf("%w in a drain that began after it was recorded: source %d", errLost, src)
		}
	}
	if terminal {
		for i := range s.producers {
			if s.producers[i].pc != pdDone {
				return fmt.Errorf("producer %d is stuck", i)
			}
		}
	}
	return nil
}

var oneSource, twoSources = [ringProducers]uint8{0, 0}, [ringProducers]uint8{0, 1}

func TestModelOfTheRingLosesNothing(t *testing.T) {
	t.Parallel()
	changes := uint8(2)
	if testing.Short() {
		changes = 1
	}
	for name, m := range map[string]ringModel{
		"one source":  {changes: changes, source: oneSource},
		"two sources": {changes: changes, source: twoSources},
		// The count of marks alone would do, as a failed push leaves its mark set:
		// the flag spares nothing but the doubt.
		"without the flag": {changes: changes, source: twoSources, flagDown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, err := explore.All(m.start(), m.moves, m.check)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states", states)
		})
	}
}

func TestModelOfTheRingFindsEachWrongOrder(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]ringModel{
		"mark cleared after the load is read":      {changes: 2, source: oneSource, readFirst: true, late: true},
		"failed push that leaves the flag down":    {changes: 1, source: twoSources, flagDown: true, noCount: true, late: true},
		"flag read first and cleared last":         {changes: 2, source: twoSources, flagLast: true, noCount: true, late: true},
		"hints recorded only while somebody waits": {changes: 1, source: twoSources, onlyWaiting: true, late: true},
		"a failed pop taken for an empty ring":     {changes: 1, source: oneSource, noCount: true, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, err := explore.All(m.start(), m.moves, m.check)
			if !errors.Is(err, errLost) {
				t.Fatalf("not found in %d states: %v", states, err)
			}
			t.Log(err)
		})
	}
}
