package journal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched/internal/journal"
)

// A decision whose last step is still to come holds up those made after it.
func TestDecisionsComeInOrder(t *testing.T) {
	t.Parallel()
	var heard []string
	j := journal.New(func(d string) { heard = append(heard, d) }, nil)
	first, dropped := j.Reserve("first"), j.Reserve("dropped")
	j.Add("last")
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() {}, nil},
		{dropped.Drop, nil},
		{func() { first.KeepWith(func(d *string) { *d += ", complete" }) }, []string{"first, complete", "last"}},
		{first.Drop, []string{"first, complete", "last"}},
	} {
		step.do()
		j.Flush()
		require.Equal(t, step.want, heard)
	}
	require.True(t, j.Quiet())
}

// A hook that panics is called with the next decision all the same.
func TestHookThatPanics(t *testing.T) {
	t.Parallel()
	var heard []int
	var panics []any
	j := journal.New(func(d int) {
		heard = append(heard, d)
		if d == 1 {
			panic("one")
		}
	}, func(p any) { panics = append(panics, p) })
	for d := range 3 {
		j.Add(d)
	}
	require.False(t, j.Quiet())
	j.Flush()
	require.True(t, j.Quiet())
	require.Equal(t, []int{0, 1, 2}, heard)
	require.Equal(t, []any{"one"}, panics)
}

// Nothing is journalled where there is no hook.
func TestNilJournal(t *testing.T) {
	t.Parallel()
	var j *journal.Journal[int]
	j.Add(1)
	slot := j.Reserve(2)
	slot.Keep()
	slot.KeepWith(func(*int) { t.Error("there is no decision") })
	slot.Drop()
	j.Flush()
	require.True(t, j.Quiet())
}
