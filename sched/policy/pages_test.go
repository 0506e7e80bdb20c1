package policy_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/internal/doccheck"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// faultsIn returns what is wrong with the policies in the pages, and how many there
// are.
func faultsIn(t *testing.T, source *doccheck.Source) (faults []string, policies int) {
	t.Helper()
	require.NoError(t, source.Blocks("yaml", func(file string, b doccheck.Block) {
		text := strings.Join(b.Lines, "\n")
		if !strings.Contains(text, "policy_classes:") {
			return
		}
		policies++
		parsed, err := policy.Parse([]byte(text))
		if err != nil {
			faults = append(faults, file+": "+err.Error())
			return
		}
		for _, warning := range parsed.Warnings {
			faults = append(faults, file+": "+warning)
		}
	}))
	return faults, policies
}

// TestPoliciesInThePages: policies in the documentation are read without an error or
// a warning.
func TestPoliciesInThePages(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("../../bench/go.mod"); err != nil {
		t.Skip("this is the module alone, without the pages and programs of the others")
	}
	source, err := doccheck.ReadSource(os.DirFS("../.."))
	require.NoError(t, err)
	faults, policies := faultsIn(t, source)
	require.Empty(t, faults)
	require.Positive(t, policies)
}

// Faults of a policy in a page are found.
func TestFaultsInPagesAreFound(t *testing.T) {
	t.Parallel()
	const sound = "default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: b}]\npolicy_classes:\n" +
		"  - {name: c, policy_family: f, cache_bucket: b, quantum: 1}\n"
	for _, test := range []struct{ yaml, fault string }{
		{sound, ""},
		{sound + "turbo: 1\n", "turbo"},
		{sound + "worker_selection: {}\n", "worker_selection"},
		{"turbo: 1\n", ""},
	} {
		source, err := doccheck.ReadSource(fstest.MapFS{"x/P.md": {Data: []byte("```yaml\n" + test.yaml + "```\n")}})
		require.NoError(t, err)
		faults, _ := faultsIn(t, source)
		if test.fault == "" {
			require.Empty(t, faults)
			continue
		}
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], test.fault)
		require.Contains(t, faults[0], "x/P.md")
	}
}
