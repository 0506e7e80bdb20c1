package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-3c5df8a4/turnstile/stress/engines"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

const scriptUsage = `Usage: stress script [-engine NAME] FILE...

Runs each script and prints its commands, each followed by what it does, in the
format of a script: redirect the output to a file to make that the expectation.
A FILE of - is the standard input. In the input the line ---- and an empty line
must follow each command; what is expected in between is not compared, "go test
./stress" does.

Exit status: 0, or 1 when a script is malformed or its engine fails, or 2 when
the command line is.

Flags:
`

func runScript(s streams, arguments []string) int {
	flags := newFlags("script", scriptUsage)
	name := flags.String("engine", engines.Sharded,
		strings.Join([]string{engines.Sharded, engines.Actor, engines.ActorDirect}, ", ")+": the `NAME` of the engine to run")
	if code, ok := parse(s, flags, arguments); !ok {
		return code
	}
	if flags.NArg() == 0 {
		help(s, flags)
		return exitUsage
	}
	e, ok := engines.Lookup(*name)
	if !ok {
		return wrong(s, flags, "there is no engine %q", *name)
	}
	return printScripts(s, e.New, flags.Args())
}

// printScripts runs the scripts one after the other; a malformed one does not
// keep the others from running.
func printScripts(s streams, factory script.Factory, paths []string) int {
	status := exitOK
	for i, path := range paths {
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		if err := printScript(s, factory, path); err != nil {
			fmt.Fprintf(s.err, "stress script: %v\n", err)
			status = exitFailed
		}
	}
	return status
}

func printScript(s streams, factory script.Factory, path string) error {
	f, err := parseScript(s, path)
	if err != nil {
		return err
	}
	for i := range f.Steps {
		if d := &f.Steps[i].Data; holdsSeparator(d.Expected) {
			fmt.Fprintf(s.err, "stress script: warning: %s: the output of %s holds a line ----: is the empty line after it missing?\n",
				d.Pos, d.Cmd)
		}
	}
	return execute(f, factory, s.out)
}

// holdsSeparator reports whether an expected output has the line that ends a
// command: then the next command was most likely taken for output.
func holdsSeparator(expected string) bool {
	for line := range strings.Lines(expected) {
		if strings.TrimSpace(line) == "----" {
			return true
		}
	}
	return false
}

func parseScript(s streams, path string) (*script.File, error) {
	if path == "-" {
		return script.Parse("<stdin>", s.in)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return script.Parse(path, bytes.NewReader(text))
}

// execute runs a script and writes it with the outputs it has now, a blank line
// between the steps. It stops where the script cannot go on.
func execute(f *script.File, factory script.Factory, w io.Writer) (err error) {
	r := script.New(factory)
	defer func() { err = errors.Join(err, r.Close()) }()
	var blank string
	for i := range f.Steps {
		step := &f.Steps[i]
		output, err := r.Run(&step.Data)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, blank); err != nil {
			return err
		}
		if err := step.Write(w, output); err != nil {
			return err
		}
		blank = "\n"
	}
	if len(f.Tail) > 0 {
		_, err = io.WriteString(w, blank+strings.Join(f.Tail, "\n")+"\n")
	}
	return err
}
