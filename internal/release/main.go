// Release checks what a release of the modules of this repository needs, before
// anybody can fetch it.
//
//	go run ./internal/release try     v0.1.0   fetch all modules from a proxy made of the checkout
//	go run ./internal/release prepare v0.1.0   have the modules require each other at that version
//	go run ./internal/release check   v0.1.0   the commit to be tagged: tags, requirements, changelog
//
// While nothing is released, the modules require each other at v0.0.0 and are
// found by replace directives, which an importer of a module does not see. So the
// commit of a release has requirements that can be fetched, and no directive.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

const usage = `Usage: release try|prepare|check VERSION [DIRECTORY]

  try      make a local module proxy of the checkout, prepared as of VERSION, and
           fetch, build and run each module from an empty directory
  prepare  have the modules require each other at VERSION, without replace
  check    say what the commit at hand lacks to be released as VERSION

DIRECTORY is the checkout, by default the present one.

Exit status: 0, or 1 when something is lacking or fails, or 2 when the command
line is wrong.
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) < 2 || len(args) > 3 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	command, version, dir := args[0], args[1], "."
	if len(args) == 3 {
		dir = args[2]
	}
	if semver.Canonical(version) != version {
		fmt.Fprintf(stderr, "release: version %q: must be like v1.2.3\n", version)
		return 2
	}
	do, ok := map[string]func(*repository, string, io.Writer) error{"try": try, "prepare": prepare, "check": check}[command]
	if !ok {
		fmt.Fprintf(stderr, "release: command %q: must be try, prepare or check\n", command)
		return 2
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		fmt.Fprintln(stderr, "release:", err)
		return 1
	}
	r, err := open(dir)
	if err == nil {
		err = do(r, version, stdout)
	}
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			fmt.Fprintln(stderr, "release:", line)
		}
		return 1
	}
	return 0
}

// check says all that the commit at hand lacks.
func check(r *repository, version string, out io.Writer) error {
	faults := append(r.lacks(version), r.untagged(version)...)
	changelog, err := os.ReadFile(filepath.Join(r.dir, "CHANGELOG.md"))
	if err != nil || !strings.Contains(string(changelog), "\n## "+strings.TrimPrefix(version, "v")) {
		faults = append(faults, fmt.Errorf("CHANGELOG.md: no section for %s", version))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	fmt.Fprintf(out, "%d modules can be released as %s\n", len(r.released()), version)
	return nil
}
