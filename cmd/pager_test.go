package cmd

import (
	"strings"
	"testing"
)

func TestRendered(t *testing.T) {
	got := rendered("# VD301 x\n\nThe node's `volumesAttached`, over\ntwo `lines of\ntext`.\n\n## Symptom\n")
	for _, mark := range []string{"#", "`"} {
		if strings.Contains(got, mark) {
			t.Errorf("%q is left in %q", mark, got)
		}
	}
	for _, want := range []string{"\x1b[1mVD301 x\x1b", "\x1b[36mvolumesAttached\x1b", "\x1b[1mSymptom\x1b"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

func TestPager(t *testing.T) {
	for _, test := range []struct {
		value string
		want  string
	}{{"cat", ""}, {"", ""}, {"more", "more"}} {
		if got := pagerOf(func(string) (string, bool) { return test.value, true }); got != test.want {
			t.Errorf("PAGER=%s: %q", test.value, got)
		}
	}
}
