package engines

import (
	"regexp"
	"slices"
	"strings"
)

// Pending are the words of the rules that only the model has so far: what has one in
// it runs on the model alone.
var Pending = []string{
}

// Knowing returns those of some engines that know all the rules a text needs.
func Knowing(all []Engine, text string) []Engine {
	if !slices.ContainsFunc(Pending, func(word string) bool { return strings.Contains(text, word) }) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(e Engine) bool { return e.Name != Model })
}

// Without returns a policy without the keys that are pending.
func Without(policy string) string {
	for _, word := range Pending {
		policy = regexp.MustCompile(", "+word+": [^,}]+").ReplaceAllString(policy, "")
	}
	return policy
}
