package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/internal/cputime"
	"github.com/seed-3c5df8a4/turnstile/bench/replicas"
)

// replicasEach is how long each measurement of replicas runs.
const replicasEach = 4 * time.Second

// checkReplicas returns what is wrong with flags that ask for replicas.
func (o *options) checkReplicas(set map[string]bool, further int) error {
	var errs []error
	if o.replicas < 2 || o.replicas > 16 {
		errs = append(errs, fmt.Errorf("-replicas %d: must be 2 to 16", o.replicas))
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if name != "replicas" && name != "html" {
			errs = append(errs, fmt.Errorf("-%s: must not be given with -replicas", name))
		}
	}
	if further > 0 {
		errs = append(errs, errors.New("flags only"))
	}
	if len(errs) > 0 {
		return usageError{errors.Join(errs...)}
	}
	return nil
}

// runReplicas measures replicas that count each other's load.
func runReplicas(ctx context.Context, o *options, stdout, stderr io.Writer, terminal bool) int {
	files, err := o.micro.create()
	defer func() { _ = files.close() }() // what was written is closed before
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFault
	}
	bar := newBar(stderr, terminal, time.Duration(replicas.Measurements())*replicasEach)
	result, err := replicas.Run(ctx, replicas.Settings{
		Replicas: o.replicas, Ranks: 32, Prefill: 100 * time.Millisecond, Each: replicasEach, CPU: cputime.Now,
	}, bar.step)
	bar.clear()
	if err == nil {
		err = result.WriteText(stdout)
	}
	if err == nil && files.html != nil {
		err = files.page(result.WriteHTML)
	}
	if err = errors.Join(err, files.close()); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		if ctx.Err() != nil {
			return exitInterrupted
		}
		return exitFault
	}
	return 0
}
