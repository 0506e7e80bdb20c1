package embedded_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas/embedded"
)

func readNames(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Later versions of the client and the server need a later Go than this module says.
func TestVersionsArePinned(t *testing.T) {
	t.Parallel()
	for file, pins := range map[string][]string{
		"../go.mod": {`(?m)^go 1\.25(\.0)?$`, `nats-io/nats\.go v1\.5[123]\.`},
		"go.mod":    {`(?m)^go 1\.25(\.0)?$`, `nats-io/nats\.go v1\.5[123]\.`, `nats-io/nats-server/v2 v2\.14\.[0-5]\n`},
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, pin := range pins {
			require.Regexp(t, regexp.MustCompile(pin), string(text), file)
		}
	}
}

func TestNodesThatCannotBe(t *testing.T) {
	t.Parallel()
	open := t.TempDir()
	require.NoError(t, os.Chmod(open, 0o755))
	file := filepath.Join(open, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for want, config := range map[string]embedded.Config{
		"others than its owner": {Name: "a", Dir: open},
		"not a directory":       {Name: "a", Dir: file},
		"need a secret":         {Name: "a", Seeds: []string{"127.0.0.1:1"}},
		"missing port":          {Name: "a", Listen: "127.0.0.1", Dir: t.TempDir() + "/x"},
		"must be a number":      {Name: "a", Listen: "127.0.0.1:http", Dir: t.TempDir() + "/x"},
		"a name is needed":      {Dir: t.TempDir() + "/x"},
		"words with dots":       {Name: "a", Pool: "a.*", Dir: t.TempDir() + "/x"},
	} {
		_, err := embedded.Open(config)
		require.ErrorContains(t, err, want)
	}
}
