package text_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched/internal/text"
)

func TestDecimal(t *testing.T) {
	t.Parallel()
	for want, x := range map[string]float64{
		"0": 0, "1": 1, "-1": -1, "1.5": 1.5, "0.123": 0.12345, "1234567.89": 1234567.891, "-0.25": -0.25, "100": 99.999,
	} {
		require.Equal(t, want, text.Decimal(x))
	}
	require.Equal(t, "-7", text.Number(-7))
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	text.Table{
		{"", "name", "count", "empty", "last"},
		{"→", "über", "1", "", "x"},
		{"", "b", "100", "", ""},
	}.Write(&b, "", "name", "last")
	require.Equal(t, ""+
		"   name  count  last\n"+
		"→  über      1  x\n"+
		"   b       100\n", b.String())
}
