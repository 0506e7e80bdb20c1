package protocol

import (
	"fmt"
	"maps"
	"time"
)

// world is some replicas with a network between them that a test moves: each message
// is encoded and decoded on its way.
type world struct {
	now      time.Duration
	replicas []*replica
	flying   []flight
	started  uint64
}

type flight struct {
	to   int
	wire []byte
}

// replica is a core, the load that it causes in truth, and what it holds of others as
// its effects said.
type replica struct {
	core    *Core
	name    string
	truth   map[Rank]Load
	untold  map[Rank]struct{}
	columns map[uint32]map[Rank]Load
	dead    bool
}

func newWorld(n int) *world {
	w := &world{}
	for i := range n {
		w.replicas = append(w.replicas, &replica{name: string(rune('A' + i))})
		w.start(i)
	}
	return w
}

// start starts a replica, again if it was there.
func (w *world) start(i int) {
	w.started++
	r := w.replicas[i]
	r.core = New(Config{Name: r.name, Incarnation: w.started})
	r.truth, r.untold, r.columns, r.dead = map[Rank]Load{}, map[Rank]struct{}{}, map[uint32]map[Rank]Load{}, false
	w.did(i, r.core.Start(w.now))
}

func (w *world) did(i int, out Output) {
	r := w.replicas[i]
	for _, m := range out.Send {
		for to, other := range w.replicas {
			if to != i && (m.To == "" || m.To == other.name) {
				w.flying = append(w.flying, flight{to, m.Append(nil)})
			}
		}
	}
	for _, e := range out.Effects {
		if e.Drop {
			delete(r.columns, e.Peer)
			continue
		}
		column := r.columns[e.Peer]
		if column == nil {
			column = map[Rank]Load{}
			r.columns[e.Peer] = column
		}
		for _, l := range e.Loads {
			if was, found := column[l.Rank]; found && l.Version <= was.Version {
				panic(fmt.Sprintf("%s takes older news: %+v after %+v", r.name, l, was))
			}
			column[l.Rank] = l
		}
	}
	if out.Collect {
		var loads []Load
		for rank := range r.untold {
			l := r.truth[rank]
			l.Rank = rank
			loads = append(loads, l)
		}
		clear(r.untold)
		w.did(i, r.core.Loads(w.now, loads, false))
	}
}

// set sets what a replica causes on a rank.
func (w *world) set(i int, rank Rank, prefill int64) {
	r := w.replicas[i]
	if r.truth[rank] = (Load{Rank: rank, Prefill: prefill, Requests: min(prefill, 1)}); prefill == 0 {
		delete(r.truth, rank)
	}
	r.untold[rank] = struct{}{}
	r.core.Changed()
}

func (w *world) tick(i int) {
	if r := w.replicas[i]; !r.dead {
		w.did(i, r.core.Tick(w.now))
	}
}

func (w *world) take(at int) flight {
	f := w.flying[at]
	w.flying = append(w.flying[:at:at], w.flying[at+1:]...)
	return f
}

func (w *world) deliver(f flight) {
	r := w.replicas[f.to]
	if r.dead {
		return
	}
	m, err := Decode(f.wire)
	if err != nil {
		panic(err)
	}
	w.did(f.to, r.core.Receive(w.now, &m))
}

// rest lets everything arrive for a time, in steps of a millisecond.
func (w *world) rest(d time.Duration) { w.restBy(d, time.Millisecond) }

func (w *world) restBy(d, step time.Duration) {
	for end := w.now + d; w.now < end; w.now += step {
		for i := range w.replicas {
			w.tick(i)
		}
		for len(w.flying) > 0 {
			w.deliver(w.take(0))
		}
	}
}

// differs says where what one replica holds differs from what the others cause.
func (w *world) differs() error {
	for i, r := range w.replicas {
		if r.dead {
			continue
		}
		held := map[string]map[Rank]Load{}
		for _, p := range r.core.Stats(w.now).Peers {
			column := map[Rank]Load{}
			for rank, l := range r.columns[p.Peer] {
				if l.Version = 0; !l.zero() {
					column[rank] = l
				}
			}
			held[p.Name] = column
		}
		if len(r.columns) > len(held) {
			return fmt.Errorf("%s keeps the column of a peer that is gone", r.name)
		}
		for j, other := range w.replicas {
			if want := other.truth; j != i && !other.dead && !maps.Equal(held[other.name], want) {
				return fmt.Errorf("%s holds %v of %s, which causes %v", r.name, held[other.name], other.name, want)
			}
			if _, found := held[other.name]; found && other.dead {
				return fmt.Errorf("%s holds the dead %s", r.name, other.name)
			}
		}
	}
	return nil
}
