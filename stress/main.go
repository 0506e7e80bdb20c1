// Command stress puts the scheduler and the actor reference under load that is
// checked, and runs scheduling scripts against them.
//
//	go run ./stress -for 60s -callers 256
//	go run ./stress script [-engine NAME] FILE...
//	go run ./stress diff [-n SCRIPTS] [-seed SEED]
//	go run ./stress linear [-n HISTORIES] [-seed SEED] [-engine NAME]
//	go run ./stress mutate [-run REGEXP] [-jobs N] [-timeout D] [-markdown FILE]
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// streams are where a subcommand reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// subcommand is one thing this program does.
type subcommand struct {
	name, summary string
	run           func(streams, []string) int
}

func subcommands() []subcommand {
	return []subcommand{
		{"storm", "let many callers loose on an engine and check what it does; flags alone mean this", runStorm},
		{"script", "run scripts and print each command with what it does", runScript},
		{"diff", "compare the engines with a model on random scripts", runDiff},
		{"linear", "take concurrent histories and check that a sequential order explains each", runLinear},
		{"mutate", "break the library on purpose and check that the tests notice", runMutate},
	}
}

func main() {
	os.Exit(run(streams{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:]))
}

func run(s streams, arguments []string) int {
	if len(arguments) == 0 {
		usage(s.err)
		return exitUsage
	}
	switch arguments[0] {
	case "help", "-h", "-help", "--help":
		usage(s.out)
		return exitOK
	}
	for _, c := range subcommands() {
		if c.name == arguments[0] {
			return c.run(s, arguments[1:])
		}
	}
	if strings.HasPrefix(arguments[0], "-") {
		return runStorm(s, arguments)
	}
	fmt.Fprintf(s.err, "stress: unknown command %q\n\n", arguments[0])
	usage(s.err)
	return exitUsage
}

// untilInterrupted returns a context that ends at an interrupt. The next one ends the
// process at once.
func untilInterrupted() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: stress COMMAND [ARGUMENT...]\n\nCommands:\n")
	for _, c := range subcommands() {
		fmt.Fprintf(w, "  %-10s%s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nstress COMMAND -h tells more about one.\n")
}
