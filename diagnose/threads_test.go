package diagnose_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// thread is one file of testdata/threads: a public discussion, rebuilt as a
// cluster from what its participants pasted. The comment at the top of the file
// has one field a paragraph:
//
//	thread      the address
//	title       its title
//	driver      the driver that it is about, or a sentence where it names none
//	read        whole, or excerpt where only parts could be read
//	symptom     what went wrong, in about five words
//	conclusion  the cause that its participants found, in our words
//	expected    the failure modes that would name that cause
//	means       the meanings of an error's words that would name it, where the cause is told by
//	            words alone; a finding with another meaning does not name the cause
//	batch       the day on which the expectation was written down, before the command was run
//	            on the thread for the first time; none for the threads that the checks were
//	            built on
//	first       the score of that first run
//	own-entry   the words that were put into the table of words for this thread, if any
//	completed   the check that was added to expected after the first run, if any, since its
//	            words have a meaning that was expected
//	wrong       the checks that would blame something that the thread refutes
//	pods        the pods that hung, or none
//	filled-in   what the thread does not show and the case has all the same
type thread struct {
	name    string
	fields  map[string]string
	cluster *snapshot.Snapshot
}

func readThreads(t *testing.T) []thread {
	t.Helper()
	paths, err := filepath.Glob("../testdata/threads/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	threads := make([]thread, 0, len(paths))
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(archive.Files) != 1 || archive.Files[0].Name != "cluster.yaml" {
			t.Fatalf("%s must have one file, cluster.yaml", path)
		}
		s, warnings, err := snapshot.Read(path, bytes.NewReader(archive.Files[0].Data), snapshot.ReadOptions{})
		if err != nil || len(warnings) > 0 || len(s.Gaps) > 0 {
			t.Fatalf("%s: %v, warnings %v, gaps %v", path, err, warnings, s.Gaps)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		threads = append(threads, thread{name, threadFields(string(archive.Comment)), s})
	}
	return threads
}

// threadFields reads "key: value" lines. A line that begins with a space continues the value
// before it.
func threadFields(comment string) map[string]string {
	fields := map[string]string{}
	var last string
	for line := range strings.Lines(comment) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, " ") {
			fields[last] += " " + strings.TrimSpace(line)
			continue
		}
		var value string
		last, value, _ = strings.Cut(line, ":")
		fields[last] = strings.TrimSpace(value)
	}
	return fields
}

func (th thread) list(field string) []string {
	if th.fields[field] == "none" {
		return nil
	}
	return strings.Fields(th.fields[field])
}

var threadAddressPattern = regexp.MustCompile(`^https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)$`)

// threadAddress is the repository and the number of an issue or pull request; empty for an
// address of another form.
func threadAddress(url string) (repository, number string) {
	if m := threadAddressPattern.FindStringSubmatch(url); m != nil {
		return m[1], m[2]
	}
	return "", ""
}

// TestThreadFiles checks the form of the files: a malformed one would make the score worthless.
func TestThreadFiles(t *testing.T) {
	var known []string
	for _, c := range diagnose.Checks() {
		known = append(known, c.Name)
	}
	addresses, drivers := map[string]string{}, map[string]bool{}
	for _, th := range readThreads(t) {
		url := th.fields["thread"]
		if _, number := threadAddress(url); number == "" {
			t.Errorf("%s: %q is not the address of a thread", th.name, url)
		}
		if other := addresses[url]; other != "" {
			t.Errorf("%s and %s are the same thread", th.name, other)
		}
		addresses[url] = th.name
		if driver := th.fields["driver"]; !strings.Contains(driver, " ") {
			drivers[driver] = true
		}
		for _, field := range []string{"title", "driver", "symptom", "conclusion", "expected", "pods", "filled-in"} {
			if th.fields[field] == "" {
				t.Errorf("%s: no %s", th.name, field)
			}
		}
		if !slices.Contains([]string{"whole", "excerpt"}, th.fields["read"]) {
			t.Errorf("%s: read: %q", th.name, th.fields["read"])
		}
		for _, check := range append(th.list("expected"), th.list("wrong")...) {
			if !slices.Contains(known, check) {
				t.Errorf("%s: no failure mode is called %q", th.name, check)
			}
		}
		for _, meaning := range th.list("means") {
			if _, ok := driverwords.Meaning(meaning).About(); !ok {
				t.Errorf("%s: no words mean %q", th.name, meaning)
			}
		}
		if (th.fields["batch"] == "") != (th.fields["first"] == "") {
			t.Errorf("%s: batch %q, and at the first run %q", th.name, th.fields["batch"], th.fields["first"])
		}
		th.checkCluster(t)
	}
	if len(addresses) < 60 || len(drivers) < 20 {
		t.Errorf("%d threads about %d drivers, want at least 60 about 20", len(addresses), len(drivers))
	}
}

func (th thread) checkCluster(t *testing.T) {
	t.Helper()
	release, err := version.ParseGeneric(th.cluster.Source.ServerVersion)
	if err != nil || release.LessThan(version.MustParseGeneric("1.26")) || release.AtLeast(version.MustParseGeneric("1.38")) {
		t.Errorf("%s: release %q is not modelled", th.name, th.cluster.Source.ServerVersion)
	}
	for _, name := range th.list("pods") {
		ns, pod, _ := strings.Cut(name, "/")
		if th.cluster.Pod(types.NamespacedName{Namespace: ns, Name: pod}) == nil {
			t.Errorf("%s: no pod %s", th.name, name)
		}
	}
	handles := map[string]string{}
	for _, pv := range th.cluster.Volumes {
		if pv.Spec.CSI != nil {
			handles[pv.Name] = pv.Spec.CSI.VolumeHandle
		}
	}
	for _, va := range th.cluster.VolumeAttachments {
		handle := handles[*va.Spec.Source.PersistentVolumeName]
		sum := sha256.Sum256([]byte(handle + va.Spec.Attacher + va.Spec.NodeName))
		if want := "csi-" + hex.EncodeToString(sum[:]); va.Name != want {
			t.Errorf("%s: VolumeAttachment %s should be %s", th.name, va.Name, want)
		}
	}
}
