package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRecord: a record that was cut off says so, and a failure is named.
func TestRecord(t *testing.T) {
	page := filepath.Join(t.TempDir(), "fuzzing.md")
	good := &target{pkg: "snapshot", name: "FuzzRead", about: "holds a|b"}
	bad := &target{pkg: "cluster", name: "FuzzPage"}
	seed := &target{pkg: "repair", name: "FuzzCommand"}
	began := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	r := &record{targets: []*target{good, bad, seed, {pkg: "cmd", name: "FuzzTarget"}, {pkg: "repair", name: "FuzzOther"}}, asked: time.Hour, jobs: 9, page: page, began: began, now: func() time.Time { return began }}
	r.before = map[string]string{"cmd.FuzzTarget": "| `cmd.FuzzTarget` | of another day |\n", "cmd.FuzzPage": "| `cmd.FuzzPage` | of another day |\n", "repair.FuzzCommand": "| gone |\n"}
	for line := range strings.Lines(`fuzz: elapsed: 0s, gathering baseline coverage: 7/7 completed, now fuzzing with 1 workers
fuzz: elapsed: 3s, execs: 5897 (1965/sec), new interesting: 54 (total: 56)
fuzz: elapsed: 1h0m0s, execs: 1234567 (0/sec), new interesting: 1083 (total: 1085)
`) {
		r.note(func() { good.read(strings.TrimSpace(line)) })
	}
	good.state = running
	good.cpu = 41 * time.Minute
	bad.read("fuzz: elapsed: 18s, execs: 12683 (1342/sec), new interesting: 148 (total: 541)")
	bad.read("    Failing input written to testdata/fuzz/FuzzPage/fe3d563cb191039e")
	bad.state = failed
	seed.read("failure while testing seed corpus entry: FuzzCommand/seed#28")
	seed.state = failed
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `snapshot.FuzzRead` | holds a\\|b | 2026-11-22 | 1,234,567 | 1h | 41m | 1,083 | 0, cut off |\n",
		"| `cluster.FuzzPage` |  | 2026-11-22 | 12,683 | 18s |  | 148 | 1: testdata/fuzz/FuzzPage/fe3d563cb191039e |\n",
		"| `repair.FuzzCommand` |  | 2026-11-22 | 0 | 0s |  | 0 | 1: FuzzCommand/seed#28 |\n",
		"| `cmd.FuzzPage` | of another day |\n| `cmd.FuzzTarget` | of another day |\n", "| `repair.FuzzOther` |  | 2026-11-22 | 0 | 0s |  | 0 | not run |\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if kept, err := rows(page); err != nil || len(kept) != 6 || kept["cmd.FuzzTarget"] != "| `cmd.FuzzTarget` | of another day |\n" {
		t.Errorf("%v, %v", kept, err)
	}
	good.state = finished
	if r.text(); good.failures() != "0" {
		t.Error(good.failures())
	}
}

func TestLinesAreWhole(t *testing.T) {
	var got []string
	l := &lines{each: func(line string) { got = append(got, line) }}
	for _, part := range []string{"a\nb", "c\n", "\n", "d"} {
		if _, err := l.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Join(got, "|") != "a|bc|" || len(l.last) != 3 {
		t.Errorf("%q, %q", got, l.last)
	}
}

// TestComments: each fuzz target has a comment that says what it checks.
func TestComments(t *testing.T) {
	for _, pkg := range []string{"snapshot", "cluster", "repair", "repair/apply", "diagnose", "cmd", "output"} {
		about, err := comments(filepath.Join("..", "..", pkg))
		if err != nil || len(about) == 0 {
			t.Fatalf("%s: %v, %v", pkg, about, err)
		}
		for name, text := range about {
			if text == "" {
				t.Errorf("%s.%s has no comment", pkg, name)
			}
		}
	}
}
