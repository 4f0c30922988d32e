package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// secretTexts are messages of drivers, runtimes and mount with a secret in them, and with no
// words that a check looks for.
var secretTexts = []string{
	"\nMounting command: mount\nMounting arguments: -t cifs -o username=joe,password=PLANTED //host/share /mnt\nOutput: see dmesg",
	" Post \"https://joe:PLANTED@10.0.0.1/api?token=PLANTED\": dial tcp: refused",
	` {"password":"PLANTED","secret": "PLANTED"}`, " token: PLANTED", " --api-key PLANTED", " Authorization: Bearer PLANTED123", " AccountKey=PLANTED==;EndpointSuffix=x",
	" eyJhbGciOiJIUzI1NiJ9.PLANTED.PLANTED", " AKIAPLANTED123456789", " root:PLANTED@nas1:/vol",
}

// TestNoSecretIsShown: a secret in a message reaches no report, no file, no saved plan and no
// metric, and removes no finding.
func TestNoSecretIsShown(t *testing.T) {
	long.Test(t)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	dir := t.TempDir()
	for i, c := range corpus(t) {
		s := read(t, c)
		before := diagnose.Diagnose(s, diagnose.Options{Reconcile: c.Settings})
		n := i
		planted := 0
		eachString(reflect.ValueOf(&s.Objects), "", func(path, text string) string {
			if text == "" || !strings.HasSuffix(path, ".Message") {
				return text
			}
			n++
			planted++
			return text + secretTexts[n%len(secretTexts)]
		})
		if planted == 0 {
			continue
		}
		for _, pv := range s.Volumes {
			pv.Annotations = map[string]string{"volume.beta.kubernetes.io/mount-options": "password=PLANTED"}
		}
		s.Gaps = append(s.Gaps, snapshot.Gap{Kind: "secrets", Reason: "Forbidden", Detail: `secrets is forbidden: User "PLANTED" cannot list, token=PLANTED`})
		var file bytes.Buffer
		if err := snapshot.Write(&file, snapshot.New(s.TakenAt, s.Source, s.Objects, s.Gaps)); err != nil {
			t.Fatal(err)
		}
		clean := func(what, text string) {
			t.Helper()
			if at := strings.Index(text, "PLANTED"); at >= 0 {
				t.Errorf("%s: %s shows a secret: %s", c.Name, what, text[max(0, at-80):at+8])
			}
		}
		clean("the file", file.String())

		for _, object := range s.Pods {
			trim.Object(object)
		}
		for _, object := range s.VolumeAttachments {
			trim.Object(object)
		}
		for _, object := range s.Events {
			trim.Object(object)
		}
		for _, object := range s.Nodes {
			trim.Object(object)
		}
		for _, object := range s.Claims {
			trim.Object(object)
		}
		for _, object := range s.Volumes {
			trim.Object(object)
		}
		trimmed := snapshot.New(s.TakenAt, s.Source, s.Objects, before.Gaps)
		trimmed.Backends = s.Backends
		view, repairs := repair.Examine(trimmed, c.Settings, repair.Consent{}, diagnose.Request{})
		for _, format := range output.ReportFormats.Names() {
			var b bytes.Buffer
			if err := output.ReportFormats.Print(&b, format, view.Report, output.Options{}); err != nil {
				t.Fatal(err)
			}
			clean(format, b.String())
		}
		var plan bytes.Buffer
		if err := apply.Save(view, repairs).Write(&plan); err != nil {
			t.Fatal(err)
		}
		clean("the saved plan", plan.String())
		if got, want := codesOf(view.Report), codesOf(before); got != want {
			t.Errorf("%s: the findings are\n%s\nand were\n%s", c.Name, got, want)
		}

		if i%40 != 0 {
			continue
		}
		name := filepath.Join(dir, c.Name+".yaml")
		if err := os.WriteFile(name, bytes.ReplaceAll(c.Cluster, []byte("desc = "), []byte("desc = password=PLANTED ")), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, pod := range s.Pods {
			for _, args := range [][]string{{"trace", "-f", name, "-n", pod.Namespace, "pod/" + pod.Name}, {"snapshot", "-f", name}, {"diagnose", "-f", name, "-o", "wide"}, {"plan", "-f", name}} {
				var out, errOut bytes.Buffer
				Main(args, strings.NewReader(""), &out, &errOut)
				clean(strings.Join(args, " "), out.String()+errOut.String())
			}
		}
	}
}

// codesOf are the findings, sorted: messages that differ are not grouped.
func codesOf(r *finding.Report) string {
	var lines []string
	for _, f := range r.Findings {
		lines = append(lines, string(f.Code)+" "+string(f.Severity)+" "+f.Subject.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
