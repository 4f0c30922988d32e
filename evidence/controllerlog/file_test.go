package controllerlog

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestControllerSurvivesFile: what a log proved is the same after it was written to a file
// and read back, in more than one document, and without secrets.
func TestControllerSurvivesFile(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 59, 0, 500, time.UTC)
	c := &snapshot.Controller{Release: "v1.36.3", Identity: "cp1_a", Started: &at, First: at, Last: at.Add(time.Minute), Verbose: true, Flags: map[string]string{"v": "2"}}
	for i := range 2500 {
		volume := corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/csi/d^%05d", i))
		c.Pairs = append(c.Pairs, snapshot.RememberedPair{Volume: volume, Node: "n1", States: []snapshot.Remembered{snapshot.RememberedAttached}, Since: &at, Running: snapshot.DetachOperation, RunningSince: &at})
		c.BackOffs = append(c.BackOffs, snapshot.BackOff{Volume: volume, Operation: snapshot.AttachOperation, Until: at, Doubtful: true})
		if i < 10 {
			c.Unclear = append(c.Unclear, volume)
		}
	}
	c.Pairs[3].LastError, c.Pairs[3].LastErrorAt = "password=hunter2\u001b[31m", &at
	s := snapshot.New(at.Add(time.Minute), snapshot.Source{}, snapshot.Objects{}, nil)
	s.Controller = c
	var file bytes.Buffer
	if err := snapshot.Write(&file, s); err != nil {
		t.Fatal(err)
	}
	if text := file.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "\x1b") || c.Pairs[3].LastError == "" {
		t.Error("the file is not safe to share")
	}
	again, warnings, err := snapshot.Read("case.yaml", &file, snapshot.ReadOptions{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	c.Pairs[3].LastError = safetext.Redact(c.Pairs[3].LastError)
	if diff := cmp.Diff(c, again.Controller); diff != "" {
		t.Error(diff)
	}
}

// TestControllerOfAStranger: a document that cannot come from a log is refused in one line.
func TestControllerOfAStranger(t *testing.T) {
	head := "apiVersion: volume-doctor/v1\nkind: Snapshot\ntakenAt: \"2026-11-20T10:00:00Z\"\ncomplete: []\nobjects: 0\n---\n"
	document := func(rest string) string { return "apiVersion: volume-doctor/v1\nkind: Controller\n" + rest }
	span := "first: \"2026-11-20T09:00:00Z\"\nlast: \"2026-11-20T10:00:00Z\"\n"
	for name, text := range map[string]string{
		"without its times":   document(""),
		"a state since never": document(span + `pairs: [{volume: v, node: n, states: [Absent]}]`),
		"two":                 document(span) + "---\n" + document(strings.Replace(span, "10:00", "09:30", 1)),
	} {
		if _, _, err := snapshot.Read("case.yaml", strings.NewReader(head+text), snapshot.ReadOptions{}); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s, _, err := snapshot.Read("case.yaml", strings.NewReader(head+document(span)), snapshot.ReadOptions{}); err != nil || s.Controller == nil {
		t.Error(err)
	}
}
