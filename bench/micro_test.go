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
		"-scenario output -engines none":  `-engines "none": must be among mutex, semaphore, channel, floor, turnstile, actor, actor-direct, actor-index`,
		"-scenario output -trace f":       "-trace: must not be given with -scenario",
		"-quick -modes off -load 1":       "-load: must not be given with -scenario or -quick\n-modes: must not",
		"-quick extra":                    `"extra": flags only`,
		"-ranks 1,2":                      "-ranks 1,2: must be one number without -scenario",
		"-scenario held/nothing":          `-scenario "held/nothing": must be among advisory, `,
		"-scenario held -limit 0s":        "-limit 0s: must be 1ms or above",
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
	require.Equal(t, 25, len(parsed(t, "-quick").specs()), "every row that takes a second")
	require.Equal(t, 25, len(parsed(t, "-quick", "-html", "f").specs()), "a file changes nothing of what runs")
	require.Equal(t, 25+1+28+4+11, len(parsed(t, "-scenario", "all").specs()), "all")
	require.Equal(t, 1, len(parsed(t, "-quick", "-scenario", "http").specs()))
	require.Equal(t, 3, len(parsed(t, "-scenario", "tracked", "-callers", "256").specs()))
	require.Equal(t, 1, len(parsed(t, "-scenario", "tracked,output", "-callers", "256", "-ranks", "2048,4").specs()))
	require.Equal(t, 2, len(parsed(t, "-scenario", "held/leavers,held/due").specs()), "single rows")

	of := func(rounds int, d time.Duration) micro.Settings {
		return micro.Settings{Rounds: rounds, Duration: d, Limit: 10 * time.Second}
	}
	all := of(7, time.Second)
	all.Modest = true
	require.Equal(t, all, parsed(t, "-scenario", "all").settings(false))
	require.Equal(t, of(7, fullSweep), parsed(t, "-scenario", "sweep").settings(true))
	quick := of(5, quickRound)
	quick.Quick = true
	require.Equal(t, quick, parsed(t, "-quick", "-rounds", "5").settings(false))
	require.Equal(t, quickSweep, parsed(t, "-quick", "-scenario", "sweep").settings(true).Duration)
	require.Equal(t, time.Minute, parsed(t, "-quick", "-duration", "1m").settings(true).Duration)
	o, err := parseFlags([]string{"-json", "f", "-html", "g"}, engines, new(bytes.Buffer))
	require.NoError(t, err)
	require.False(t, o.micro.on, "files alone do not change what runs")
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
	require.Regexp(t, `\[#*\.*\] +\d+%  advisory, round 2 of 2, actor-index`, errs, "progress on a terminal")
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
		"output turnstile", "output actor", "output actor-direct", "output actor-index",
		"advisory turnstile", "advisory actor", "advisory actor-direct", "advisory actor-index", "advisory mutex",
	}, got)
	text, err = os.ReadFile(name("html"))
	require.NoError(t, err)
	require.Contains(t, string(text), "</html>")
	text, err = os.ReadFile(name("profile"))
	require.NoError(t, err)
	require.NotEmpty(t, text)
}

func TestMicroInterrupt(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page")
	out, errs := interrupted(t, "output, round 1 of 7, ", engines, "-scenario", "output", "-duration", "30s", "-html", page)
	require.Contains(t, out, "takes     about 18 minutes", "that is said before")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "did not come to its end")
	require.Contains(t, string(text), "</html>")
	require.Contains(t, errs, "interrupted")
	require.Contains(t, out, "output: ")
}
