package script

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// args reads the arguments of one command strictly. It keeps the first fault,
// so that callers read everything and ask once.
type args struct {
	list []datadriven.CmdArg
	used map[string]bool
	err  error
	// invalid is set by a number that is well written and fits no field, such
	// as a negative rank: the script is fine, the value is refused.
	invalid bool
}

func newArgs(list []datadriven.CmdArg) *args {
	a := &args{list: list, used: make(map[string]bool, len(list))}
	seen := make(map[string]bool, len(list))
	for _, arg := range list {
		if seen[arg.Key] && arg.Key != "inc" { // of incarnations the last one named counts
			a.fail("argument %s is given twice", arg.Key)
		}
		seen[arg.Key] = true
	}
	return a
}

func (a *args) fail(format string, v ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, v...)
	}
}

// done returns the first fault, an unknown argument included.
func (a *args) done() error {
	for _, arg := range a.list {
		if !a.used[arg.Key] {
			a.fail("unknown argument %s", arg.Key)
		}
	}
	return a.err
}

func (a *args) find(key string) (datadriven.CmdArg, bool) {
	a.used[key] = true
	for _, arg := range slices.Backward(a.list) {
		if arg.Key == key {
			return arg, true
		}
	}
	return datadriven.CmdArg{}, false
}

func (a *args) flag(key string) bool {
	arg, ok := a.find(key)
	if ok && len(arg.Vals) > 0 {
		a.fail("argument %s takes no value", key)
	}
	return ok
}

func (a *args) text(key string) (string, bool) {
	arg, ok := a.find(key)
	if !ok {
		return "", false
	}
	if len(arg.Vals) != 1 {
		a.fail("argument %s needs one value", key)
		return "", false
	}
	return arg.Vals[0], true
}

// id returns the required, non-empty argument id.
func (a *args) id() string {
	id, ok := a.text("id")
	if !ok || id == "" {
		a.fail("argument id is missing")
	}
	return id
}

// values returns a list; () is the empty one, which is not nil.
func (a *args) values(key string) ([]string, bool) {
	arg, ok := a.find(key)
	if !ok {
		return nil, false
	}
	if len(arg.Vals) == 0 {
		a.fail("argument %s needs a list", key)
		return nil, false
	}
	list := []string{}
	if len(arg.Vals) == 1 && strings.TrimSpace(arg.Vals[0]) == "" {
		return list, true
	}
	for _, v := range arg.Vals {
		v = strings.TrimSpace(v)
		if v == "" {
			a.fail("argument %s has an empty value", key)
		}
		list = append(list, v)
	}
	return list, true
}

// outOfRange reports whether s is a whole number, and notes then that no field
// can hold it.
func (a *args) outOfRange(s string) bool {
	_, ok := new(big.Int).SetString(s, 10)
	a.invalid = a.invalid || ok
	return ok
}

func (a *args) parseUint(key, s string, bits int) uint64 {
	v, err := strconv.ParseUint(s, 10, bits)
	if err != nil && !a.outOfRange(s) {
		a.fail("argument %s: %q is not a number", key, s)
	}
	return v
}

func (a *args) parseFloat(key, s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	// Beyond the range the value is infinite, and refused as such.
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		a.fail("argument %s: %q is not a number", key, s)
	}
	return v
}

func (a *args) parseRank(key, s string) sched.RankID {
	worker, rank, ok := strings.Cut(s, "/")
	if !ok {
		a.fail("argument %s: %q is not worker/rank", key, s)
		return sched.RankID{}
	}
	return sched.RankID{Worker: a.parseUint(key, worker, 64), Rank: uint32(a.parseUint(key, rank, 32))}
}

func (a *args) int(key string, def int64) int64 {
	s, ok := a.text(key)
	if !ok {
		return def
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil && !a.outOfRange(s) {
		a.fail("argument %s: %q is not a number", key, s)
	}
	return v
}

func (a *args) uint32(key string, def uint32) uint32 {
	s, ok := a.text(key)
	if !ok {
		return def
	}
	return uint32(a.parseUint(key, s, 32))
}

// workerID returns the required argument id as a number.
func (a *args) workerID() uint64 {
	return a.parseUint("id", a.id(), 64)
}

func (a *args) uints(key string) []uint64 {
	list, ok := a.values(key)
	if !ok {
		return nil
	}
	out := make([]uint64, len(list))
	for i, s := range list {
		out[i] = a.parseUint(key, s, 64)
	}
	return out
}

func (a *args) float(key string, def float64) float64 {
	s, ok := a.text(key)
	if !ok {
		return def
	}
	return a.parseFloat(key, s)
}

func (a *args) duration(key string) (time.Duration, bool) {
	s, ok := a.text(key)
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		a.fail("argument %s: %q is not a time such as 2.5s", key, s)
		return 0, false
	}
	return d, true
}

func (a *args) rank(key string) (sched.RankID, bool) {
	s, ok := a.text(key)
	if !ok {
		return sched.RankID{}, false
	}
	return a.parseRank(key, s), true
}

// pairs calls f with each NAME:NUMBER of a list.
func (a *args) pairs(key string, f func(name string, v float64)) {
	list, _ := a.values(key)
	for _, s := range list {
		i := strings.LastIndexByte(s, ':')
		if i <= 0 {
			a.fail("argument %s: %q is not name:number", key, s)
			return
		}
		f(s[:i], a.parseFloat(key, s[i+1:]))
	}
}
