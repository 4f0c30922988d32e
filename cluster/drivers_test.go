package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

const (
	linstorGroup  = "/apis/internal.linstor.linbit.com"
	linstorTable  = linstorGroup + "/v1-33-1/resources"
	linstorPrefer = `{"kind": "APIGroup", "preferredVersion": {"groupVersion": "internal.linstor.linbit.com/v1-33-1", "version": "v1-33-1"}}`
	publications  = "/apis/trident.netapp.io/v1/tridentvolumepublications"
	longhorn      = "/apis/longhorn.io/v1beta2/"
)

// linstorPage is a page of LINSTOR's table; next is where the following one begins.
func linstorPage(next string, rows ...[2]string) string {
	var items []string
	for _, row := range rows {
		items = append(items, fmt.Sprintf(`{"apiVersion": "internal.linstor.linbit.com/v1-33-1", "kind": "Resources", "metadata": {"name": "x"}, "spec": {"resource_name": %q, "node_name": %q}}`, row[0], row[1]))
	}
	return fmt.Sprintf(`{"apiVersion": "internal.linstor.linbit.com/v1-33-1", "kind": "ResourcesList", "metadata": {"continue": %q}, "items": [%s]}`, next, strings.Join(items, ","))
}

// driverAPI is an API server with the drivers, and with the answers by path; those of a
// path that has several come one after the other. No answer is a refusal.
func driverAPI(t *testing.T, installed []string, answers map[string][]string) *api {
	a := newAPI(t)
	var list storagev1.CSIDriverList
	for _, name := range installed {
		list.Items = append(list.Items, storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	a.serve("/apis/storage.k8s.io/v1/csidrivers", &list)
	for path := range answers {
		a.fail(path, forbidden("x"))
	}
	a.raw = func(w http.ResponseWriter, r *http.Request) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		left := answers[r.URL.Path]
		if len(left) == 0 {
			return false
		}
		answers[r.URL.Path] = left[1:]
		_, _ = fmt.Fprint(w, left[0])
		return true
	}
	return a
}

func driverSnapshot(t *testing.T, a *api) (s *snapshot.Snapshot, notes []string) {
	t.Helper()
	s, err := a.cluster(Options{PageSize: PageSize, Drivers: func(note string) { notes = append(notes, note) }}).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s, notes
}

// TestDriverObjects: the objects of installed drivers are read whole, before what they
// are held against.
func TestDriverObjects(t *testing.T) {
	a := driverAPI(t, []string{"linstor.csi.linbit.com", "csi.trident.netapp.io", "ebs.csi.aws.com"}, map[string][]string{
		linstorGroup: {linstorPrefer},
		linstorTable: {linstorPage("2", [2]string{"PVC-1", "N1"}), linstorPage("", [2]string{"PVC-1", "N2"})},
		publications: {onePublication},
	})
	var volumes corev1.PersistentVolumeList
	for _, handle := range []string{"published", "free"} {
		pv := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: handle}}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.trident.netapp.io", VolumeHandle: handle}
		volumes.Items = append(volumes.Items, pv)
	}
	a.serve("/api/v1/persistentvolumes", &volumes)
	s, notes := driverSnapshot(t, a)
	want := []*backend.List{
		{File: "trident (objects)", Format: backend.Trident, Taken: serverTime, Volumes: []backend.Volume{
			{ID: "free"}, {ID: "published", Attachments: []backend.Attachment{{Machine: "n1"}}},
		}},
		{File: "linstor (objects)", Format: backend.LINSTOR, Taken: serverTime, Volumes: []backend.Volume{{ID: "pvc-1", Silent: true, Only: []string{"n1", "n2"}}}},
	}
	slices.SortFunc(want, func(x, y *backend.List) int { return strings.Compare(y.File, x.File) })
	slices.SortFunc(s.Backends, func(x, y *backend.List) int { return strings.Compare(y.File, x.File) })
	if diff := cmp.Diff(want, s.Backends); diff != "" || len(notes) > 0 || len(s.Gaps) > 0 {
		t.Errorf("%s%v%v", diff, notes, s.Gaps)
	}
	last, first := 0, len(a.requests)
	for i, r := range a.requests {
		switch {
		case strings.Contains(r.path, "linstor") || strings.Contains(r.path, "trident"):
			last = i
		case r.path != "/version" && !strings.HasSuffix(r.path, "/csidrivers"):
			first = min(first, i)
		}
	}
	if last > first {
		t.Error("a driver's object was read after what it is held against")
	}
	if n := len(a.to("/apis/storage.k8s.io/v1/csidrivers")); n != 1 {
		t.Errorf("the CSIDrivers were read %d times", n)
	}
}

// TestNoDriverObjects: without a driver of which objects are known nothing more is asked
// than without the option. What is refused or not there is no gap, and what answers
// something else is a note, and says nothing.
func TestNoDriverObjects(t *testing.T) {
	a := driverAPI(t, []string{"ebs.csi.aws.com"}, nil)
	s, notes := driverSnapshot(t, a)
	b := driverAPI(t, []string{"ebs.csi.aws.com"}, nil)
	if _, err := b.cluster(Options{PageSize: PageSize}).Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Backends != nil || len(notes) > 0 || len(a.requests) != len(b.requests) {
		t.Errorf("%v %v, %d requests, and %d without", s.Backends, notes, len(a.requests), len(b.requests))
	}
	row := func(text string) map[string][]string {
		return map[string][]string{linstorGroup: {linstorPrefer}, linstorTable: {text}}
	}
	foreign := strings.Replace(linstorPage("", [2]string{"PVC-1", "N1"}), `"Resources"`, `"Volumes"`, 1)
	for name, test := range map[string]struct {
		answers map[string][]string
		note    string
	}{
		"refused":               {map[string][]string{linstorGroup: nil}, ""},
		"the table is refused":  {map[string][]string{linstorGroup: {linstorPrefer}, linstorTable: nil}, ""},
		"the next page is":      {row(linstorPage("2", [2]string{"PVC-1", "N1"})), ""},
		"another kind":          {row(foreign), `has an object of kind "Volumes"`},
		"no list":               {row(`{"kind": "Status"}`), "no list of resources"},
		"no JSON":               {row(`<html>`), "are not used"},
		"a version of a path":   {map[string][]string{linstorGroup: {`{"preferredVersion": {"version": "../../../api/v1/secrets"}}`}}, "names no version"},
		"pages without an end":  {row(linstorPage("2")), "or a page without any"},
		"a hostile node":        {row(linstorPage("", [2]string{"PVC-1", "a b"})), "which is no machine"},
		"larger than it may be": {row(`{"items": [{"x": "` + strings.Repeat("x", 300<<10) + `"}]}`), "are not used"},
	} {
		a := driverAPI(t, []string{"linstor.csi.linbit.com"}, test.answers)
		s, notes := driverSnapshot(t, a)
		said := strings.Join(notes, "\n")
		if s.Backends != nil || len(s.Gaps) > 0 || (test.note == "") != (said == "") || !strings.Contains(said, test.note) || strings.ContainsAny(said, "\n\x1b") {
			t.Errorf("%s: %v %v %q", name, s.Backends, s.Gaps, said)
		}
	}
}

// TestHalfOfADriversObjects: a driver's objects count as a whole or not at all, and those
// of another driver all the same.
func TestHalfOfADriversObjects(t *testing.T) {
	a := driverAPI(t, []string{"driver.longhorn.io", "jiva.csi.openebs.io"}, map[string][]string{
		longhorn + "volumes":           {`{"items": [{"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": "v"}, "spec": {"accessMode": "rwo"}, "status": {"state": "detached"}}]}`},
		longhorn + "volumeattachments": nil,
		"/apis/openebs.io/v1/jivavolumes": {
			`{"items": [{"apiVersion": "openebs.io/v1", "kind": "JivaVolume", "metadata": {"name": "v", "labels": {"nodeID": "n1"}}}]}`,
		},
	})
	s, notes := driverSnapshot(t, a)
	if len(s.Backends) != 1 || s.Backends[0].Format != backend.Jiva || len(notes) > 0 || s.Backends[0].Taken.Sub(serverTime) > time.Second {
		t.Errorf("%+v %v", s.Backends, notes)
	}
}

const onePublication = `{"items": [{"apiVersion": "trident.netapp.io/v1", "kind": "TridentVolumePublication", "metadata": {"name": "v.n1"}, "volumeID": "published", "nodeID": "n1"}]}`

// TestWatchDriverObjects: the first snapshot of a watch has the drivers' objects, and each
// has the volumes that have come since.
func TestWatchDriverObjects(t *testing.T) {
	a := driverAPI(t, []string{"csi.trident.netapp.io"}, map[string][]string{publications: {onePublication}})
	a.noProtobuf = true
	answers := a.raw
	s := a.streams()
	a.raw = func(w http.ResponseWriter, r *http.Request) bool { return s.answer(w, r) || answers(w, r) }
	w := begin(t, a, Options{PageSize: PageSize, Drivers: func(note string) { t.Error(note) }})
	first := until(t, w, "no gap", func(s *snapshot.Snapshot) bool { return len(s.Gaps) == 0 })
	published := backend.Volume{ID: "published", Attachments: []backend.Attachment{{Machine: "n1"}}}
	ids := func(s *snapshot.Snapshot) []backend.Volume {
		if len(s.Backends) != 1 || s.Backends[0].Taken.After(s.TakenAt) {
			t.Fatalf("%v at %s", s.Backends, s.TakenAt)
		}
		return s.Backends[0].Volumes
	}
	if diff := cmp.Diff([]backend.Volume{published}, ids(first)); diff != "" {
		t.Error(diff)
	}
	const path = "/api/v1/persistentvolumes"
	until(t, w, "a stream of volumes", func(*snapshot.Snapshot) bool { return s.stream(path) != nil })
	pv := corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{Kind: "PersistentVolume", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "free"}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.trident.netapp.io", VolumeHandle: "free"}
	s.stream(path) <- event(t, "ADDED", pv)
	got := until(t, w, "the volume", func(s *snapshot.Snapshot) bool { return len(s.Volumes) == 1 })
	if diff := cmp.Diff([]backend.Volume{{ID: "free"}, published}, ids(got)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]backend.Volume{published}, ids(first)); diff != "" {
		t.Errorf("an earlier snapshot has changed: %s", diff)
	}
}

// TestDriverObjectsStay: what cannot be read again stays as it was read, and what can is
// replaced.
func TestDriverObjectsStay(t *testing.T) {
	var d driversFollowed
	list := func(f backend.Format, minute int) *backend.List {
		return &backend.List{Format: f, Taken: serverTime.Add(time.Duration(minute) * time.Minute)}
	}
	for minute, read := range [][]*backend.List{
		{list(backend.Trident, 0), list(backend.Longhorn, 0)},
		{list(backend.Longhorn, 1)},
		nil,
		{list(backend.Trident, 3)},
	} {
		d.take(read)
		asked, lists := d.now()
		got := map[backend.Format]int{}
		for _, l := range lists {
			got[l.Format] = int(l.Taken.Sub(serverTime).Minutes())
		}
		want := []map[backend.Format]int{
			{backend.Trident: 0, backend.Longhorn: 0}, {backend.Trident: 0, backend.Longhorn: 1}, {backend.Trident: 0, backend.Longhorn: 1}, {backend.Trident: 3, backend.Longhorn: 1},
		}[minute]
		if diff := cmp.Diff(want, got); diff != "" || !asked || len(lists) != 2 {
			t.Errorf("minute %d: %s", minute, diff)
		}
	}
}

// TestNotes: each note is written once, in one line.
func TestNotes(t *testing.T) {
	var b strings.Builder
	note := Notes(&b, true)
	for range 2 {
		note("a\x1b[2J")
	}
	if note("b"); b.String() != "note: a?[2J\nnote: b\n" {
		t.Errorf("%q", b.String())
	}
	if Notes(&b, false) != nil {
		t.Error("not wanted, and written")
	}
}

// FuzzDriverPage: whatever answers for a driver's objects, the reading ends with a list or
// with an error of one line.
func FuzzDriverPage(f *testing.F) {
	f.Add(0, linstorPage("2", [2]string{"PVC-1", "N1"}))
	f.Add(2, `{"items": [{"apiVersion": "trident.netapp.io/v1", "kind": "TridentVolumePublication", "metadata": {"name": "v.n1"}, "volumeID": "v", "nodeID": "n1"}]}`)
	f.Fuzz(func(t *testing.T, which int, text string) {
		kind := backend.Kinds[max(0, which%len(backend.Kinds))]
		var all backend.Objects
		_, _, err := all.AddPage(kind, []byte(text))
		if err == nil {
			var lists []*backend.List
			if lists, err = all.Lists(serverTime); err == nil {
				for _, l := range lists {
					if err := l.Check(); err != nil || l.Format != kind.Format {
						t.Fatalf("%s: %v", l.Format, err)
					}
				}
			}
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Fatalf("%q", err)
		}
	})
}
