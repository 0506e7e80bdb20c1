package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/bench/simulate"
	"github.com/seed-3c5df8a4/turnstile/bench/workload"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// simulateOptions are the flags of the simulation, beside those it shares with the
// replay.
type simulateOptions struct {
	on       bool
	settings string
	policies stringList
	model    string
}

// notSimulated are the flags that mean nothing in virtual time, or mean another
// comparison.
var notSimulated = []string{
	"engines", "modes", "speed", "threshold", "actor-index", "harness",
	"scenario", "quick", "rounds", "duration", "callers", "cpuprofile", "limit", "verdict",
}

func (s *simulateOptions) register(f *flag.FlagSet) {
	f.BoolVar(&s.on, "simulate", false, "compare selectors and class settings in virtual time, on the synthetic workload or a -trace")
	f.StringVar(&s.settings, "settings", "", "with -simulate, of the settings that are built in only these `names`, separated by commas (default all)")
	f.Var(&s.policies, "policy", "with -simulate, also the policy of this YAML `file`; may be given more than once")
	f.StringVar(&s.model, "model", "", "with -policy, take the profile of this model (default the file's root)")
}

// check returns the faults of flags that do not go together.
func (s *simulateOptions) check(set map[string]bool) []error {
	var errs []error
	for _, name := range notSimulated {
		if s.on && set[name] {
			errs = append(errs, fmt.Errorf("-%s: must not be given with -simulate", name))
		}
	}
	for _, name := range []string{"settings", "policy"} {
		if !s.on && set[name] {
			errs = append(errs, fmt.Errorf("-%s: must be given with -simulate only", name))
		}
	}
	if set["model"] && len(s.policies) == 0 {
		errs = append(errs, errors.New("-model: must be given with -policy only"))
	}
	return errs
}

// choose returns the settings to simulate, those of one's own policies always
// among them, and what of these was read and ignored.
func (s *simulateOptions) choose(long int64) (chosen []simulate.Setting, warnings []string, err error) {
	all := simulate.Selectors()
	classes, err := simulate.Classes(long)
	if err != nil {
		return nil, nil, err
	}
	all = append(all, classes...)
	names := make([]string, 0, len(all)+len(s.policies))
	for i := range all {
		names = append(names, all[i].Name)
	}
	if chosen, err = pick("settings", s.settings, all, names); err != nil {
		return nil, nil, usageError{err}
	}
	for _, path := range s.policies {
		own, file, err := readPolicy(path, s.model)
		if err != nil {
			return nil, nil, err
		}
		name := own.Name
		for n := 2; slices.Contains(names, own.Name); n++ {
			own.Name = fmt.Sprintf("%s-%d", name, n)
		}
		names = append(names, own.Name)
		chosen = append(chosen, own)
		for _, w := range file.Warnings {
			warnings = append(warnings, path+": "+w)
		}
	}
	return chosen, warnings, nil
}

// readPolicy makes a setting of a policy file, named like it.
func readPolicy(path, model string) (simulate.Setting, *policy.File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return simulate.Setting{}, nil, err
	}
	file, err := policy.Parse(text)
	if err != nil {
		return simulate.Setting{}, nil, fmt.Errorf("%s: %w", path, err)
	}
	if model != "" && file.Models[model] == nil {
		return simulate.Setting{}, nil, fmt.Errorf("%s: it has no profile of the model %q", path, model)
	}
	name := filepath.Base(path)
	return simulate.Setting{
		Name: strings.TrimSuffix(name, filepath.Ext(name)), About: "the policy in " + path,
		Config: sched.Config{Policy: file, Model: model},
	}, file, nil
}

// runSimulation simulates the settings one after the other. What it prints
// follows from its input alone.
func runSimulation(ctx context.Context, o *options, p *plan, stdout, stderr io.Writer, terminal bool) int {
	failed := func(err error) int {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		var usage usageError
		switch {
		case errors.As(err, &usage):
			return exitUsage
		case ctx.Err() != nil:
			return exitInterrupted
		}
		return exitFault
	}
	requests := p.replay.Requests
	long, isLong := halves(requests, p.replay.Rank.Block)
	settings, warnings, err := o.simulate.choose(long)
	if err != nil {
		return failed(err)
	}
	files, err := o.micro.create()
	defer func() { _ = files.close() }() // what was written is closed before
	if err != nil {
		return failed(err)
	}
	s := report.Simulation{Workload: p.workload(), Ranks: p.ranks()}
	p.badLines(stdout)
	for _, w := range warnings {
		fmt.Fprintf(stdout, "warning   %s\n", w)
	}
	fmt.Fprintf(stdout, "workload  %s\nranks     %s\nshort     a request of at most %d new tokens, the median\n\n", s.Workload, s.Ranks, long)
	var show *progress
	if terminal {
		show = &progress{w: stderr, began: time.Now(), requests: len(requests), runs: len(settings)}
	}
	var faults []error
	for i := range settings {
		show.start(i, settings[i].Name)
		r, err := simulate.Run(ctx, &settings[i], simulate.Config{
			Requests: requests, Long: isLong, Workers: p.replay.Workers, Ranks: p.replay.Ranks,
			MaxBatchedTokens: p.replay.MaxBatchedTokens, Rank: p.replay.Rank, MaxOverlaps: p.replay.MaxOverlaps,
			Seed: o.seed, Progress: show.update,
		})
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", settings[i].Name, err))
			if r == nil {
				continue
			}
		}
		if r.Left != 0 {
			faults = append(faults, fmt.Errorf("%s: %d left over", settings[i].Name, r.Left))
		}
		s.Settings = append(s.Settings, simulated(&settings[i], r))
	}
	show.clear()
	err = s.WriteText(stdout)
	fmt.Fprintln(stdout)
	for i := range s.Settings {
		fmt.Fprintf(stdout, "%-18s  %s\n", s.Settings[i].Name, s.Settings[i].About)
	}
	for _, f := range faults {
		fmt.Fprintf(stdout, "FAULT     %v\n", f)
	}
	fmt.Fprintf(stdout, "\n%s", s.Legend())
	if files.json != nil {
		err = errors.Join(err, s.WriteJSON(files.json))
	}
	if files.html != nil {
		err = errors.Join(err, s.WriteHTML(files.html))
	}
	switch err = errors.Join(err, files.close()); {
	case err != nil:
		return failed(err)
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench: interrupted; the table shows the settings that were done")
		return exitInterrupted
	case len(faults) > 0:
		return failed(errors.Join(faults...))
	}
	return 0
}

// halves returns the median of the tokens that requests bring anew, and which of
// the requests bring more.
func halves(requests []workload.Request, block int64) (median int64, long []bool) {
	fresh := workload.Uncached(requests, block)
	long = make([]bool, len(fresh))
	if len(fresh) == 0 {
		return 0, long
	}
	sorted := slices.Sorted(slices.Values(fresh))
	median = sorted[(len(sorted)-1)/2]
	for i, n := range fresh {
		long[i] = n > median
	}
	return median, long
}

func simulated(setting *simulate.Setting, r *simulate.Result) report.Simulated {
	out := report.Simulated{
		Name: setting.Name, About: setting.About,
		Requests: r.Requests, Completed: r.Completed, Refused: r.Refused,
		FirstToken: report.PercentilesOf(r.FirstToken), Short: report.PercentilesOf(r.Short), Long: report.PercentilesOf(r.Long),
		PerToken: report.PercentilesOf(r.PerToken), Waited: report.PercentilesOf(r.Waited),
		Balance: r.Balance, Leftovers: r.Left,
	}
	if r.Prompt > 0 {
		out.HitShare = float64(r.Cached) / float64(r.Prompt)
	}
	if r.Requests > 0 {
		out.Queued = float64(len(r.Waited)) / float64(r.Requests)
	}
	return out
}

// stringList is a flag that may be given more than once.
type stringList []string

// String implements flag.Value.
func (l *stringList) String() string {
	if l == nil {
		return ""
	}
	return strings.Join(*l, ",")
}

// Set implements flag.Value.
func (l *stringList) Set(s string) error {
	*l = append(*l, s)
	return nil
}
