package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

// refuse makes no engine, which is enough to see how scripts are printed.
func refuse(script.Setup) (engine.Engine, error) { return nil, sched.ErrInvalid }

func TestCommandLine(t *testing.T) {
	for _, test := range []struct {
		arguments string
		status    int
		out, err  string
	}{
		{"", exitUsage, "", "Usage: stress COMMAND"},
		{"help", exitOK, "Usage: stress COMMAND", ""},
		{"dance", exitUsage, "", `unknown command "dance"`},
		{"storm -h", exitOK, "", "Usage: stress [storm]"},
		{"-callers x", exitUsage, "", "-callers"},
		{"-callers 0 -engine steam", exitUsage, "", `engine "steam"`},
		{"diff -n 0", exitUsage, "", "-n 0: must be at least 1"},
		{"mutate -h", exitOK, "", "Usage: stress mutate"},
		{"mutate -run (", exitUsage, "", `-run "("`},
		{"storm 5", exitUsage, "", "flags only"},
		{"-ops 20000 -callers 16 -profile mixed", exitOK, "violations   0", ""},
		{"script", exitUsage, "", "Usage: stress script"},
		{"script -h", exitOK, "", "Usage: stress script"},
		{"script -fast x.txt", exitUsage, "", "stress script: flag provided but not defined: -fast\nstress script -h tells its flags.\n"},
		{"script -engine steam x.txt", exitUsage, "", `there is no engine "steam"`},
	} {
		var out, errs bytes.Buffer
		status := run(streams{nil, &out, &errs}, strings.Fields(test.arguments))
		require.Equal(t, test.status, status, test.arguments)
		require.Contains(t, out.String(), test.out)
		require.Contains(t, errs.String(), test.err)
	}
}

func TestPrintScripts(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.txt"), filepath.Join(dir, "bad.txt")
	text := "# Two.\nnew block=0\n----\n%\n\n# Again.\nnew\nno policy\n----\n%\n\n# The end.\n"
	require.NoError(t, os.WriteFile(good, []byte(strings.ReplaceAll(text, "%", "ok")), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("new\n----\n\nloads\n----\n"), 0o600))

	var out, errs bytes.Buffer
	s := streams{strings.NewReader("new\n----\n"), &out, &errs}
	require.Equal(t, exitOK, printScripts(s, refuse, []string{good, "-"}))
	require.Equal(t, strings.ReplaceAll(text, "%", "error: invalid")+"\nnew\n----\nerror: invalid\n", out.String())

	// Without the empty line the second command is taken for the first one's output.
	out.Reset()
	s.in = strings.NewReader("new\n----\nok\nloads\n----\n")
	require.Equal(t, exitOK, printScripts(s, refuse, []string{"-"}))
	require.Contains(t, errs.String(), "warning: <stdin>:1: the output of new holds a line ----")

	out.Reset()
	require.Equal(t, exitFailed, printScripts(s, refuse, []string{filepath.Join(dir, "none.txt"), bad}))
	require.Contains(t, errs.String(), "none.txt")
	require.Contains(t, errs.String(), "bad.txt:4: loads: there is no scheduler yet")
}
