package main

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

// differentialChecks is how many scripts are tried unless -rapid.checks says
// otherwise.
const differentialChecks = "1000"

// TestDifferential has every engine decide random scripts as the model does.
// go run ./stress diff does the same for longer.
func TestDifferential(t *testing.T) {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": differentialChecks, "rapid.shrinktime": shrinkTime} {
		if !given[name] {
			require.NoError(t, flag.Set(name, value))
		}
	}
	search := newSearch()
	defer func() { t.Logf("%v", search.tally.String()) }()
	defer search.report(t)
	search.run(t)
}
