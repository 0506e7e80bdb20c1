package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/bench/micro"
)

func TestBadMicroFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-scenario nothing":               `-scenario "nothing": must be among advisory, `,
		"-scenario output,output":         `-scenario "output": must be named once`,
		"-scenario output -rounds 0":      "-rounds 0: must be 1 to 1000",
		"-scenario output -duration -1s":  "-duration -1s: must be 0 to 1m",
		"-scenario output -callers x":     `invalid value "x" for flag -callers`,
		"-scenario output -callers 3":     "no row has these callers, ranks and engines",
		"-scenario output -ranks 3":       "no row has these callers, ranks and engines",
		"-scenario output -engines floor": "no row has these callers, ranks and engines",
		"-scenario output -engines none":  `-engines "none": must be among mutex, semaphore, channel, floor, sharded, actor, actor-direct, actor-index`,
		"-scenario output -trace f":       "-trace: must not be given with -scenario",
		"-quick -modes off -load 1":       "-load: must not be given with -scenario or -quick\n-modes: must not",
		"-quick extra":                    `"extra": flags only`,
		"-ranks 1,2":                      "-ranks 1,2: must be one number without -scenario",
	} {
		_, errs, code := bench(context.Background(), t, false, engines, strings.Fields(args)...)
		require.Equal(t, exitUsage, code, args)
		require.Contains(t, errs, want, args)
	}
	_, errs, code := bench(context.Background(), t, false, engines, "-scenario", "")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "-scenario: must name one")
	_, errs, code = bench(context.Background(), t, false, engines, "-quick", "-json", filepath.Join(t.TempDir(), "no", "file"))
	require.Equal(t, exitFault, code)
	require.Contains(t, errs, "no such file")
}

func parsed(t *testing.T, args ...string) *microOptions {
	t.Helper()
	o, err := parseFlags(args, engines, new(bytes.Buffer))
	require.NoError(t, err)
	require.True(t, o.micro.on)
	return &o.micro
}

func TestMicroFlags(t *testing.T) {
	require.Equal(t, 24, len(parsed(t, "-quick").specs()), "every row")
	require.Equal(t, 35, len(parsed(t, "-quick", "-html", "f").specs()), "and those between them, for the pictures")
	require.Equal(t, 25, len(parsed(t, "-scenario", "all").specs()), "with the one that demands nothing")
	require.Equal(t, 1, len(parsed(t, "-quick", "-scenario", "http").specs()))
	require.Equal(t, 2, len(parsed(t, "-scenario", "tracked", "-callers", "256").specs()))
	require.Equal(t, 1, len(parsed(t, "-scenario", "tracked,output", "-callers", "256", "-ranks", "2048,4").specs()))

	require.Equal(t, micro.Settings{Rounds: 5, Duration: time.Second}, parsed(t, "-scenario", "all").settings(false))
	require.Equal(t, micro.Settings{Rounds: 5, Duration: fullSweep}, parsed(t, "-scenario", "all").settings(true))
	require.Equal(t, micro.Settings{Rounds: 7, Duration: quickRound, Quick: true}, parsed(t, "-quick", "-rounds", "7").settings(false))
	require.Equal(t, micro.Settings{Rounds: 5, Duration: quickSweep, Quick: true}, parsed(t, "-quick").settings(true))
	require.Equal(t, micro.Settings{Rounds: 5, Duration: time.Minute}, parsed(t, "-duration", "1m").settings(true))
}

func TestShare(t *testing.T) {
	specs := []micro.Spec{{Weight: 1}, {Weight: 3}}
	require.Equal(t, 10*time.Second, share(specs, 40*time.Second))
	require.Equal(t, 40*time.Second, share(specs[1:], 40*time.Second))
	require.Equal(t, time.Millisecond, share(specs, -time.Second), "late: a round each")
}

func TestMicroRun(t *testing.T) {
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	out, errs, code := bench(context.Background(), t, true, engines, "-scenario", "output,advisory", "-ranks", "16", "-callers", "256",
		"-rounds", "2", "-duration", "5ms", "-json", name("json"), "-html", name("html"), "-cpuprofile", name("profile"))
	require.Zero(t, code, errs)
	require.Contains(t, errs, "advisory, round 2 of 2, actor-index", "progress on a terminal")
	require.Contains(t, out, "fewer than 5 rounds show nothing reliably")
	require.Contains(t, out, "output: one output block on a live booking, callers × ranks: 256 × 16")
	require.Contains(t, out, "advisory 256 × 16: operations/s against actor ")
	require.NotContains(t, out, "FAULT")

	text, err := os.ReadFile(name("json"))
	require.NoError(t, err)
	var got []string
	for line := range strings.Lines(string(text)) {
		var l struct {
			Scenario, Engine string
			Rounds           int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		require.Equal(t, 2, l.Rounds)
		got = append(got, l.Scenario+" "+l.Engine)
	}
	require.Equal(t, []string{
		"output sharded", "output actor", "output actor-direct", "output actor-index",
		"advisory sharded", "advisory actor", "advisory actor-direct", "advisory actor-index", "advisory mutex",
	}, got)
	text, err = os.ReadFile(name("html"))
	require.NoError(t, err)
	require.Contains(t, string(text), "</html>")
	text, err = os.ReadFile(name("profile"))
	require.NoError(t, err)
	require.NotEmpty(t, text)
}

func TestMicroInterrupt(t *testing.T) {
	out, errs := interrupted(t, "output, round 1 of 5, ", engines, "-scenario", "output", "-duration", "30s")
	require.Contains(t, errs, "interrupted")
	require.Contains(t, out, "output: ")
}
