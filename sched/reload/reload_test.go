package reload_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/reload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const second = time.Second

// policyOf is a policy whose only class has that threshold.
func policyOf(threshold string) string {
	return "default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\n" +
		"policy_classes:\n- {name: c, policy_family: f, cache_bucket: all, quantum: 1, prefill_busy_threshold: " + threshold + "}\n"
}

// rig watches a file within a bubble and notes what comes of it.
type rig struct {
	t    *testing.T
	path string

	mu     sync.Mutex // guards what follows; after looks, the watcher rests
	taken  []*policy.Profile
	events []reload.Event
	fail   error
}

func (r *rig) SetProfile(p *policy.Profile) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	r.taken = append(r.taken, p)
	return nil
}

// start watches until the returned function is called.
func start(t *testing.T, text string, o reload.Options) *rig {
	t.Helper()
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "policy.yaml")}
	r.write(text)
	r.watch(r, o)
	return r
}

func (r *rig) watch(target reload.Target, o reload.Options) {
	o.Interval = second
	o.Tell = func(e reload.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error)
	go func() { done <- reload.Policy(ctx, r.path, "", target, o) }()
	r.t.Cleanup(func() {
		cancel()
		assert.ErrorIs(r.t, <-done, context.Canceled)
	})
	synctest.Wait()
}

func (r *rig) write(text string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(r.path, []byte(text), 0o600))
}

// looks lets so many looks be made, and returns what was told meanwhile.
func (r *rig) looks(n int) []reload.Event {
	r.t.Helper()
	r.mu.Lock()
	r.events = nil
	r.mu.Unlock()
	time.Sleep(time.Duration(n) * second)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events
}

func (r *rig) setFail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

func (r *rig) threshold() int64 {
	r.t.Helper()
	require.NotEmpty(r.t, r.taken)
	return *r.taken[len(r.taken)-1].Class(0).BusyThreshold
}

func TestChangesAreTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, policyOf("1"), reload.Options{})
		require.Equal(t, []reload.Event{{Path: r.path}}, r.looks(1))
		require.EqualValues(t, 1, r.threshold())
		require.Empty(t, r.looks(100), "an unchanged file does nothing")
		require.Len(t, r.taken, 1)

		r.write(policyOf("2"))
		require.Empty(t, r.looks(1), "it may still be being written")
		require.Len(t, r.looks(1), 1)
		require.EqualValues(t, 2, r.threshold())
		require.Empty(t, r.looks(100))
		require.Len(t, r.taken, 2)

		r.write("# nothing but words\n" + policyOf("2"))
		require.Len(t, r.looks(2), 1)
		require.Len(t, r.taken, 2, "a comment is no change of the profile")

		r.write("worker_selection: {}\n" + policyOf("3"))
		events := r.looks(2)
		require.Len(t, events, 1)
		require.Len(t, events[0].Warnings, 1)
		require.EqualValues(t, 3, r.threshold())
	})
}

func TestCurrentTextIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, policyOf("1"), reload.Options{Current: []byte(policyOf("1"))})
		require.Empty(t, r.looks(100))
		require.Empty(t, r.taken)
		r.write(policyOf("2"))
		require.Len(t, r.looks(2), 1)
		require.EqualValues(t, 2, r.threshold())
	})
}

func TestBadFileKeepsTheOldPolicyAndSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, policyOf("1"), reload.Options{})
		r.looks(1)
		refused := func(want string) {
			t.Helper()
			events := r.looks(100)
			require.Len(t, events, 1, "told once")
			require.ErrorContains(t, events[0].Err, want)
			require.EqualValues(t, 1, r.threshold())
			require.Len(t, r.taken, 1)
		}
		r.write(policyOf("-7"))
		refused(`line 4: policy_classes[0].prefill_busy_threshold: "-7"`)
		require.ErrorIs(t, r.events[0].Err, policy.ErrInvalid)
		r.write("a: [")
		refused("not valid YAML")
		for _, empty := range []string{"", "\n", "# all of it commented out\n", "{}", "models: {}\n"} {
			r.write(empty)
			refused("no profile in the file: it is empty")
			require.ErrorIs(t, r.events[0].Err, reload.ErrNoProfile)
			r.write("a: [") // so that the next is a change
			r.looks(2)
		}
		r.write("models:\n  other:\n    " + strings.ReplaceAll(policyOf("2"), "\n", "\n    "))
		refused(`no profile for the model "" in the file, nor one at its top`)
		r.write(strings.Repeat("#", 1<<20+1))
		refused("larger than 1048576 bytes")
		require.NoError(t, os.Remove(r.path))
		refused("no such file")
		require.ErrorIs(t, r.events[0].Err, os.ErrNotExist)
		require.NoError(t, os.Mkdir(r.path, 0o700))
		refused("not a regular file")
		require.NoError(t, os.Remove(r.path))

		r.write(policyOf("1"))
		require.Equal(t, []reload.Event{{Path: r.path}}, r.looks(3), "all is well again")
		require.Len(t, r.taken, 1, "and nothing needed to be done")

		r.setFail(errors.New("not now"))
		r.write(policyOf("2"))
		refused("not now")
		r.setFail(nil)
		r.write(policyOf("2") + "\n")
		r.looks(2)
		require.EqualValues(t, 2, r.threshold())
	})
}

// Who starts without a profile gets one once there is one, and keeps it.
func TestFromNoProfileToOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "", reload.Options{Current: []byte{}})
		require.Empty(t, r.looks(10))
		r.write(policyOf("1"))
		require.Equal(t, []reload.Event{{Path: r.path}}, r.looks(10))
		require.EqualValues(t, 1, r.threshold())
		r.write("")
		require.ErrorIs(t, r.looks(10)[0].Err, reload.ErrNoProfile)
		require.Len(t, r.taken, 1)
	})
}

func TestHalfWrittenFileIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, policyOf("1"), reload.Options{})
		r.looks(1)
		whole := policyOf("5")
		for n := range whole { // a byte between one look and the next
			r.write(whole[:n])
			require.Empty(t, r.looks(1))
		}
		r.write(whole)
		require.Len(t, r.looks(2), 1)
		require.EqualValues(t, 5, r.threshold())
		require.Len(t, r.taken, 2)
	})
}

func TestReplacedByRenameOrByLink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, policyOf("1"), reload.Options{})
		r.looks(1)
		require.NoError(t, os.WriteFile(r.path+"~", []byte(policyOf("2")), 0o600))
		require.NoError(t, os.Rename(r.path+"~", r.path))
		r.looks(2)
		require.EqualValues(t, 2, r.threshold())

		// As Kubernetes mounts a ConfigMap: policy.yaml -> ..data/policy.yaml,
		// ..data -> a directory that is replaced as a whole.
		dir := filepath.Dir(r.path)
		mount := func(version, text string) {
			require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, version, "policy.yaml"), []byte(text), 0o600))
			require.NoError(t, os.Symlink(version, filepath.Join(dir, "..tmp")))
			require.NoError(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
		}
		mount("..v1", policyOf("3"))
		require.NoError(t, os.Remove(r.path))
		require.NoError(t, os.Symlink("..data/policy.yaml", r.path))
		r.looks(2)
		require.EqualValues(t, 3, r.threshold())
		mount("..v2", policyOf("4"))
		r.looks(2)
		require.EqualValues(t, 4, r.threshold())
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "..v1")))
		require.Empty(t, r.looks(10))
	})
}

func TestWhoWaitsIsDispatchedByTheNewPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file, err := policy.Parse([]byte(policyOf("0")))
		require.NoError(t, err)
		s, err := sched.New(sched.Config{BlockSize: 16, Policy: file})
		require.NoError(t, err)
		require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1}))
		r := &rig{t: t, path: filepath.Join(t.TempDir(), "policy.yaml")}
		r.write(policyOf("0"))
		r.watch(s, reload.Options{Current: []byte(policyOf("0"))})
		first, err := s.Schedule(t.Context(), &sched.Request{ID: "first", ISL: 100})
		require.NoError(t, err)
		granted := make(chan *sched.Booking, 1)
		go func() {
			b, err := s.Schedule(t.Context(), &sched.Request{ID: "second", ISL: 100})
			assert.NoError(t, err)
			granted <- b
		}()
		r.looks(10)
		require.EqualValues(t, 1, s.Stats().Waiting)
		r.write(policyOf("100"))
		r.looks(2)
		require.Zero(t, s.Stats().Waiting)
		require.NoError(t, (<-granted).Release())
		require.NoError(t, first.Release())
	})
}

func TestFaultsComeOneByOne(t *testing.T) {
	t.Parallel()
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	said := fmt.Errorf("both %w and %w", a, b)
	for _, test := range []struct {
		err  error
		want []error
	}{
		{nil, nil},
		{a, []error{a}},
		{errors.Join(a, errors.Join(b, c)), []error{a, b, c}},
		{errors.Join(a, said), []error{a, said}},
	} {
		require.Equal(t, test.want, reload.Event{Err: test.err}.Faults())
	}
	_, err := policy.Parse([]byte(strings.ReplaceAll(policyOf("-7"), "quantum: 1", "quantum: 0")))
	faults := reload.Event{Err: err}.Faults()
	require.Len(t, faults, 2)
	for _, fault := range faults {
		require.NotContains(t, fault.Error(), "\n")
		require.Contains(t, fault.Error(), "invalid policy: line 4: ")
	}
}

func TestInjectedClock(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(time.Unix(0, 0))
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("one"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	texts, done := make(chan string), make(chan error)
	go func() {
		done <- reload.File(ctx, path, func(text []byte) error {
			texts <- string(text)
			return nil
		}, reload.Options{Clock: c, Tell: func(reload.Event) {}})
	}()
	for set := false; !set; { // the first look has been made
		_, set = c.Next()
	}
	c.Advance(2 * time.Second)
	assert.Equal(t, "one", <-texts)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	_, set := c.Next()
	assert.False(t, set, "no timer is left")
}

func TestArguments(t *testing.T) {
	t.Parallel()
	take := func([]byte) error { return nil }
	s, err := sched.New(sched.Config{BlockSize: 16})
	require.NoError(t, err)
	for want, got := range map[string]error{
		"context: must not be nil":  reload.File(nil, "f", take, reload.Options{}), //nolint:staticcheck // that is the test
		"path: must not be empty":   reload.File(t.Context(), "", take, reload.Options{}),
		"function to call":          reload.File(t.Context(), "f", nil, reload.Options{}),
		"interval -1ns":             reload.File(t.Context(), "f", take, reload.Options{Interval: -1}),
		"target: must not be nil":   reload.Policy(t.Context(), "f", "", nil, reload.Options{}),
		"current text: invalid pol": reload.Policy(t.Context(), "f", "", s, reload.Options{Current: []byte("x")}),
	} {
		require.ErrorContains(t, got, want)
	}
}
