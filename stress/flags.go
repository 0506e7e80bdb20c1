package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// newFlags returns an empty set of flags for a command. Its help is usage and the
// flags; what is wrong with a command line is told in one line by parse.
func newFlags(command, usage string) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	return flags
}

// parse reads the command line. Unless ok, the exit code is given: help was asked
// for, or a flag is wrong.
func parse(s streams, flags *flag.FlagSet, arguments []string) (code int, ok bool) {
	switch err := flags.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		help(s, flags)
		return exitOK, false
	case err != nil:
		return wrong(s, flags, "%v", err), false
	}
	return exitOK, true
}

// parseOnly is parse for a command that takes nothing but flags.
func parseOnly(s streams, flags *flag.FlagSet, arguments []string) (code int, ok bool) {
	code, ok = parse(s, flags, arguments)
	if ok && flags.NArg() > 0 {
		return wrong(s, flags, "%q: flags only", flags.Arg(0)), false
	}
	return code, ok
}

// help prints what the command does and its flags.
func help(s streams, flags *flag.FlagSet) {
	flags.SetOutput(s.err)
	flags.Usage()
}

// wrong says what is wrong with a command line, and where to read more.
func wrong(s streams, flags *flag.FlagSet, format string, args ...any) int {
	fmt.Fprintf(s.err, "stress %s: %s\nstress %s -h tells its flags.\n", flags.Name(), fmt.Sprintf(format, args...), flags.Name())
	return exitUsage
}
