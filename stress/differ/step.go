package differ

import (
	"fmt"
	"strings"

	"github.com/seed-3c5df8a4/turnstile/stress/engines"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

// Step is one command of a script.
type Step struct {
	Line  string
	Input []string
	// Output is what the model gives.
	Output string
}

func (s *Step) String() string {
	return strings.Join(append([]string{s.Line}, s.Input...), "\n")
}

func (s *Step) runOn(r *script.Runner) (string, error) {
	f, err := script.Parse("generated", strings.NewReader(s.String()+"\n----\n"))
	if err != nil {
		return "", err
	}
	return r.Run(&f.Steps[0].Data)
}

// Text writes steps as a script file.
func Text(steps []Step) string {
	var b strings.Builder
	for i, s := range steps {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n----\n%s\n", s.String(), s.Output)
	}
	return b.String()
}

// Difference is where an engine first gave another output than the model.
type Difference struct {
	Engine string
	Step   int
	Got    string
}

func (d *Difference) String() string {
	return fmt.Sprintf("%s differs at command %d: it gives\n%s", d.Engine, d.Step+1, d.Got)
}

// Compare runs the script on the engines and returns the first difference, nil if
// there is none.
func Compare(steps []Step, all []engines.Engine) *Difference {
	for _, e := range all {
		if d := compare(steps, e); d != nil {
			return d
		}
	}
	return nil
}

func compare(steps []Step, e engines.Engine) (d *Difference) {
	r := script.New(e.New)
	defer func() {
		if err := r.Close(); err != nil && d == nil {
			d = &Difference{e.Name, len(steps) - 1, "at the end: " + err.Error()}
		}
	}()
	for i := range steps {
		got, err := steps[i].runOn(r)
		if err != nil {
			got = err.Error()
		}
		if got != steps[i].Output {
			return &Difference{e.Name, i, got}
		}
		if err != nil {
			break
		}
	}
	return nil
}

// answer runs the script on the model and returns it with the outputs.
func answer(steps []Step) (out []Step, err error) {
	e, _ := engines.Lookup(engines.Model)
	r := script.New(e.New)
	defer func() {
		if cerr := r.Close(); err == nil {
			err = cerr
		}
	}()
	out = append(out, steps...)
	for i := range out {
		if out[i].Output, err = out[i].runOn(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}
