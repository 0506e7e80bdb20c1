//go:build unix

package embedded_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
	"github.com/seed-3c5df8a4/turnstile/integrations/replicas/embedded"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// childDir has the directory of a replica in a process of its own, for TestMain.
const childDir = "TURNSTILE_TEST_CHILD_DIR"

func init() {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// child books once, and releases and goes when its input ends.
func child(dir string) error {
	node, err := embedded.Open(embedded.Config{Name: "child", Dir: dir})
	if err != nil {
		return err
	}
	r, err := replicas.New(replicas.Config{Name: "child", Transport: node, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	s, err := sched.New(sched.Config{BlockSize: 16}, sched.WithFleet(r))
	if err != nil {
		return err
	}
	if err := s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1}); err != nil {
		return err
	}
	ctx := context.Background()
	if err := r.Join(ctx, s); err != nil {
		return err
	}
	b, err := s.Schedule(ctx, &sched.Request{ID: "child", ISL: 77})
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = b.Release()
	return r.Close()
}

// A whole process that is stopped, its server with it, is dropped, and is back with all
// it causes when it runs again; when it ends in order nothing is left.
func TestProcessThatStandsStill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pool")
	program, err := os.Executable()
	require.NoError(t, err)
	process := exec.CommandContext(t.Context(), program)
	process.Env = append(os.Environ(), childDir+"="+dir)
	process.Stderr = os.Stderr
	input, err := process.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())

	node, err := embedded.Open(embedded.Config{Name: "parent", Dir: dir})
	require.NoError(t, err)
	g := &gateway{transport: newSlow(node)}
	g.Replica, err = replicas.New(replicas.Config{Name: "parent", Transport: g.transport, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	g.s = newScheduler(t, sched.WithFleet(g.Replica))
	require.NoError(t, g.Join(t.Context(), g.s))
	c := &cluster{t: t, gateways: []*gateway{g}}
	causes := func(tokens int64) func() bool {
		return func() bool { return g.s.Loads()[0].Peers.PrefillTokens == tokens }
	}
	c.until("the child's booking counts", causes(77))
	require.NoError(t, process.Process.Signal(syscall.SIGSTOP))
	c.until("the stopped child is dropped", causes(0))
	require.NoError(t, process.Process.Signal(syscall.SIGCONT))
	c.until("it is back", causes(77))
	require.NoError(t, input.Close())
	require.NoError(t, process.Wait())
	c.until("it has gone", causes(0))
	require.NoError(t, g.Close())
}
