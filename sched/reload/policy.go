package reload

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// Target is what a profile is given to: a *sched.Scheduler.
type Target interface {
	SetProfile(*policy.Profile) error
}

// ErrNoProfile is why a policy file is refused that says nothing of the model.
var ErrNoProfile = errors.New("no profile")

func noProfile(file *policy.File, model string) error {
	if len(file.Models) == 0 {
		return fmt.Errorf("%w in the file: it is empty, or not written to its end", ErrNoProfile)
	}
	return fmt.Errorf("%w for the model %q in the file, nor one at its top", ErrNoProfile, model)
}

// Policy watches a policy file until ctx ends, and gives the model's profile, as
// policy.File.For picks it, to the target whenever that has changed. Waiters stay in
// line. A file that cannot be parsed changes nothing; nor does a change of comments or
// of other models, so that it costs no class its deficit.
//
// Nor can a file take a profile away: one that has none for the model, neither its
// own nor one at the top, as when it was just truncated, is refused with an error
// that matches ErrNoProfile. To run without limits, write a profile that has none.
//
// Policy returns the context's error, or at once what is wrong with its arguments;
// Options.Tell receives what is wrong with the file.
func Policy(ctx context.Context, path, model string, target Target, o Options) error {
	if target == nil {
		return errors.New("reload: target: must not be nil")
	}
	var force *policy.Profile // nil, too, if the current text has none
	if o.Current != nil {
		file, err := policy.Parse(o.Current)
		if err != nil {
			return fmt.Errorf("reload: current text: %w", err)
		}
		if profile, found := file.Find(model); found {
			force = profile
		}
	}
	return watch(ctx, path, func(text []byte) ([]string, error) {
		file, err := policy.Parse(text)
		if err != nil {
			return nil, err
		}
		profile, found := file.Find(model)
		if !found {
			return nil, noProfile(file, model)
		}
		if force != nil && reflect.DeepEqual(profile.Config(), force.Config()) {
			return file.Warnings, nil
		}
		if err := target.SetProfile(profile); err != nil {
			return nil, err
		}
		force = profile
		return file.Warnings, nil
	}, o)
}
