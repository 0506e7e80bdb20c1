package mutate

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// guarantees are the names of those in the README, in their order.
var guarantees = [...]string{
	"no oversubscription", "book before answer", "no bypass", "order", "no gap", "no lost wake-up",
	"conservation", "exactly once", "lifecycle never waits", "nothing left", "bounded favour", "nobody starves",
}

// Markdown writes the results as a document. command is what made them.
func Markdown(w io.Writer, results []Result, command string, at time.Time) error {
	caught := 0
	for i := range results {
		if results[i].Caught && results[i].Err == nil {
			caught++
		}
	}
	var s strings.Builder
	fmt.Fprintf(&s, "# Mutations\n\n%d deliberate breaks, %d of them caught, each by the test named beside it.\n", len(results), caught)
	fmt.Fprintf(&s, "%s; %s, %s/%s, %d cores; `%s`.\nThe time is that of building and running the test.\n\n",
		at.Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), command)
	s.WriteString("Numbers are those of the guarantees in the [README](../README.md#guarantees):\n")
	for i, name := range guarantees {
		end := ", "
		switch i {
		case 4:
			end = ",\n"
		case len(guarantees) - 1:
			end = ".\n"
		}
		fmt.Fprintf(&s, "%d %s%s", i+1, name, end)
	}
	last := ""
	for i := range results {
		r := &results[i]
		if dir := component(r.Edits[0].File); dir != last {
			last = dir
			fmt.Fprintf(&s, "\n## %s\n\n| break | file | what goes wrong | invariant | test | result |\n|---|---|---|---|---|---|\n", dir)
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %s | `%s` | %s |\n", cell(r.Name), strings.Join(r.Files(), ", "), cell(r.Breaks),
			cell(r.Invariant), r.Test.Short(), r.Verdict())
	}
	_, err := io.WriteString(w, s.String())
	return err
}

// component returns the package of a file.
func component(file string) string {
	if at := strings.LastIndexByte(file, '/'); at >= 0 {
		return file[:at]
	}
	return file
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
