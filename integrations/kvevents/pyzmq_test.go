package kvevents_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents"
)

// python names an interpreter with pyzmq and msgspec.
const python = "TURNSTILE_PYZMQ"

// life is a process that publishes by libzmq.
type life struct {
	t              *testing.T
	cmd            *exec.Cmd
	in             io.WriteCloser
	events, replay string
}

func startLife(t *testing.T, form, names, events, replay string) *life {
	t.Helper()
	l := &life{t: t, cmd: exec.CommandContext(t.Context(), os.Getenv(python), "testdata/publisher.py", form, names, events, replay)}
	l.cmd.Stderr = os.Stderr
	var err error
	l.in, err = l.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := l.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, l.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "the publisher did not start")
	var ok bool
	l.events, l.replay, ok = strings.Cut(strings.TrimSpace(line), " ")
	require.True(t, ok, line)
	return l
}

func (l *life) kill() {
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait()
}

func (l *life) tell(send bool, events ...array) {
	line, err := json.Marshal(table{"send": send, "events": events})
	require.NoError(l.t, err)
	_, err = l.in.Write(append(line, '\n'))
	require.NoError(l.t, err)
}

func store(parent any, hash, first int) array {
	return array{"BlockStored", table{
		"block_hashes": array{hash, hash + 1}, "parent_block_hash": parent, "token_ids": count(first, 8), "block_size": 4, "medium": "GPU",
	}}
}

// TestLibzmq: the one peer that engines really have. What is told, what is lost, a
// removal, a clear and another life, in each form.
func TestLibzmq(t *testing.T) {
	t.Parallel()
	if os.Getenv(python) == "" {
		t.Skipf("%s names no Python with pyzmq and msgspec", python)
	}
	for _, form := range []string{"array", "map"} {
		for _, names := range []string{"int", "bytes"} {
			t.Run(form+" "+names, func(t *testing.T) {
				t.Parallel()
				x := newIndex(t, kvevents.Config{Audit: 200 * time.Millisecond})
				l := startLife(t, form, names, "tcp://127.0.0.1:*", "tcp://127.0.0.1:*")
				defer func() { l.kill() }()
				l.tell(true, store(nil, 1, 0))
				ctx, cancel := context.WithCancel(t.Context())
				var following sync.WaitGroup
				following.Go(func() {
					if err := x.Follow(ctx, kvevents.Source{Rank: one, Events: l.events, Replay: l.replay}); err != nil {
						t.Error(err)
					}
				})
				defer following.Wait()
				defer cancel()
				holds := func(first, want int) {
					t.Helper()
					require.Eventually(t, func() bool {
						return held(x, one, kvevents.Namespace{}, tokens(first, 24)) == want
					}, time.Minute, 5*time.Millisecond, "%d: %+v", want, x.Stats())
				}
				holds(0, 2)
				l.tell(true, store(2, 3, 8))
				holds(0, 4)
				l.tell(false, array{"BlockRemoved", table{"block_hashes": array{4}, "medium": "GPU"}})
				holds(0, 3)
				l.tell(false, array{"AllBlocksCleared", table{}})
				l.tell(true, store(nil, 1, 0))
				holds(0, 2)
				require.Zero(t, x.Stats()[0].Resets)

				l.kill()
				l = startLife(t, form, names, l.events, l.replay)
				for range 7 {
					l.tell(true, store(nil, 1, 1000)) // the same names for other blocks, and past the old number
				}
				holds(1000, 2)
				holds(0, 0)
				require.EqualValues(t, 1, x.Stats()[0].Resets)
			})
		}
	}
}
