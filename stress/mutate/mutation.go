package mutate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutation is one deliberate break.
type Mutation struct {
	// Name says what is done to the code, Breaks what goes wrong then.
	Name, Breaks string
	// Invariant is the number of the guarantee in the README that no longer holds, or
	// the rule's name.
	Invariant string
	Edits     []Edit
	Test      Test
	// Hangs: the test is expected not to end, and is stopped soon.
	Hangs bool
}

// Edit replaces a text that is exactly once in a file.
type Edit struct {
	File     string // from the root of the checkout
	Old, New string
}

// Test is a test by name, and how it is to be run.
type Test struct {
	Package string // from the root of the checkout
	Name    string // subtests by their path
	Count   int    // 0 means once
	Race    bool
	Tags    string
}

// Pattern returns the test's name as a pattern for -run.
func (t Test) Pattern() string {
	parts := strings.Split(t.Name, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	return strings.Join(parts, "/")
}

// String returns the command that runs the test.
func (t Test) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "go test ./%s -run '%s' -count=%d", t.Package, t.Pattern(), max(t.Count, 1))
	if t.Race {
		s.WriteString(" -race")
	}
	if t.Tags != "" {
		s.WriteString(" -tags " + t.Tags)
	}
	return s.String()
}

// Short returns the test as the table shows it.
func (t Test) Short() string {
	s := t.Package + " " + t.Name
	if t.Race {
		s += " -race"
	}
	if t.Tags != "" {
		s += " -tags " + t.Tags
	}
	if t.Count > 1 {
		s += fmt.Sprintf(" ×%d", t.Count)
	}
	return s
}

// Files returns the files that the mutation edits.
func (m *Mutation) Files() []string {
	var files []string
	for _, e := range m.Edits {
		if !slices.Contains(files, e.File) {
			files = append(files, e.File)
		}
	}
	return files
}

// Apply returns what the mutation makes of the files under root, by name.
func (m *Mutation) Apply(root string) (map[string]string, error) {
	changed := make(map[string]string)
	for _, e := range m.Edits {
		text, begun := changed[e.File]
		if !begun {
			read, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
			text = string(read)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("%s: the table is stale: %s has the old text %d times, not once:\n%s", m.Name, e.File, n, e.Old)
		}
		changed[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return changed, nil
}

// edit is a mutation's only edit.
func edit(file, old, replacement string) []Edit { return []Edit{{file, old, replacement}} }

// Table returns all mutations, by component.
func Table() []Mutation {
	return slices.Concat(
		sequencerTable(), ringTable(), bookingTable(), rulesTable(), capsTable(), policyTable(), lineTable(), lifecycleTable(), doorTable(), outboxTable(), queueTable(), frontTable(), epochTable(),
		poolTable(), shardsTable(), indexTable(), rankTable(), explainTable(), replicasTable(),
	)
}
