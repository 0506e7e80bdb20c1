package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// tracedEnv tells the process that it is the traced one.
const tracedEnv = "TURNSTILE_TRACED"

// warmUps are how often all is done before it is counted, so that pools and tables
// are as they will stay.
const warmUps = 40

// counted is how often each operation is counted then.
const counted = 3

// traced is the traced process. A breakpoint stands before each operation and
// after it: that of the first caller, then that of the second.
func traced() error {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(2)
	for _, p := range pools {
		s, err := p.open()
		if err != nil {
			return err
		}
		callers := p.pair(s)
		// The one that does not have the turn spins, so that the two keep a processor each.
		var turn atomic.Int64
		var wg sync.WaitGroup
		for me, c := range callers {
			wg.Go(func() {
				runtime.LockOSThread()
				for round := range warmUps + counted {
					c.begin(round)
					for op := range operations {
						mine := int64(2*(round*len(operations)+op) + me)
						for turn.Load() != mine {
							// To the system's other threads; the processor of the runtime stays.
							_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
						}
						if round < warmUps {
							c.operation(op)
						} else {
							runtime.Breakpoint()
							c.operation(op)
							runtime.Breakpoint()
						}
						turn.Store(mine + 1)
					}
				}
			})
		}
		wg.Wait()
		for _, c := range callers {
			if c.err != nil {
				return c.err
			}
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// runTraced runs the traced process if this is it.
func runTraced() bool {
	if os.Getenv(tracedEnv) == "" {
		return false
	}
	if err := traced(); err != nil {
		fmt.Fprintln(os.Stderr, "writes: the traced process:", err)
		os.Exit(1)
	}
	return true
}
