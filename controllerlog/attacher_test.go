package controllerlog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

var aName = "csi-" + strings.Repeat("0a", 32)

// mismatched is csi-attacher's line of 4.6 and later.
func mismatched(clock, va, handle string, attached, found bool) string {
	return fmt.Sprintf(`E1120 %s.000000       1 csi_handler.go:195] %q driver="d" VolumeAttachment=%q volumeHandle=%q attachedStatus=%t found=%t`,
		clock, mismatch, va, handle, attached, found)
}

// mismatchedText is the line of 2.1 to 4.5.
func mismatchedText(clock, va, handle string, attached, found bool) string {
	return fmt.Sprintf("W1120 %s.000000       1 csi_handler.go:189] VA %s for volume %s has attached status %t but actual state %t. Adding back to VA queue for forced reprocessing",
		clock, va, handle, attached, found)
}

// mismatchedJSON is the line of 4.6 and later with --logging-format=json; 1795171200000 is
// 10:40:00 on the day of now.
const mismatchedJSON = `{"ts":1795171200000.5,"caller":"controller/csi_handler.go:195","msg":"` + mismatch + `","driver":"d","VolumeAttachment":"%s","volumeHandle":"v","attachedStatus":%s,"found":%s}`

func readAttacher(t *testing.T, lines ...string) *backend.List {
	t.Helper()
	l, err := ReadAttacher("attacher.log", strings.NewReader(strings.Join(lines, "\n")+"\n"), now)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func saidAt(hour, minute, second int, found bool) []backend.Volume {
	return []backend.Volume{{ID: "v", Silent: true, Said: []backend.Said{{VolumeAttachment: aName, At: *clock(hour, minute, second), Found: found}}}}
}

// TestAttacher: the line of each release, in all that logs go through.
func TestAttacher(t *testing.T) {
	line := mismatched("10:40:00", aName, "v", true, false)
	halfMillisecond := saidAt(10, 40, 0, true)
	halfMillisecond[0].Said[0].At = halfMillisecond[0].Said[0].At.Add(500 * time.Microsecond)
	for name, row := range map[string]struct {
		lines []string
		want  []backend.Volume
	}{
		"text, not found":          {[]string{line}, saidAt(10, 40, 0, false)},
		"text, found":              {[]string{mismatched("10:40:00", aName, "v", false, true)}, saidAt(10, 40, 0, true)},
		"up to 4.5":                {[]string{mismatchedText("10:40:00", aName, "v", true, false)}, saidAt(10, 40, 0, false)},
		"up to 4.5, found":         {[]string{mismatchedText("10:40:00", aName, "v", false, true)}, saidAt(10, 40, 0, true)},
		"JSON":                     {[]string{fmt.Sprintf(mismatchedJSON, aName, "false", "true")}, halfMillisecond},
		"a container runtime":      {[]string{"2026-11-20T10:39:00Z stderr F " + line}, saidAt(10, 39, 0, false)},
		"kubectl logs with prefix": {[]string{"[pod/ebs-0/csi-attacher] " + line}, saidAt(10, 40, 0, false)},
		"the last counts":          {[]string{line, mismatched("10:41:00", aName, "v", false, true)}, saidAt(10, 41, 0, true)},
		"out of order":             {[]string{mismatched("10:41:00", aName, "v", false, true), line}, saidAt(10, 41, 0, true)},
		"other lines":              {[]string{klog("10:30:00", "Version: v4.12.0"), "text", line, klog("10:41:30", `"Attached" VolumeAttachment="`+aName+`"`)}, saidAt(10, 40, 0, false)},
		"no mismatch":              {[]string{klog("10:30:00", "Version: v4.12.0")}, nil},
		"after the objects":        {[]string{klog("10:30:00", "x"), mismatched("10:43:00", aName, "v", true, false)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := readAttacher(t, row.lines...)
			if diff := cmp.Diff(row.want, l.Volumes); diff != "" {
				t.Error(diff)
			}
			if err := l.Check(); err != nil || l.Taken.After(now) {
				t.Errorf("%v, %s", err, l.Taken)
			}
		})
	}
}

// TestAttacherNearMisses: what is nearly the line says nothing.
func TestAttacherNearMisses(t *testing.T) {
	for name, line := range map[string]string{
		"no difference":       mismatched("10:40:00", aName, "v", true, true),
		"another name":        mismatched("10:40:00", "csi-x", "v", true, false),
		"a name in capitals":  mismatched("10:40:00", strings.ToUpper(aName), "v", true, false),
		"no handle":           mismatched("10:40:00", aName, "", true, false),
		"a handle in two":     mismatched("10:40:00", aName, "v w", true, false),
		"a control character": mismatched("10:40:00", aName, "v\x1b[31m", true, false),
		"a longer message":    strings.Replace(mismatched("10:40:00", aName, "v", true, false), "reprocessing", "reprocessing of it", 1),
		"no value":            strings.Replace(mismatched("10:40:00", aName, "v", true, false), "found=false", "", 1),
		"a word for a value":  strings.Replace(mismatched("10:40:00", aName, "v", true, false), "found=false", "found=maybe", 1),
		"a key in a value":    klog("10:40:00", fmt.Sprintf(`%q err="VolumeAttachment=%s volumeHandle=v attachedStatus=true found=false"`, mismatch, aName)),
		"in another line":     klog("10:40:00", "a driver says: "+mismatchedText("10:40:00", aName, "v", true, false)),
		"in an error": klog("10:40:00", fmt.Sprintf(`"Error processing" err=<
	%s
 >`, mismatchedText("10:40:00", aName, "v", true, false))),
		"JSON with text":    fmt.Sprintf(mismatchedJSON, aName, `"true"`, "false"),
		"JSON with null":    fmt.Sprintf(mismatchedJSON, aName, "true", "null"),
		"without a time":    fmt.Sprintf("%q VolumeAttachment=%q volumeHandle=v attachedStatus=true found=false", mismatch, aName),
		"cut in the middle": mismatched("10:40:00", aName, "v", true, false)[:200],
	} {
		if l := readAttacher(t, klog("10:30:00", "x"), line); len(l.Volumes) > 0 {
			t.Errorf("%s: %+v", name, l.Volumes)
		}
	}
}

// TestAttacherErrors: what is no such log, and one that is out of bounds, is one line.
func TestAttacherErrors(t *testing.T) {
	many := &strings.Builder{}
	for i := range backend.MaxAttachments + 1 {
		fmt.Fprintln(many, mismatched("10:40:00", fmt.Sprintf("csi-%064x", i), "v", true, false))
	}
	for name, bad := range map[string]string{
		"empty": "", "text": "hello\n", "an object": `{"apiVersion":"v1"}`, "all later": mismatched("10:50:00", aName, "v", true, false) + "\n",
		"one volume on too many nodes": many.String(), "NUL": strings.Repeat("\x00", 1000),
	} {
		if _, err := ReadAttacher("x", strings.NewReader(bad), now); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAttacherKeepsNoSecret: nothing of a line is kept but its names and its time.
func TestAttacherKeepsNoSecret(t *testing.T) {
	line := strings.Replace(mismatched("10:40:00", aName, "v", true, false), `driver="d"`, `driver="d" err="password=hunter2" secret=hunter2`, 1)
	l := readAttacher(t, klog("10:30:00", "token=hunter2"), line, "hunter2", strings.Repeat("hunter2", 1<<20))
	if text := fmt.Sprintf("%+v", *l); len(l.Volumes) != 1 || strings.Contains(text, "hunter2") {
		t.Errorf("%.300s", text)
	}
}

// FuzzAttacher: whatever a file holds, what is kept of it can stand in a snapshot.
func FuzzAttacher(f *testing.F) {
	f.Add(mismatched("10:40:00", aName, "v", true, false))
	f.Add(mismatchedText("10:40:00", aName, "v", false, true))
	f.Add(fmt.Sprintf(mismatchedJSON, aName, "true", "false"))
	f.Add(`{"log":"` + strings.ReplaceAll(mismatched("10:40:00", aName, "v", true, false), `"`, `\"`) + `\n","stream":"stderr","time":"2026-11-20T10:10:02Z"}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ReadAttacher("attacher.log", strings.NewReader(text), now)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		if err := l.Check(); err != nil {
			t.Error(err)
		}
		for i, v := range l.Volumes {
			if i > 0 && l.Volumes[i-1].ID >= v.ID || v.Settled() {
				t.Errorf("%+v", l.Volumes)
			}
			for _, said := range v.Said {
				if said.At.After(now) || said.At.After(l.Taken) {
					t.Errorf("%+v, read at %s", said, now)
				}
			}
		}
	})
}
