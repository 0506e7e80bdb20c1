package script_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestRunner(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		r := script.New(newFake)
		defer func() { require.NoError(t, r.Close()) }()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			output, err := r.Run(d)
			require.NoError(t, err)
			return output
		})
	})
}

func TestParseAgreesWithDatadriven(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	wide := filepath.Join(t.TempDir(), "wide.txt")
	require.NoError(t, os.WriteFile(wide, []byte("subtest one\n\n  # indented\nnew \\\n  block=4 \\\n  ttl=1s\n  a\n\n  b\n----\n----\nx\n\ny\n----\n----\n\nsubtest end\n\nloads\n----\n"), 0o600))
	for _, path := range append(paths, wide) {
		var want []datadriven.TestData
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			want = append(want, *d)
			return d.Expected
		})
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		f, err := script.Parse(path, strings.NewReader(string(text)))
		require.NoError(t, err)
		var got []datadriven.TestData
		for _, s := range f.Steps {
			s.Data.Rewrite = want[len(got)].Rewrite
			got = append(got, s.Data)
		}
		require.Equal(t, want, got, path)
	}
}

// run runs a script and returns the output of its last command.
func run(t *testing.T, factory script.Factory, text string) (output string, err error) {
	t.Helper()
	f, err := script.Parse("s.txt", strings.NewReader(text))
	if err != nil {
		return "", err
	}
	r := script.New(factory)
	r.SetTimeout(patience)
	defer func() { _ = r.Close() }()
	for i := range f.Steps {
		if output, err = r.Run(&f.Steps[i].Data); err != nil {
			return "", err
		}
	}
	return output, nil
}

func TestMalformed(t *testing.T) {
	const begin = "new\n----\n\n"
	for _, test := range []struct{ text, want string }{
		{"new\n----\n\nnew a=(\n----\n", "s.txt:4: cannot parse directive"},
		{"new\nloads\n", `s.txt:1: new: no "----" before the end`},
		{"new\n----\n----\nx\n", `s.txt:1: output without its closing`},
		{"new\n----\n----\nx\n----\n----\ny\n", `s.txt:1: text right after the closing`},
		{"loads\n----\n", "s.txt:1: loads: there is no scheduler yet"},
		{begin + "frobnicate\n----\n", "s.txt:4: frobnicate: unknown command"},
		{begin + "loads all\n----\n", "unknown argument all"},
		{begin + "loads\nloads\n----\n", `takes no input lines, has "loads"`},
		{begin + "new ttl=30\n----\n", `argument ttl: "30" is not a time`},
		{begin + "new block=four\n----\n", `argument block: "four" is not a number`},
		{begin + "worker\n----\n", "argument id is missing"},
		{begin + "worker id=1 id=2\n----\n", "argument id is given twice"},
		{begin + "worker id=one\n----\n", `"one" is not a number`},
		{begin + "workers\nid=1 rank=2\n----\n", "unknown argument rank"},
		{begin + "workers x\nid=1\n----\n", "unknown argument x"},
		{begin + "overloaded\n----\n", "argument ids is missing"},
		{begin + "overloaded ids\n----\n", "argument ids needs a list"},
		{begin + "overloaded ids=(1,)\n----\n", "argument ids has an empty value"},
		{begin + "schedule id=a query=yes\n----\n", "argument query takes no value"},
		{begin + "schedule id=a isl\n----\n", "argument isl needs one value"},
		{begin + "schedule id=a pin=1\n----\n", `"1" is not worker/rank`},
		{begin + "schedule id=a jump=much\n----\n", `"much" is not a number`},
		{begin + "schedule id=a overlap=(1/0)\n----\n", `"1/0" is not name:number`},
		{begin + "schedule id=a prefer-taints=(x:1,x:2)\n----\n", "names x twice"},
		{begin + "select id=a overlap=(1:2)\n----\n", `"1" is not worker/rank`},
		{begin + "advance\n----\n", "argument by is missing"},
		{begin + "advance by=-1s\n----\n", "time does not go back"},
		{begin + "release id=a attempt=0\n----\n", "attempts are numbered from 1"},
		{begin + "transfer id=a\n----\n", "argument to is missing"},
		{begin + "transfer id=a to=best allow\n----\n", "argument allow needs a list"},
		{begin + "transfer id=a to=1/0 allow=(1)\n----\n", "unknown argument allow"},
		{begin + "set-aside id=1\n----\n", "argument for is missing"},
		{begin + "set-aside for=1s\n----\n", "argument id is missing"},
		{begin + "set-aside id=1 for=2\n----\n", `"2" is not a time`},
		{begin + "output-block id=a decay=\n----\n", `"" is not a number`},
		{begin + "cancel id=a now\n----\n", "unknown argument now"},
		{begin + "recheck all\n----\n", "unknown argument all"},
		{begin + "profile x\n----\n", "unknown argument x"},
	} {
		_, err := run(t, newFake, test.text)
		require.ErrorContains(t, err, test.want, test.text)
		require.Contains(t, err.Error(), "s.txt:")
	}
}

// TestRequest shows what the engine gets for every argument of schedule.
func TestRequest(t *testing.T) {
	var got *sched.Request
	factory := func(s script.Setup) (engine.Engine, error) {
		e, err := newFake(s)
		return spy{e, func(r *sched.Request) { got = r }}, err
	}
	_, err := run(t, factory, `new
----

advance by=2s
----

select id=a isl=32 osl=5 blocks=(1, 2) class=c pin=1/2 prefer=3/4 allow=() exclude=(3) taints=(x,y) prefer-taints=(a:0.85,b:-2) overlap=(2/0:1.5,1/0:2) host=(1/0:3) disk=(1/0:4,9/9:5) prio=7 jump=-1.5 due=5s expect=250ms no-queue no-prefill
----
`)
	require.NoError(t, err)
	now := time.Date(2025, 1, 1, 0, 0, 2, 0, time.UTC)
	expect := 250 * time.Millisecond
	require.Equal(t, &sched.Request{
		ID: "a", ISL: 32, ExpectedOSL: 5, Blocks: []uint64{1, 2},
		Overlaps: []sched.Overlap{
			{Rank: sched.RankID{Worker: 2}, Device: 1.5},
			{Rank: sched.RankID{Worker: 1}, Device: 2, Host: 3, Disk: 4},
			{Rank: sched.RankID{Worker: 9, Rank: 9}, Disk: 5},
		},
		Class: "c", Priority: 7, Jump: -1.5, Due: now.Add(5 * time.Second), DoNotQueue: true,
		Pin: &sched.RankID{Worker: 1, Rank: 2}, Prefer: &sched.RankID{Worker: 3, Rank: 4},
		Allowed: []uint64{}, Excluded: []uint64{3}, RequiredTaints: []string{"x", "y"},
		PreferredTaints:   map[string]float64{"a": 0.85, "b": -2},
		NoPrefillTracking: true, ExpectedPrefill: &expect,
	}, got)

	_, err = run(t, factory, "new\n----\n\nselect id=a overlap=(1/0:2,1/0:3) host=(1/0:4)\n----\n")
	require.NoError(t, err)
	require.Equal(t, []sched.Overlap{
		{Rank: sched.RankID{Worker: 1}, Device: 2},
		{Rank: sched.RankID{Worker: 1}, Device: 3, Host: 4},
	}, got.Overlaps)
	require.Nil(t, got.Allowed)
	require.True(t, got.Due.IsZero())
}

// TestWorker shows what the engine gets for every argument of worker, of the commands
// that name an incarnation, and of new.
func TestWorker(t *testing.T) {
	var got []any
	factory := func(s script.Setup) (engine.Engine, error) {
		got = append(got, s.Role)
		e, err := newFake(s)
		return workerSpy{e, &got}, err
	}
	_, err := run(t, factory, `new
----

new role=decode
----

worker id=3 start=1 ranks=2 max-batched=64 kv-blocks=8 taints=(a,b) inc=x inc=y
----

remove-worker id=3
----

remove-worker id=3 inc=y
----

set-aside id=3 for=1.5s inc=y
----
`)
	require.NoError(t, err)
	require.Equal(t, []any{
		"both", "decode",
		sched.Worker{
			ID: 3, StartRank: 1, Ranks: 2, MaxBatchedTokens: 64, TotalKVBlocks: 8, Taints: []string{"a", "b"}, Incarnation: "y",
		},
		"remove 3 \"\"", "remove 3 \"y\"", "aside 3 \"y\" 1.5s",
	}, got)

	output, err := run(t, newFake, "new\n----\n\nset-aside id=1 for=1s inc=a\n----\n")
	require.NoError(t, err)
	require.Equal(t, "error: stale-incarnation", output)
}

type workerSpy struct {
	engine.Engine
	got *[]any
}

func (s workerSpy) UpsertWorker(w sched.Worker) error {
	*s.got = append(*s.got, w)
	return nil
}

func (s workerSpy) RemoveIncarnation(id uint64, incarnation string) error {
	*s.got = append(*s.got, fmt.Sprintf("remove %d %q", id, incarnation))
	return nil
}

func (s workerSpy) SetAsideIncarnation(id uint64, incarnation string, d time.Duration) error {
	*s.got = append(*s.got, fmt.Sprintf("aside %d %q %v", id, incarnation, d))
	return nil
}

// TestLies shows what the runner says of an engine whose hook, calls and
// bookings do not agree.
func TestLies(t *testing.T) {
	const begin = "new ttl=1s\n----\n\nworker id=1\n----\n\nschedule id=a\n----\n\n"
	on := func(kind sched.DecisionKind, change func(*sched.Decision)) func(*sched.Decision) bool {
		return func(d *sched.Decision) bool {
			if d.Kind == kind {
				change(d)
			}
			return d.Kind != 0
		}
	}
	drop := func(d *sched.Decision) { d.Kind = 0 }
	for _, test := range []struct {
		name, text, want string
		lie              func(*sched.Decision) bool
	}{
		{"another rank is told", begin, `a error: engine-disagrees told "a -> 9/0 cached=0", returned "a -> 1/0 cached=0"`,
			on(sched.DecisionAdmitted, func(d *sched.Decision) { d.Placement.Rank.Worker = 9 })},
		{"a booking is told as a query", begin, "a error: engine-disagrees decided as query=true",
			on(sched.DecisionAdmitted, func(d *sched.Decision) { d.Query = !d.Query })},
		{"nothing is told", begin, "a error: engine-disagrees returned a placement that the hook was not told of",
			on(sched.DecisionAdmitted, drop)},
		{"somebody else is told", begin, "b error: engine-disagrees admitted, but nobody asked",
			on(sched.DecisionAdmitted, func(d *sched.Decision) { d.Request = "b" })},
		{"a refusal is not told", begin + "schedule id=b due=0s\n----\n", "b error: deadline",
			on(sched.DecisionRejected, drop)},
		{"another error is told", begin + "schedule id=b due=0s\n----\n",
			`b error: engine-disagrees told "b error: closed", returned "b error: deadline"`,
			on(sched.DecisionRejected, func(d *sched.Decision) { d.Err = sched.ErrClosed })},
		{"somebody else expires", begin + "advance by=1s\n----\n", "b error: engine-disagrees expired, but was never booked",
			on(sched.DecisionExpired, func(d *sched.Decision) { d.Request = "b" })},
		{"an unknown kind", begin, "a error: engine-disagrees decision of unknown kind 99",
			on(sched.DecisionAdmitted, func(d *sched.Decision) { d.Kind = 99 })},
	} {
		t.Run(test.name, func(t *testing.T) {
			output, err := run(t, newLiar(test.lie), test.text)
			require.NoError(t, err)
			require.Contains(t, output, test.want)
		})
	}

	t.Run("the queued are not told", func(t *testing.T) {
		_, err := run(t, newLiar(on(sched.DecisionQueued, drop)), begin+"schedule id=b\n----\n")
		require.ErrorContains(t, err, "s.txt:10: schedule: b neither returns nor is queued")
	})
	t.Run("an early admission is told", func(t *testing.T) {
		lie := on(sched.DecisionQueued, func(d *sched.Decision) { d.Kind = sched.DecisionAdmitted })
		_, err := run(t, newLiar(lie), begin+"schedule id=b\n----\n")
		require.ErrorContains(t, err, "b neither returns nor is queued")
	})
	t.Run("an old attempt is taken", func(t *testing.T) {
		factory := func(s script.Setup) (engine.Engine, error) {
			e, err := newFake(s)
			return forgetful{e}, err
		}
		output, err := run(t, factory, begin+"release id=a\n----\n\nschedule id=a\n----\n\nrelease id=a attempt=1\n----\n")
		require.NoError(t, err)
		require.Equal(t, "a error: engine-disagrees by id, with an old attempt: <nil>", output)
	})
}

// spy shows the requests of Select.
type spy struct {
	engine.Engine
	see func(*sched.Request)
}

func (s spy) Select(ctx context.Context, r *sched.Request) (sched.Placement, error) {
	s.see(r)
	return s.Engine.Select(ctx, r)
}

// forgetful takes any attempt for the live one.
type forgetful struct{ engine.Engine }

func (f forgetful) Release(id string, _ uint64) error { return f.Engine.Release(id, 0) }
