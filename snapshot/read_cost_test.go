package snapshot

import (
	"strings"
	"testing"
)

func TestAbsurdNumber(t *testing.T) {
	digits := strings.Repeat("9", 65)
	for value, want := range map[string]bool{
		"1e-999999999": true, "+1.5E-9999": true, `\u0031e-9999`: true, `1e\u002d9999`: true, `1\u0065-99\u00399`: true, " 1e-9999": true,
		digits: true, digits + "Ki": true, "0." + digits: true, "1234567890123456e9999": true, "1e-9999Ki": false,
		"1e-999": false, "12e4567": false, "123e4567-e89b-12d3-a456-426614174000": false, "8127476Ki": false, "": false, `\`: false,
		strings.Repeat("-", 100): false, "node-1e-99999": false, "123456e789012345678901234567890123456789": false,
		"2026-11-20T10:00:00.000000Z": false, strings.Repeat("f", 10) + digits: false,
	} {
		if got := hasAbsurdNumber([]byte(`{"a":"` + value + `"}`)); got != want {
			t.Errorf("%s: %t, want %t", value, got, want)
		}
	}
	for _, text := range []string{`{"a":1e-99999}`, `1e-99999`, digits} {
		if !hasAbsurdNumber([]byte(text)) {
			t.Errorf("%s: not found without quotes", text)
		}
	}
}

func TestCountValues(t *testing.T) {
	for text, want := range map[string][2]int{
		`{}`: {1, 1}, `"a"`: {0, 0}, `[[],{"a":1,"b":"{[,\"{"}]`: {5, 2}, `{"a":[1,2,3]}`: {4, 2},
	} {
		if values, depth := countValues([]byte(text)); [2]int{values, depth} != want {
			t.Errorf("%s: %d values, %d deep, want %v", text, values, depth, want)
		}
	}
}
