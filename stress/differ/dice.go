package differ

import "pgregory.net/rapid"

// dice makes the choices of a script.
type dice struct{ t *rapid.T }

// n returns a number below a bound, each about as likely as the other. rapid's own
// ranges prefer small numbers, which would make some commands rare; mixing a wide
// number keeps 0, to which rapid shrinks.
func (d dice) n(below int) int {
	x := rapid.Uint64().Draw(d.t, "n")
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return int(x % uint64(below))
}

// chance is true in so many of 100 cases.
func (d dice) chance(percent int) bool { return d.n(100) >= 100-percent }

// between returns a number in [low, high].
func (d dice) between(low, high int) int { return low + d.n(high-low+1) }

// pick returns one of several values.
func pick[T any](d dice, of ...T) T { return of[d.n(len(of))] }

// some returns each value with so many of 100 chances.
func some[T any](d dice, percent int, of ...T) []T {
	var out []T
	for _, v := range of {
		if d.chance(percent) {
			out = append(out, v)
		}
	}
	return out
}

// weighted is one choice among others and how often it is made.
type weighted struct {
	weight int
	do     func()
}

// choose does one of several things.
func (d dice) choose(things []weighted) {
	total := 0
	for _, t := range things {
		total += t.weight
	}
	at := d.n(total)
	for _, t := range things {
		if at -= t.weight; at < 0 {
			t.do()
			return
		}
	}
}
