package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadReplicasFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-replicas 1":               "-replicas 1: must be 2 to 16",
		"-replicas 17":              "-replicas 17: must be 2 to 16",
		"-replicas 2 -seed 3":       "-seed: must not be given with -replicas",
		"-replicas 2 -html x trace": "flags only",
	} {
		_, err := parseFlags(strings.Fields(args), engines, io.Discard)
		require.ErrorContains(t, err, want)
	}
	o, err := parseFlags([]string{"-replicas", "4"}, engines, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 4, o.replicas)
}
