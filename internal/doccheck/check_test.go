package doccheck_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/internal/doccheck"
)

// TestThePagesAreTrue checks all pages of the repository.
func TestThePagesAreTrue(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("../../bench/go.mod"); err != nil {
		t.Skip("this is the module alone, without the pages and programs of the others")
	}
	source, err := doccheck.ReadSource(os.DirFS("../.."))
	require.NoError(t, err)
	faults, err := source.Check()
	require.NoError(t, err)
	require.Empty(t, faults, strings.Join(faults, "\n"))
}

const program = `package main

import "flag"

type Gate struct{ Width int }

func (g *Gate) Open() {}

func ExampleGate() {
	g := &Gate{}
	g.Open()
}

var quick = flag.Bool("quick", false, "")

var commands = []string{"replay"}
`

func TestCheckPage(t *testing.T) {
	t.Parallel()
	source, err := doccheck.ReadSource(fstest.MapFS{
		"bench/main.go":         {Data: []byte(program)},
		"docs/OTHER.md":         {Data: []byte("# A heading, with `code`\n\n## Twice\n\n## Twice\n")},
		"docs/p.svg":            {},
		"s/failure_01_here.txt": {},
		"bench/data.yaml":       {Data: []byte("some_key: 1")},
	})
	require.NoError(t, err)
	code := func(language string, lines ...string) string {
		return "```" + language + "\n" + strings.Join(lines, "\n") + "\n```\n"
	}
	for _, test := range []struct {
		name, page, fault string
	}{
		{"quoted code", code("go", "g := &Gate{}", "g.Open()"), ""},
		{"other code", code("go", "g := &Gate{}", "g.Shut()"), "x/P.md:2: this Go code stands in no Go file"},
		{"half a line", code("go", "g.Open"), "stands in no Go file"},
		{"other yaml", code("yaml", "turbo: 1"), ""},
		{"link", "[a](../docs/OTHER.md) [b](../docs) ![c](../docs/p.svg) [d](https://x.y/z#q)", ""},
		{"dead link", "\n[a](gone.md)", "x/P.md:2: link gone.md: there is no x/gone.md"},
		{"dead picture", `<img src="gone.svg">`, "gone.svg"},
		{"no link", "`[a](gone.md)`" + "\n" + code("", "[a](gone.md)"), ""},
		{"anchor", "[a](../docs/OTHER.md#a-heading-with-code) [b](../docs/OTHER.md#twice-1)", ""},
		{"dead anchor", "[a](../docs/OTHER.md#twice-2)", "has no such heading"},
		{"own anchor", "# Here\n[a](#here)", ""},
		{"dead own anchor", "# Here\n[a](#there)", "x/P.md has no such heading"},
		{"command", code("sh", "go run ./bench replay -quick=true # -slow", "go test -run X ./bench/..."), ""},
		{"unknown flag", code("sh", "", "cd x && go run ./bench -slow"), "x/P.md:3: go run ./bench -slow: ./bench defines no flag -slow"},
		{"unknown command", "`go run ./bench dance`", "knows no command dance"},
		{"unknown package", "`go test ./gone/...`", "there is no ./gone/..."},
		{"names", "`Gate.Open` `Gate.Width` `main.Gate` `ExampleGate` `some_key` `main.go` `docs/OTHER.md` `Fine.Print`", ""},
		{"tests", "see ExampleGate, and failure_01_here", ""},
		{"unknown test", "| x | TestNothing (bench) |", "x/P.md:1: TestNothing: there is no such test or script"},
		{"unknown script", "failure_02_gone", "there is no such test or script"},
		{"unknown method", "`Gate.Shut()`", "Gate has no such member"},
		{"unknown name", "`main.Door`", "main has no such member"},
		{"unknown camel", "`NoSuchThing`", "no Go file has this name"},
		{"unknown key", "`other_key`", "no file speaks of it"},
		{"unknown file", "`bench/gone.go`", "no such file"},
	} {
		faults := source.CheckPage("x/P.md", test.page)
		if test.fault == "" {
			require.Empty(t, faults, test.name)
			continue
		}
		require.Len(t, faults, 1, test.name)
		require.Contains(t, faults[0], test.fault, test.name)
	}
}
