package main

import (
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/stress/engines"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

// TestReplicaScripts runs the scripts with several schedulers that tell each other
// what load they cause.
func TestReplicaScripts(t *testing.T) {
	e, found := engines.Lookup(engines.Sharded)
	require.True(t, found)
	for _, path := range findScripts(t, "testdata/replicas") {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			r := script.NewReplicas(e.New)
			defer func() { require.NoError(t, r.Close()) }()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				output, err := r.Run(d)
				require.NoError(t, err)
				return output
			})
		})
	}
}

func TestReplicaScriptsThatAreWrong(t *testing.T) {
	t.Parallel()
	e, _ := engines.Lookup(engines.Sharded)
	model, _ := engines.Lookup(engines.Model)
	args := func(names ...string) (args []datadriven.CmdArg) {
		for _, name := range names {
			args = append(args, datadriven.CmdArg{Key: name})
		}
		return args
	}
	names := []datadriven.CmdArg{{Key: "names", Vals: []string{"A", "B"}}}
	r := script.NewReplicas(e.New)
	defer func() { require.NoError(t, r.Close()) }()
	for _, c := range []struct {
		want string
		d    datadriven.TestData
	}{
		{"begin with replicas", datadriven.TestData{Cmd: "heal"}},
		{"names is missing", datadriven.TestData{Cmd: "replicas"}},
		{"", datadriven.TestData{Cmd: "replicas", CmdArgs: names}},
		{"no replica C", datadriven.TestData{Cmd: "freeze", CmdArgs: args("C")}},
		{"no replica C", datadriven.TestData{Cmd: "at", CmdArgs: args("C", "loads")}},
		{"is for all", datadriven.TestData{Cmd: "at", CmdArgs: args("A", "advance")}},
		{"a name and a command", datadriven.TestData{Cmd: "at", CmdArgs: args("A")}},
		{"two replicas", datadriven.TestData{Cmd: "cut", CmdArgs: args("A")}},
		{"one replica", datadriven.TestData{Cmd: "kill"}},
		{"unknown argument A", datadriven.TestData{Cmd: "heal", CmdArgs: args("A")}},
		{"unknown command", datadriven.TestData{Cmd: "sing"}},
		{"input lines", datadriven.TestData{Cmd: "heal", Input: "x"}},
		{"needs by", datadriven.TestData{Cmd: "advance"}},
	} {
		if _, err := r.Run(&c.d); c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
	_, err := script.NewReplicas(model.New).Run(&datadriven.TestData{Cmd: "replicas", CmdArgs: names})
	require.ErrorContains(t, err, "has no peers")
}
