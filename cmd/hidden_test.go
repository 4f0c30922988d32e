package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// steering is text that controls a terminal or is invisible in it: a title, colours, C1,
// bidirectional marks, zero-width and tag characters, blank letters.
const steering = "\x1b]0;owned\x07\x1b[2J\r\b\x7f\u009b31m\u202e\u2066\u200b\u200d\ufeff\u2028\U000e0041\U000e007f\ufe0f\U000e0100\u115f\u3164\u061c\u00ad"

// freeText are the fields that programs and drivers may fill with anything.
var freeText = []string{
	"Message", "Reason", "UID", "VolumeHandle", "NodeID", "Image", "ContainerID", "Component", "Host", "ReportingController", "Action", "SystemUUID", "ProviderID",
}

// indented matches the indentation of the library for JUnit.
var indented = regexp.MustCompile(`\n\t+`)

func hidden(text string) string {
	for i, r := range text {
		if r != '\n' && safetext.Hidden(r) {
			return fmt.Sprintf("%q in %q", r, text[max(0, i-60):min(len(text), i+20)])
		}
	}
	return ""
}

// TestNothingHidden: no command prints a character that controls the terminal or is invisible
// in it, whatever a file has in its free texts.
func TestNothingHidden(t *testing.T) {
	long.Test(t)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	cases, _ := casesWithCommands(t)
	for i, c := range cases {
		if i%4 != 0 {
			continue
		}
		s := read(t, c)
		everything := i%8 == 0
		eachString(reflect.ValueOf(&s.Objects), "", func(path, text string) string {
			field := path[strings.LastIndexByte(path, '.')+1:]
			if text == "" || !everything && field != "Message" || !slices.Contains(freeText, field) || strings.Contains(path, "CSIDrivers") {
				return text
			}
			if strings.HasSuffix(path, "Conditions.Reason") || strings.HasSuffix(path, ".Events.Reason") || strings.HasSuffix(path, ".Status.Reason") {
				return text // checks look for them
			}
			return text + steering
		})
		s.Source.ServerVersion = "v1.20.0" + steering
		s.Gaps = append(s.Gaps, snapshot.Gap{Kind: snapshot.StorageClasses, Reason: "Forbidden" + steering, Detail: "no: " + steering})
		file := filepath.Join(t.TempDir(), "case.yaml")
		var written bytes.Buffer
		if err := snapshot.Write(&written, s); err != nil {
			t.Fatal(err)
		}
		if bad := hidden(written.String()); bad != "" {
			t.Errorf("%s: the file has %s", c.Name, bad)
		}
		if err := os.WriteFile(file, written.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		var runs [][]string
		for _, format := range output.ReportFormats.Names() {
			runs = append(runs, []string{"diagnose", "-f", file, "-o", format})
		}
		for _, format := range output.PlanFormats.Names() {
			runs = append(runs, []string{"plan", "-f", file, "-o", format})
		}
		for _, format := range []string{"table", "wide", "json", "yaml"} {
			for _, pod := range s.Pods {
				runs = append(runs, []string{"trace", "-f", file, "-n", pod.Namespace, "pod/" + pod.Name, "-o", format})
				break
			}
			for _, claim := range s.Claims {
				runs = append(runs, []string{"trace", "-f", file, "-n", claim.Namespace, "pvc/" + claim.Name, "-o", format})
				break
			}
			for _, pv := range s.Volumes {
				runs = append(runs, []string{"trace", "-f", file, "pv/" + pv.Name, "-o", format})
				break
			}
			for _, node := range s.Nodes {
				runs = append(runs, []string{"preflight", "-f", file, "node/" + node.Name, "-o", format})
				break
			}
		}
		runs = append(runs, []string{"snapshot", "-f", file}, []string{"diagnose", "-f", file, "pod/no" + steering}, []string{"diagnose", "-f", file + steering},
			[]string{"diagnose", "-f", file, "--" + steering}, []string{steering}, []string{"explain", steering})
		for _, args := range runs {
			var out, errOut bytes.Buffer
			Main(args, strings.NewReader(""), &out, &errOut)
			if bad := hidden(errOut.String()); bad != "" {
				t.Errorf("%s: %q writes to stderr %s", c.Name, args, bad)
			}
			if bad := hidden(indented.ReplaceAllString(out.String(), "\n")); bad != "" && args[len(args)-1] != "html" {
				t.Errorf("%s: %q writes to stdout %s", c.Name, args, bad)
			}
		}
	}
}

// TestHiddenSurvives: a text that json and yaml escape is the same once parsed.
func TestHiddenSurvives(t *testing.T) {
	long.Test(t)
	cases, _ := casesWithCommands(t)
	c := cases[0]
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.ToValidUTF8(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			steering, `\x01`, `\u202e`, "- a: b", "# no", "'", "\"" + steering, "true", "1e3", "a\n  b\n", " ", "\n" + steering, `C:\` + steering,
		})).Draw(rt, "text"), "")
		r := (&examination{reportPrinter: reportPrinter{globalFlags: &globalFlags{}}}).examine(read(t, c))
		r.Findings[0].Message, r.Findings[0].Evidence[0].Value = text, text+steering
		want, err := json.Marshal(r)
		if err != nil {
			rt.Fatal(err)
		}
		for _, format := range []string{"json", "yaml"} {
			var b bytes.Buffer
			if err := output.ReportFormats.Print(&b, format, r, output.Options{}); err != nil {
				rt.Fatal(err)
			}
			if bad := hidden(b.String()); bad != "" {
				rt.Fatalf("%s: %s", format, bad)
			}
			var wanted, got any
			if err := json.Unmarshal(want, &wanted); err != nil {
				rt.Fatal(err)
			}
			parse := json.Unmarshal
			if format == "yaml" {
				parse = func(data []byte, into any) error { return yaml.Unmarshal(data, into) }
			}
			if err := parse(b.Bytes(), &got); err != nil {
				rt.Fatalf("%s: %v", format, err)
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				rt.Fatalf("%s: %s", format, diff)
			}
		}
	})
}

// TestSafeWriter: a character may be written in pieces, and none is lost or let through.
func TestSafeWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom([]string{steering, "\xff", "\xe2\x80", "日本", "\n", "plain "}), rapid.String()), 0, 6).Draw(t, "text")
		whole := strings.Join(text, "") + "."
		var b bytes.Buffer
		w := &safeWriter{under: &b}
		for rest := []byte(whole); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			if written, err := w.Write(rest[:n]); err != nil || written != n {
				t.Fatalf("%d %v", written, err)
			}
			rest = rest[n:]
		}
		if want := output.SafeLines(whole); b.String() != want || hidden(want) != "" {
			t.Fatalf("%q\n%q", b.String(), want)
		}
	})
	if _, err := (&safeWriter{under: failing{}}).Write([]byte("a")); err == nil {
		t.Error("an error is lost")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }
