package differ

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-3c5df8a4/turnstile/stress/model"
)

// Met is what a script met: the rules that the model counts, and how many waited.
type Met struct {
	Rules       map[string]int
	MostWaiting int
	Commands    int
}

func metBy(m *model.Model, steps []Step) Met {
	met := Met{Rules: map[string]int{}, Commands: len(steps)}
	if m != nil {
		met.Rules, met.MostWaiting = m.Seen()
	}
	for _, s := range steps {
		for _, word := range []string{"transfer", "close", "query"} {
			if strings.HasPrefix(s.Line, word) || strings.HasSuffix(s.Line, " "+word) {
				met.Rules[word]++
			}
		}
	}
	return met
}

// Tally sums up what many scripts met.
type Tally struct {
	scripts, commands int
	waited            [3]int // scripts in which more than 0, 3, 8 waited
	rules             map[string]int
}

// Add counts a script.
func (t *Tally) Add(m Met) {
	t.scripts++
	t.commands += m.Commands
	for i, n := range []int{0, 3, 8} {
		if m.MostWaiting > n {
			t.waited[i]++
		}
	}
	if t.rules == nil {
		t.rules = map[string]int{}
	}
	for rule := range m.Rules {
		t.rules[rule]++
	}
}

// String says in which share of the scripts what was met.
func (t *Tally) String() string {
	if t.scripts == 0 {
		return "no scripts"
	}
	share := func(n int) string { return fmt.Sprintf("%3d%%", 100*n/t.scripts) }
	var b strings.Builder
	fmt.Fprintf(&b, "%d scripts, %d commands; share of scripts in which\n", t.scripts, t.commands)
	for i, n := range []int{0, 3, 8} {
		fmt.Fprintf(&b, "  %s  more than %d waited\n", share(t.waited[i]), n)
	}
	var rules []string
	for rule := range t.rules {
		rules = append(rules, rule)
	}
	slices.Sort(rules)
	for _, rule := range rules {
		fmt.Fprintf(&b, "  %s  %s\n", share(t.rules[rule]), rule)
	}
	return b.String()
}
