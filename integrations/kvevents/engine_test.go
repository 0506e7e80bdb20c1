package kvevents_test

import (
	"math/rand/v2"
	"slices"
)

// engine is a cache that tells what becomes of it, and knows the truth: the model that
// the index is held against. Its names are random, as a process draws them.
type engine struct {
	rand  *rand.Rand
	size  int // tokens of a block
	form  int // how it writes events and names
	cap   int
	lru   bool           // what was not used for longest goes, ends of prompts first; else anything
	names map[string]any // by the tokens up to the block's end
	held  map[string]int // copies
	list  []string       // what is held, for random choice
}

func newEngine(seed uint64, size, form, most int) *engine {
	return &engine{
		rand: rand.New(rand.NewPCG(seed, 7)), size: size, form: form, cap: most,
		names: make(map[string]any), held: make(map[string]int),
	}
}

func key(prompt []uint32) string {
	b := make([]byte, 0, 2*len(prompt))
	for _, token := range prompt {
		b = append(b, byte(token), byte(token>>8))
	}
	return string(b)
}

// name returns what the engine calls the block that ends this prompt.
func (e *engine) name(prompt []uint32) any {
	k := key(prompt)
	if e.names[k] == nil {
		switch e.form % 3 {
		case 0:
			e.names[k] = e.rand.Uint64()
		case 1:
			e.names[k] = int64(e.rand.Uint64())
		default:
			b := make([]byte, 32)
			for i := range b {
				b[i] = byte(e.rand.Uint32())
			}
			e.names[k] = b
		}
	}
	return e.names[k]
}

// run computes a prompt: it stores what is not held, after dropping what is in the way,
// and returns the events.
func (e *engine) run(prompt []uint32) (events []any) {
	if e.lru {
		defer e.touch(prompt)
		e.touch(prompt)
	}
	for n := e.size; n <= len(prompt); n += e.size {
		k := key(prompt[:n])
		if e.held[k] > 0 && (e.lru || e.rand.IntN(8) > 0) {
			continue // now and then another copy
		}
		if len(e.list) >= e.cap {
			events = append(events, e.drop())
		}
		var parent any
		if n > e.size {
			if e.held[key(prompt[:n-e.size])] == 0 {
				return events // its parent was just dropped
			}
			parent = e.name(prompt[:n-e.size])
		}
		e.held[k]++
		if e.held[k] == 1 {
			e.list = append(e.list, k)
		}
		toks := make(array, e.size)
		for i, token := range prompt[n-e.size : n] {
			toks[i] = token
		}
		hashes := array{e.name(prompt[:n])}
		if e.form%2 == 0 {
			events = append(events, storedMap(parent, hashes, toks, e.size))
		} else {
			events = append(events, array{"BlockStored", hashes, parent, toks, e.size, nil, "GPU"})
		}
	}
	return events
}

// touch makes what is held of the prompt the last to go, its end before its beginning.
func (e *engine) touch(prompt []uint32) {
	for n := len(prompt) / e.size * e.size; n > 0; n -= e.size {
		if i := slices.Index(e.list, key(prompt[:n])); i >= 0 {
			k := e.list[i]
			e.list = append(slices.Delete(e.list, i, i+1), k)
		}
	}
}

// drop drops a copy of a block.
func (e *engine) drop() any {
	i := 0
	if !e.lru {
		i = e.rand.IntN(len(e.list))
	}
	k := e.list[i]
	e.held[k]--
	if e.held[k] == 0 {
		e.list = slices.Delete(e.list, i, i+1)
		delete(e.held, k)
	}
	if e.form%2 == 0 {
		return removedMap(e.names[k])
	}
	return array{"BlockRemoved", array{e.names[k]}, "GPU"}
}

func (e *engine) clear() any {
	e.held, e.list = make(map[string]int), nil
	return array{"AllBlocksCleared"}
}

// overlap is the truth: how many leading tokens of the prompt are held.
func (e *engine) overlap(prompt []uint32) int {
	n := 0
	for n+e.size <= len(prompt) && e.held[key(prompt[:n+e.size])] > 0 {
		n += e.size
	}
	return n
}

// prompts returns random prompts that share beginnings.
func prompts(r *rand.Rand, n, length int) [][]uint32 {
	all := make([][]uint32, n)
	for i := range all {
		all[i] = make([]uint32, length)
		shared := 0
		if i > 0 {
			shared = copy(all[i][:r.IntN(length)], all[r.IntN(i)])
		}
		for j := shared; j < length; j++ {
			all[i][j] = r.Uint32N(60000)
		}
	}
	return all
}
