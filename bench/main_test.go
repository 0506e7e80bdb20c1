package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/micro"
	"github.com/seed-3c5df8a4/turnstile/bench/replay"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) {
	if !micro.ServeHTTP() {
		goleak.VerifyTestMain(m)
	}
}

func floor(name string) namedEngine {
	return namedEngine{name, func(setup) (engine.Engine, error) { return replay.NewFloor(), nil }}
}

// bench runs the program and returns what it printed and its exit code.
func bench(ctx context.Context, t *testing.T, terminal bool, engines []namedEngine, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(ctx, args, engines, &out, &errs, terminal)
	return out.String(), errs.String(), code
}

func TestBadFlags(t *testing.T) {
	two := []namedEngine{floor("a"), floor("b")}
	trace := writeTrace(t, `{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": []}`)
	for args, want := range map[string]string{
		"-engines c":                       `-engines "c": must be among a, b`,
		"-engines a,a":                     `-engines "a": must be named once`,
		"-engines a,":                      `-engines "": must be among a, b`,
		"-modes of":                        `-modes "of": must be among off, on, mixed`,
		"-workers 0":                       "-workers 0: must be 1 to 4096",
		"-workers x":                       `invalid value "x" for flag -workers`,
		"-ranks -1":                        "-ranks -1: must be 1 to 1024",
		"-workers 4096 -ranks 1024":        "workers times ranks is at most 16384",
		"-requests -1":                     "-requests -1: must be 0 to 1000000",
		"-seed -1":                         `invalid value "-1" for flag -seed`,
		"-speed -1":                        "-speed -1: must be 0 or above",
		"-speed nan":                       "-speed NaN: must be 0 or above, and finite",
		"-speed inf":                       "-speed +Inf: must be 0 or above, and finite",
		"-load 0":                          "-load 0: must be 0.01 to 10",
		"-load 1 -prefill-rate 5":          "-load: must not be given with -prefill-rate",
		"-prefill-rate 0.5":                "-prefill-rate 0.5: must be 0, or 1 or above",
		"-decode-rate 0":                   "-decode-rate 0: must be 0.01 or above",
		"-decode-slots 0":                  "-decode-slots 0: must be 1 or above",
		"-kv-blocks -1":                    "-kv-blocks -1: must be 0 or above",
		"-block -1":                        "-block -1: must be 0 to 1048576",
		"-max-overlaps -1":                 "-max-overlaps -1: must be 0 or above",
		"-threshold -1":                    "-threshold -1: must be 0 or above",
		"-skip-bad":                        "-skip-bad: must be given with -trace only",
		"-sort":                            "-sort: must be given with -trace only",
		"-trace=":                          "-trace: must name a file",
		"-rounds 3":                        "-rounds: must be given with -scenario or -quick",
		"-simulate -verdict=false":         "-verdict: must not be given with -simulate",
		"-unknown":                         "flag provided but not defined: -unknown",
		"file":                             `"file": flags only`,
		"-block 64 -trace " + trace:        "-block 64: must be 512 with a Mooncake JSONL trace",
		"-workers 0 -decode-slots 0 -sort": "-decode-slots 0",
	} {
		t.Run(args, func(t *testing.T) {
			out, errs, code := bench(context.Background(), t, false, two, strings.Fields(args)...)
			require.Equal(t, exitUsage, code)
			require.Contains(t, errs, want)
			require.Empty(t, out)
		})
	}
	_, errs, code := bench(context.Background(), t, false, two, "-h")
	require.Zero(t, code)
	require.Contains(t, errs, "-max-overlaps")
	_, errs, code = bench(context.Background(), t, false, nil)
	require.Equal(t, exitFault, code)
	require.Contains(t, errs, "no engine")
}

func TestSmallComparison(t *testing.T) {
	out, errs, code := bench(context.Background(), t, false, []namedEngine{floor("one"), floor("two")},
		"-requests", "300", "-speed", "50", "-modes", "off,mixed", "-verdict=false")
	require.Zero(t, code)
	require.Empty(t, errs, "no progress where there is no terminal")
	require.Contains(t, out, "synthetic chat, seed 1: 300 requests")
	require.Contains(t, out, "speed     50 simulated seconds per second:")
	require.Contains(t, out, "harness   the replay alone")
	require.Regexp(t, regexp.MustCompile(`(?m)^mode off +one +two$`), out)
	require.Regexp(t, regexp.MustCompile(`(?m)^mode mixed +one +two$`), out)
	require.NotContains(t, out, "mode on ")
	require.Equal(t, 2, strings.Count(out, "completed "))
	require.Regexp(t, regexp.MustCompile(`(?m)^completed +300/300 +300/300$`), out)
	require.Regexp(t, regexp.MustCompile(`(?m)^leftovers \(must be 0\) +0 +0$`), out)
	require.NotContains(t, out, "FAULT")
}

// TestVerdict: the closed loops come first, and both are in the files.
func TestVerdict(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as it says")
	}
	dir := t.TempDir()
	html, lines := filepath.Join(dir, "html"), filepath.Join(dir, "json")
	out, errs, code := bench(context.Background(), t, true, engines, "-requests", "100", "-speed", "50", "-harness=false", "-html", html, "-json", lines)
	require.Zero(t, code, errs)
	require.Regexp(t, regexp.MustCompile(`(?m)^ +turnstile +× actor +× actor-direct$`), out)
	for _, v := range verdicts {
		require.Contains(t, out, "\n"+v.what+"  ")
		require.Contains(t, out, "\n"+v.scenario+": ")
	}
	require.Less(t, strings.Index(out, verdicts[2].what), strings.Index(out, "advisory: "), "the verdict stands above the tables")
	require.Less(t, strings.Index(out, "saturated: "), strings.Index(out, "mode off "))
	require.NotContains(t, out, "mode on ")
	require.Contains(t, errs, "] ", "a bar on a terminal")
	page, err := os.ReadFile(html)
	require.NoError(t, err)
	for _, want := range []string{"Replay: do all serve alike?", verdicts[0].what, "100/100", "</html>"} {
		require.Contains(t, string(page), want)
	}
	require.NotContains(t, string(page), "did not come to its end")
	text, err := os.ReadFile(lines)
	require.NoError(t, err)
	require.Equal(t, 9, strings.Count(string(text), "\n"), "three loops of three engines")
}

// TestVerdictOnFew: with other engines there are no loops.
func TestVerdictOnFew(t *testing.T) {
	require.Empty(t, newVerdict([]string{"floor"}).specs)
	v := newVerdict([]string{micro.Turnstile, micro.Actor})
	require.Len(t, v.specs, len(verdicts))
	require.Positive(t, v.seconds())
	require.Less(t, v.seconds(), 30.0)
	var out bytes.Buffer
	require.NoError(t, (&verdict{}).write(&out))
	require.Empty(t, out.String())
	require.Equal(t, "a b", wrap("a  b"))
	require.Equal(t, strings.Repeat("x", 119)+"\ny", wrap(strings.Repeat("x", 119)+" y"))
}

// TestSetupOfModes: each engine gets the block size, the index flag and the
// mode's policy.
func TestSetupOfModes(t *testing.T) {
	var got []setup
	spy := namedEngine{"spy", func(s setup) (engine.Engine, error) {
		got = append(got, s)
		return replay.NewFloor(), nil
	}}
	_, _, code := bench(context.Background(), t, false, []namedEngine{spy},
		"-requests", "20", "-speed", "50", "-block", "32", "-threshold", "77", "-actor-index=false", "-harness=false",
		"-modes", "off,on,mixed", "-verdict=false")
	require.Zero(t, code)
	require.Len(t, got, 3)
	for i, s := range got {
		require.Equal(t, int64(32), s.BlockSize)
		require.False(t, s.ActorIndex)
		require.Equal(t, i > 0, strings.Contains(string(s.PolicyYAML), "prefill_busy_threshold: 77"))
	}
	require.Empty(t, got[0].PolicyYAML)
	require.Contains(t, string(got[2].PolicyYAML), "{name: live, quantum: 4096, request_queue_limit_per_worker: 0}")
}

// TestModesOnEngines: each engine takes each mode's policy, schedules all and
// keeps nothing.
func TestModesOnEngines(t *testing.T) {
	out, _, code := bench(context.Background(), t, false, engines, "-requests", "400", "-speed", "40", "-harness=false",
		"-modes", "off,on,mixed", "-verdict=false")
	require.Zero(t, code, out)
	require.NotContains(t, out, "FAULT")
	require.Equal(t, len(modes)*len(engines), strings.Count(out, "400/400"))
}

func writeTrace(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestTraces(t *testing.T) {
	good := `{"timestamp": 0, "input_length": 600, "output_length": 20, "hash_ids": [1, 2]}` + "\n"
	bad := `{"timestamp": 0, "input_length": -600, "output_length": 20, "hash_ids": [1, 2]}` + "\n"
	one := []namedEngine{floor("one")}
	args := func(path string, more ...string) []string {
		return append([]string{"-trace", path, "-speed", "100", "-verdict=false", "-harness=false"}, more...)
	}

	out, _, code := bench(context.Background(), t, false, one, args(writeTrace(t, good+good))...)
	require.Zero(t, code)
	require.Contains(t, out, "(Mooncake JSONL): 2 requests over 0.0 s, mean input 600")
	require.Contains(t, out, "2048 KV blocks of 512 tokens")
	require.Contains(t, out, "2/2")

	path := writeTrace(t, good+bad+good)
	out, errs, code := bench(context.Background(), t, false, one, args(path)...)
	require.Equal(t, exitFault, code)
	require.Empty(t, out)
	require.Equal(t, "bench: "+path+":2: input_length -600 is negative\n", errs)

	out, _, code = bench(context.Background(), t, false, one, args(path, "-skip-bad")...)
	require.Zero(t, code)
	require.Contains(t, out, "bad lines passed over: 1\n  "+path+":2: input_length -600 is negative\n")
	require.Contains(t, out, "2/2")

	out, _, code = bench(context.Background(), t, false, one, args(path, "-requests", "1")...)
	require.Zero(t, code, "what is not asked for is not read")
	require.Contains(t, out, "1/1")

	csv := "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:47,374,44\r\n2023-11-16 18:15:46,396,109\r\n"
	out, _, code = bench(context.Background(), t, false, one, args(writeTrace(t, csv), "-sort", "-block", "16")...)
	require.Zero(t, code)
	require.Contains(t, out, "(Azure LLM CSV): 2 requests over 1.0 s")
	require.Contains(t, out, "blocks of 16 tokens")

	_, errs, code = bench(context.Background(), t, false, one, args(filepath.Join(t.TempDir(), "missing"))...)
	require.Equal(t, exitFault, code)
	require.Contains(t, errs, "no such file")
}

func TestFaultsAreTold(t *testing.T) {
	broken := namedEngine{"broken", func(setup) (engine.Engine, error) { return nil, errors.New("does not start") }}
	leaky := namedEngine{"leaky", func(setup) (engine.Engine, error) { return &leaky{replay.NewFloor()}, nil }}
	out, errs, code := bench(context.Background(), t, false, []namedEngine{broken, leaky},
		"-requests", "50", "-speed", "50", "-verdict=false")
	require.Equal(t, exitFault, code)
	require.Contains(t, out, "FAULT     broken, mode off: does not start\n")
	require.Contains(t, out, "FAULT     leaky, mode off: 1 requests unscheduled, the first error: turnstile: queue-full\n")
	require.Contains(t, out, "FAULT     leaky, mode off: left over: 0 waiting, 49 bookings, ")
	require.Regexp(t, regexp.MustCompile(`(?m)^unscheduled \(must be 0\) +- +1$`), out)
	require.Contains(t, errs, "3 faults")
}

// leaky refuses one request and never lets go of a booking.
type leaky struct{ *replay.Floor }

func (l *leaky) Schedule(ctx context.Context, r *sched.Request) (engine.Booking, error) {
	if r.ID == "r7" {
		return nil, &sched.Error{Code: sched.ErrQueueFull}
	}
	b, err := l.Floor.Schedule(ctx, r)
	return leakyBooking{b}, err
}

type leakyBooking struct{ engine.Booking }

func (leakyBooking) Release() error { return nil }

// until cancels once what it is told contains a text.
type until struct {
	bytes.Buffer
	text   string
	cancel context.CancelFunc
}

// Write implements io.Writer.
func (u *until) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if strings.Contains(u.String(), u.text) {
		u.cancel()
	}
	return n, err
}

// interrupted runs the program on a terminal until that shows a text.
func interrupted(t *testing.T, text string, engines []namedEngine, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out bytes.Buffer
	errs := until{text: text, cancel: cancel}
	require.Equal(t, exitInterrupted, run(ctx, args, engines, &out, &errs, true))
	require.NotContains(t, out.String(), "FAULT")
	return out.String(), errs.String()
}

func TestInterrupt(t *testing.T) {
	out, errs := interrupted(t, "%  one, mode off: ", []namedEngine{floor("one"), floor("two")}, "-speed", "1", "-harness=false", "-verdict=false")
	require.Regexp(t, regexp.MustCompile(`(?m)^completed +\d+/7000 \(cut short\) +-$`), out)
	require.Contains(t, errs, "interrupted")
}

func TestABusyMachineIsTold(t *testing.T) {
	for _, test := range []struct {
		late float64
		told bool
	}{{0, false}, {0.05, false}, {0.31, true}} {
		c := comparison{table: report.NewTable([]string{"off"}, []string{"turnstile"}), late: test.late}
		var out bytes.Buffer
		require.NoError(t, c.write(&out))
		require.Equal(t, test.told, strings.Contains(out.String(), "the replay alone was late 31 % of the time"))
	}
}
