package snapshot

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

// TestUsualNames: a name that is not asked of the library is one that it takes.
func TestUsualNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9.\-A_]{0,5}([a-z0-9]{0,30}[.\-]{0,2}[a-z0-9]{0,30}){0,3}`).Draw(t, "name")
		for rule, rules := range map[string][2]func(string) []string{
			"label":     {isLabel, validation.IsDNS1123Label},
			"subdomain": {isSubdomain, validation.IsDNS1123Subdomain},
		} {
			if got, want := rules[0](name), rules[1](name); len(got) != len(want) {
				t.Fatalf("%s %q: %v, not %v", rule, name, got, want)
			}
		}
	})
}
