package snapshot

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const (
	mainRoot     = "quay-io-openshift-must-gather-sha256-0a1b2c/"
	otherRoot    = "registry-local-storage-must-gather-sha256-3d4e5f/"
	support      = "support-bundle-2026-11-20T10_00_10/"
	supportFiles = support + "cluster-resources/"
)

// bundle is one of the miniature bundles, without the file that is put beside
// it.
func bundle(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	dir := os.DirFS("../testdata/snapshots/bundles/" + name)
	err := fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || isBeside(p) {
			return err
		}
		text, err := fs.ReadFile(dir, p)
		files[p] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func beside(t testing.TB, name string) *fstest.MapFile {
	t.Helper()
	for _, p := range []string{"volume-doctor.yaml", support + "volume-doctor.yaml"} {
		if text, err := os.ReadFile("../testdata/snapshots/bundles/" + name + "/" + p); err == nil {
			return &fstest.MapFile{Data: text}
		}
	}
	t.Fatalf("nothing stands beside %s", name)
	return nil
}

// packed is the bundle as an archive with one folder at its top, backwards: an
// archive has its files in any order.
func packed(t testing.TB, files fstest.MapFS) string {
	t.Helper()
	var texts []string
	names := slices.Sorted(maps.Keys(files))
	slices.Reverse(names)
	for _, p := range names {
		texts = append(texts, "./top/"+p, string(files[p].Data))
	}
	return zipped(tarOf(t, texts...))
}

// TestReadBundle: what a bundle holds is read, and what it does not prove is a
// gap, whether it is a directory or an archive.
func TestReadBundle(t *testing.T) {
	put := func(p, text string) func(testing.TB, fstest.MapFS) {
		return func(_ testing.TB, files fstest.MapFS) { files[p] = &fstest.MapFile{Data: []byte(text)} }
	}
	drop := func(p string) func(testing.TB, fstest.MapFS) {
		return func(t testing.TB, files fstest.MapFS) {
			if files[p] == nil {
				t.Fatalf("no %s", p)
			}
			delete(files, p)
		}
	}
	halve := func(p string) func(testing.TB, fstest.MapFS) {
		return func(_ testing.TB, files fstest.MapFS) {
			files[p] = &fstest.MapFile{Data: files[p].Data[:len(files[p].Data)/2]}
		}
	}
	both := func(changes ...func(testing.TB, fstest.MapFS)) func(testing.TB, fstest.MapFS) {
		return func(t testing.TB, files fstest.MapFS) {
			for _, change := range changes {
				change(t, files)
			}
		}
	}
	namespace := func(name string) func(testing.TB, fstest.MapFS) {
		return put(mainRoot+"cluster-scoped-resources/core/namespaces/"+name+".yaml", "")
	}
	const onlyTwo = "NotInBundle in default,openshift-local-storage (nothing says that there are no other namespaces)"
	const onlyOne = "NotInBundle in default (nothing says that there are no other namespaces)"
	inspected := []string{"events: " + onlyOne, "persistentvolumeclaims: " + onlyOne, "pods: " + onlyTwo}
	notEnded := "Truncated (nothing in the must-gather says that its gathering came to an end)"
	never := []string{"csidrivers: NotInBundle (the support bundle is without them)", "csinodes: NotInBundle (the support bundle is without them)"}
	inOne := "NotInBundle in default,kube-node-lease,kube-system (nothing says that there are no other namespaces)"
	dumped := "NotInBundle in default,kube-system (a dump does not say which other namespaces there are)"
	bound := "NotInBundle%s (a volume is Bound to a claim of namespace default, of which no claim is there)"
	rest := []string{"csidrivers: NotInFile", "csinodes: NotInFile"}
	for _, tt := range []struct {
		name, bundle string
		change       func(testing.TB, fstest.MapFS)
		gaps         []string
	}{
		{"must-gather", "must-gather", nil, inspected},
		{"must-gather, and kubectl", "must-gather", func(t testing.TB, f fstest.MapFS) { f["volume-doctor.yaml"] = beside(t, "must-gather") }, nil},
		{"must-gather with all namespaces", "must-gather", namespace("default"), nil},
		{"must-gather without one of the namespaces", "must-gather", both(namespace("default"), namespace("shop")), []string{
			"events: NotInBundle in default (without those of namespace shop)", "persistentvolumeclaims: NotInBundle in default (without those of namespace shop)",
			"pods: NotInBundle in default,openshift-local-storage (without those of namespace shop)",
		}},
		{"must-gather that was ended", "must-gather", both(namespace("default"), put(mainRoot+"timestamp", "2026-11-20 10:00:00.412345678 +0000 UTC m=+0.113400521\n")), []string{
			"csidrivers: " + notEnded, "csinodes: " + notEnded, "events: " + notEnded, "leases: " + notEnded, "nodes: " + notEnded,
			"persistentvolumeclaims: " + notEnded, "persistentvolumes: " + notEnded, "pods: " + notEnded, "storageclasses: " + notEnded, "volumeattachments: " + notEnded,
		}},
		{"must-gather without one node's text", "must-gather", both(namespace("default"), put(mainRoot+"cluster-scoped-resources/core/nodes/n2.yaml", "")), []string{
			"nodes: Undecodable (TOP/" + mainRoot + "cluster-scoped-resources/core/nodes/n2.yaml: no object in it)",
		}},
		{"must-gather with a list that breaks off within an item", "must-gather", both(namespace("default"), put(mainRoot+"namespaces/default/core/persistentvolumeclaims.yaml",
			"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: \xff\n")), []string{
			"persistentvolumeclaims: Undecodable (TOP/" + mainRoot + "namespaces/default/core/persistentvolumeclaims.yaml:4: document 1, item 1: not UTF-8 text)",
		}},
		{"must-gather, pods without their list", "must-gather", both(namespace("default"), drop(mainRoot+"namespaces/default/core/pods.yaml")), []string{
			"pods: Truncated (the pods of namespace default are there, but not their list)",
		}},
		{"must-gather, leases of one namespace", "must-gather", both(namespace("default"), drop(mainRoot+"namespaces/kube-node-lease/coordination.k8s.io/leases/n1.yaml")), []string{
			"leases: NotInBundle in kube-system (without those of namespace default)",
		}},
		{"must-gather without attachments", "must-gather", both(namespace("default"),
			drop(mainRoot+"cluster-scoped-resources/storage.k8s.io/volumeattachments/csi-76cabbe095194c391ed11172af6f90b44c13f6a46d154bf4b68107b8be76da14.yaml"),
			drop(mainRoot+"cluster-scoped-resources/storage.k8s.io/volumeattachments/csi-b87a2dc12982ccd5d29f19efbd270f9678e21ad68968f7181ccd835ff2eaa94f.yaml")), []string{
			"volumeattachments: NotInBundle (the must-gather is without them)",
		}},

		{"support bundle", "support-bundle", nil, never},
		{"support bundle, and kubectl", "support-bundle", func(t testing.TB, f fstest.MapFS) {
			f[support+"volume-doctor.yaml"] = beside(t, "support-bundle")
		}, nil},
		{"support bundle of some namespaces", "support-bundle", put(supportFiles+"namespaces.json", "[]"), append(slices.Clone(never),
			"events: "+inOne, "leases: "+inOne, "persistentvolumeclaims: "+inOne, "pods: "+inOne)},
		{"support bundle whose list of namespaces lacks one", "support-bundle", both(drop(supportFiles+"pods/default.json"), drop(supportFiles+"pvcs/default.json"),
			put(supportFiles+"namespaces.json", `{"kind": "NamespaceList", "apiVersion": "v1", "items": [{"metadata": {"name": "kube-system"}}, {"metadata": {"name": "kube-node-lease"}}]}`)), append(slices.Clone(never),
			"events: "+fmt.Sprintf(bound, " in default"), "persistentvolumeclaims: "+fmt.Sprintf(bound, ""), "pods: "+fmt.Sprintf(bound, ""))},
		{"support bundle whose list of claims was emptied", "support-bundle", put(supportFiles+"pvcs/default.json", `{"kind": "PersistentVolumeClaimList", "apiVersion": "v1", "metadata": {}, "items": []}`), append(slices.Clone(never),
			"persistentvolumeclaims: "+fmt.Sprintf(bound, ""))},
		{"support bundle without a namespace", "support-bundle", drop(supportFiles + "pods/kube-system.json"), append(slices.Clone(never),
			"pods: NotInBundle in default,kube-node-lease (without those of namespace kube-system)")},
		{"support bundle that was refused pods", "support-bundle", both(drop(supportFiles+"pods/kube-system.json"),
			put(supportFiles+"pods-errors.json", `{"kube-system": "pods is forbidden: User \"u\" cannot list resource \"pods\""}`)), append(slices.Clone(never),
			`pods: Forbidden in default,kube-node-lease (pods is forbidden: User "u" cannot list resource "pods")`)},
		{"support bundle that was refused nodes", "support-bundle", both(put(supportFiles+"nodes.json", ""),
			put(supportFiles+"nodes-errors.json", `["the server was unable to return a response in the time allotted"]`)), append(slices.Clone(never),
			"nodes: Unavailable (the server was unable to return a response in the time allotted)")},
		{"support bundle with errors that nobody can read", "support-bundle", put(supportFiles+"nodes-errors.json", `{"a": 1}`), append(slices.Clone(never),
			"nodes: Unavailable (the tool noted an error that is not readable)")},
		{"support bundle with an empty file", "support-bundle", put(supportFiles+"nodes.json", ""), append(slices.Clone(never),
			"nodes: Undecodable (TOP/"+supportFiles+"nodes.json: no list in it)")},
		{"support bundle cut off", "support-bundle", halve(supportFiles + "pvs.json"), append(slices.Clone(never),
			"persistentvolumes: Undecodable (TOP/"+supportFiles+"pvs.json:46: document 1, item 1: the JSON ends in the middle: the file was cut off)")},
		{"support bundle with one page", "support-bundle", put(supportFiles+"volumeattachments.json", `{"kind": "VolumeAttachmentList", "apiVersion": "storage.k8s.io/v1", "metadata": {"continue": "x"}, "items": []}`),
			append(slices.Clone(never), "volumeattachments: Truncated (the list says that more objects follow)")},
		{"support bundle with another kind", "support-bundle", put(supportFiles+"pvs.json", `{"kind": "PersistentVolumeClaimList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}`),
			append(slices.Clone(never), "persistentvolumes: Undecodable (TOP/"+supportFiles+"pvs.json: other objects than persistentvolumes in it)")},
		{"support bundle with another namespace", "support-bundle", put(supportFiles+"pods/kube-system.json", `{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a", "namespace": "shop"}}]}`),
			append(slices.Clone(never), "pods: Undecodable (TOP/"+supportFiles+"pods/kube-system.json: not all objects in it are of namespace kube-system)")},

		{"dump", "cluster-info-dump", nil, append(slices.Clone(rest), "events: "+dumped, "leases: NotInFile", "persistentvolumeclaims: NotInFile",
			"persistentvolumes: NotInFile", "pods: "+dumped, "storageclasses: NotInFile", "volumeattachments: NotInFile")},
		{"dump, and kubectl", "cluster-info-dump", func(t testing.TB, f fstest.MapFS) { f["volume-doctor.yaml"] = beside(t, "cluster-info-dump") }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := bundle(t, tt.bundle)
			if tt.change != nil {
				tt.change(t, files)
			}
			fromDir, _, err := ReadFS("dir", files, ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			fromTar, _, err := Read("tar", strings.NewReader(packed(t, files)), ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for name, s := range map[string]*Snapshot{"dir": fromDir, "tar/top": fromTar} {
				want := slices.Clone(tt.gaps)
				for i, gap := range want {
					want[i] = strings.ReplaceAll(gap, "TOP", name)
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, gapLines(s)); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
			if diff := cmp.Diff(fromDir.Objects, fromTar.Objects); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func gapLines(s *Snapshot) []string {
	var lines []string
	for _, g := range s.Gaps {
		line := fmt.Sprintf("%s: %s", g.Kind, g.Reason)
		if g.Namespace != "" {
			line += " in " + g.Namespace
		}
		if g.Detail != "" {
			line += " (" + g.Detail + ")"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// crustGathered is the cluster of the file as crust-gather writes it, with the padding
// of its tar.gz.
func crustGathered(t testing.TB, file string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := Read(file, bytes.NewReader(text), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	put := func(p, text string) { files["crust-gather/"+p] = &fstest.MapFile{Data: []byte(text + "\x00")} }
	put("version.yaml", "major: '1'\nminor: '36'\ngitVersion: v1.36.3\ngoVersion: go1.26.0\n")
	put("collected.timestamp", "\"2026-11-20 09:59:57.25 UTC\"")
	put("app-versions.yaml", "- name: web-0\n  namespace: default\n  container: web\n  version: nginx\n")
	put("apis.json", `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"apps"}}]}`)
	put("namespaces/default/v1/pod/web-0/web/current.log", "hello")
	put("cluster/v1/namespace/default.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n")
	for _, r := range resources {
		for object := range r.all(&s.Objects) {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				t.Fatal(err)
			}
			fields["apiVersion"], fields["kind"] = r.Version, r.Object
			text, err := YAML(fields)
			if err != nil {
				t.Fatal(err)
			}
			folder := "cluster"
			if r.Namespaced {
				folder = "namespaces/" + object.GetNamespace()
			}
			put(fmt.Sprintf("%s/%s/%s/%s.yaml", folder, strings.ReplaceAll(r.Version, "/", "-"), strings.ToLower(r.Object), object.GetName()), string(text))
		}
	}
	return files
}

// TestCrustGather: all objects of an archive of crust-gather are there, and none of its
// lists counts as whole but what is put beside it.
// TestListTwice: of a list that an archive has twice nobody can tell which is right.
func TestListTwice(t *testing.T) {
	const list = mainRoot + "namespaces/default/core/pods.yaml"
	files := bundle(t, "must-gather")
	var texts []string
	for _, p := range append(slices.Sorted(maps.Keys(files)), list) {
		texts = append(texts, p, string(files[p].Data))
	}
	s, _, err := Read("f", strings.NewReader(tarOf(t, texts...)), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := "pods: Undecodable (f/" + list + ": a second file of the list)"
	if !slices.Contains(gapLines(s), want) {
		t.Errorf("%q, not %q", gapLines(s), want)
	}
}

func TestCrustGather(t *testing.T) {
	const base = "../testdata/bases/running.yaml"
	text, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := Read("base", bytes.NewReader(text), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	files := crustGathered(t, base)
	var texts []string
	for _, p := range slices.Sorted(maps.Keys(files)) {
		texts = append(texts, p, string(files[p].Data))
	}
	read := func(form string, files fstest.MapFS) *Snapshot {
		var s *Snapshot
		var err error
		switch form {
		case "directory":
			s, _, err = ReadFS("dir", files, ReadOptions{})
		case "folder in it":
			below, subErr := fs.Sub(files, "crust-gather")
			if subErr != nil {
				t.Fatal(subErr)
			}
			s, _, err = ReadFS("dir/crust-gather", below, ReadOptions{})
		case "tar.gz":
			s, _, err = Read("f", strings.NewReader(zipped(tarOf(t, texts...))), ReadOptions{})
		case "zip":
			s, _, err = Read("f", strings.NewReader(zipOf(t, texts...)), ReadOptions{})
		}
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		return s
	}
	for _, form := range []string{"directory", "folder in it", "tar.gz", "zip"} {
		s := read(form, files)
		if diff := cmp.Diff(writtenObjects(t, New(s.TakenAt, Source{}, want.Objects, nil)), writtenObjects(t, s)); diff != "" {
			t.Errorf("%s: %s", form, diff)
		}
		if s.Source.ServerVersion != "v1.36.3" || !s.TakenAt.Equal(time.Date(2026, 11, 20, 9, 59, 57, 25e7, time.UTC)) {
			t.Errorf("%s: release %q, taken at %s", form, s.Source.ServerVersion, s.TakenAt)
		}
		for _, kind := range Kinds() {
			if s.Complete(kind) {
				t.Errorf("%s: %s count as complete", form, kind)
			}
		}
	}
	var kubectl bytes.Buffer
	if err := Write(&kubectl, want); err != nil {
		t.Fatal(err)
	}
	_, objects, _ := strings.Cut(kubectl.String(), "\n---\n")
	files["crust-gather/volume-doctor.yaml"] = &fstest.MapFile{Data: []byte(objects)}
	if s := read("directory", files); !s.Complete(Pods) || !s.Complete(VolumeAttachments) {
		t.Errorf("with what kubectl printed beside it: %v", gapLines(s))
	}
}

// TestVersionFile: what crust-gather calls version.yaml may hold objects elsewhere.
func TestVersionFile(t *testing.T) {
	s, _, err := ReadFS("dir", fstest.MapFS{"a/version.yaml": {Data: []byte(podA)}, "b.yaml": {Data: []byte(podB)}}, ReadOptions{Now: noon})
	if err != nil || len(s.Pods) != 2 {
		t.Errorf("%v, %v", s, err)
	}
}

// TestBundleFolders: of two folders that hold the same list, one is read.
func TestBundleFolders(t *testing.T) {
	s, warnings, err := ReadFS("dir", bundle(t, "must-gather"), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Node("n1"); len(n.Status.VolumesAttached) != 1 || n.ResourceVersion != "88213" {
		t.Errorf("node %s lists %v: not that of the larger folder", n.ResourceVersion, n.Status.VolumesAttached)
	}
	if pod := s.Pod(types.NamespacedName{Namespace: "default", Name: "web-0"}); pod.ResourceVersion != "88230" {
		t.Errorf("pod of version %s: not that of the list", pod.ResourceVersion)
	}
	if s.Pod(types.NamespacedName{Namespace: "openshift-local-storage", Name: "local-agent"}) == nil {
		t.Error("what the other folder alone holds was not read")
	}
	want := []Warning{"the bundle has 2 folders: where two hold the same list, that of the one before is read: " +
		Warning("dir/"+strings.TrimSuffix(mainRoot, "/")+", dir/"+strings.TrimSuffix(otherRoot, "/"))}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
}

// TestBundleTime: no clock of whoever gathered makes anything older than it is.
func TestBundleTime(t *testing.T) {
	latest := time.Date(2026, 11, 20, 9, 59, 58, 0, time.UTC) // a lease's renewal
	for name, tt := range map[string]struct {
		stamps string
		want   time.Time
	}{
		"clock right": {"2026-11-20 09:55:00.5 +0000 UTC m=+0.1\n2026-11-20 10:05:00 +0000 UTC\n", time.Date(2026, 11, 20, 9, 55, 0, 5e8, time.UTC)},
		"time zone":   {"2026-11-20 10:55:00 +0100 CET m=+0.1\n2026-11-20 11:05:00 +0100 CET\n", time.Date(2026, 11, 20, 9, 55, 0, 0, time.UTC)},
		"clock ahead": {"2030-01-01 00:00:00 +0000 UTC\n2030-01-01 00:01:00 +0000 UTC\n", latest},
		"no times":    {"yesterday\ntoday\n", latest},
	} {
		files := bundle(t, "must-gather")
		files[mainRoot+"timestamp"] = &fstest.MapFile{Data: []byte(tt.stamps)}
		delete(files, otherRoot+"timestamp")
		s, _, err := ReadFS("dir", files, ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !s.TakenAt.Equal(tt.want) {
			t.Errorf("%s: taken at %s, want %s", name, s.TakenAt, tt.want)
		}
		if s.Source.ServerVersion != "v1.29.6" {
			t.Errorf("%s: release %q", name, s.Source.ServerVersion)
		}
	}
	// An object that somebody put beside the bundle later does not date the bundle.
	files := bundle(t, "support-bundle")
	files["volume-doctor.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: n1, creationTimestamp: \"2027-01-01T00:00:00Z\"}\nspec: {drivers: []}\n")}
	s, _, err := ReadFS("dir", files, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s.TakenAt != latest || s.Source.ServerVersion != "v1.29.6" || len(s.CSINodes) != 1 {
		t.Errorf("taken at %s of release %q with %d CSINodes", s.TakenAt, s.Source.ServerVersion, len(s.CSINodes))
	}
}

// TestHostileBundle: names and links lead nowhere, and bombs end in one line.
func TestHostileBundle(t *testing.T) {
	nodes := `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n1"}}]}`
	now := ReadOptions{Now: noon}
	for _, name := range []string{"../cluster-resources/nodes.json", "a/../../cluster-resources/nodes.json", "/cluster-resources/nodes.json"} {
		s, _, err := Read("f", strings.NewReader(tarOf(t, name, nodes)), now)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(s.Gaps, func(g Gap) bool { return g.Reason == ReasonNotInBundle }); i >= 0 || len(s.Nodes) != 1 {
			t.Errorf("%s was taken for a bundle's: %v", name, s.Gaps)
		}
	}

	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "cluster-resources/nodes.json", Typeflag: tar.TypeSymlink, Linkname: "/etc/nodes.json"},
		{Name: "cluster-resources/pvs.json", Typeflag: tar.TypeLink, Linkname: "../../pvs.json"},
		{Name: "cluster-resources/volumeattachments.json", Typeflag: tar.TypeFifo},
		{Name: "cluster-resources/storage-classes.json", Typeflag: tar.TypeReg},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read("f", &b, now); err == nil || err.Error() != "f: no object in it" {
		t.Errorf("links: %v", err)
	}

	secret := path.Join(t.TempDir(), "nodes.json")
	if err := os.WriteFile(secret, []byte(nodes), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(path.Join(dir, "cluster-resources"), 0o755); err != nil {
		t.Fatal(err)
	}
	switch err := os.Symlink(secret, path.Join(dir, "cluster-resources/nodes.json")); {
	case err != nil && goruntime.GOOS == "windows":
		t.Logf("NOT TRIED: Windows lets none but administrators make links: %v", err)
	case err != nil:
		t.Fatal(err)
	default:
		if _, _, err := ReadFS("f", os.DirFS(dir), now); err == nil {
			t.Error("a link in a bundle was followed")
		}
	}

	small := limits{document: 64 << 10, untyped: 64 << 10, unpacked: 64 << 10, files: 40, lists: 20, objects: MaxObjects, ofKind: MaxOfKind, values: MaxValues, depth: MaxDepth, yamlValues: MaxYAMLValues}
	many := func(n int, name, text string) string {
		var files []string
		for i := range n {
			files = append(files, fmt.Sprintf(name, i), text)
		}
		return tarOf(t, files...)
	}
	pods := `{"kind": "PodList", "apiVersion": "v1", "items": []}`
	for _, tt := range []struct{ name, in, want string }{
		{"files", many(41, "%d.txt", ""), "f: more than 40 files in it"},
		{"lists", many(21, "cluster-resources/pods/%d.json", pods), "f/cluster-resources/pods/20.json: more than 20 lists in one bundle"},
		{"folders", many(21, "%d/cluster-resources/namespaces.json", ""), "f/20/cluster-resources/namespaces.json: more than 20 folders in one bundle"},
		{"bytes", zipped(tarOf(t, "cluster-resources/nodes.json", strings.Repeat(" ", 80<<10))), "f: unpacks to more than 65536 bytes"},
		{"damaged", zipped(tarOf(t, "cluster-resources/nodes.json", nodes))[:100], "f:1: the gzip data is cut off"},
		{"own snapshot beside", tarOf(t, "cluster-resources/nodes.json", nodes, "volume-doctor.yaml", headerOnly), "f/volume-doctor.yaml: a snapshot of its own, and no part of a bundle: read it alone"},
	} {
		_, _, err := read("f", strings.NewReader(tt.in), now, small)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: got  %v\nwant %s", tt.name, err, tt.want)
		}
	}
}

// FuzzBundle: whatever the names and texts of an archive, nothing is proved
// whose list was not read whole.
func FuzzBundle(f *testing.F) {
	pods := `{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a", "namespace": "default"}}]}`
	nodes := `{"kind": "NodeList", "apiVersion": "v1", "items": []}`
	all := `{"kind": "NamespaceList", "apiVersion": "v1", "items": [{"metadata": {"name": "default"}}]}`
	f.Add("cluster-resources/pods/default.json", pods, "cluster-resources/namespaces.json", all, "cluster-resources/nodes.json", nodes)
	f.Add("a/cluster-scoped-resources/core/nodes/n1.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n", "a/timestamp", "2026-11-20 10:00:00 +0000 UTC\n2026-11-20 10:00:00 +0000 UTC\n", "a/namespaces/default/core/pods.yaml", pods)
	f.Add("x/nodes.json", nodes, "x/default/pods.json", pods, "x/default/events.json", "{}")
	f.Add("../cluster-resources/nodes.json", nodes, "cluster-resources/nodes-errors.json", "[\"\\u001b\"]", "cluster-info/cluster_version.json", "{\"info\": {\"gitVersion\": \"\\u001b\"}}")
	small := limits{document: 64 << 10, untyped: 64 << 10, unpacked: 256 << 10, files: 100, lists: 20, objects: MaxObjects, ofKind: MaxOfKind, values: MaxValues, depth: MaxDepth, yamlValues: MaxYAMLValues}
	f.Fuzz(func(t *testing.T, nameA, textA, nameB, textB, nameC, textC string) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, file := range [][2]string{{nameA, textA}, {nameB, textB}, {nameC, textC}} {
			h := &tar.Header{Name: file[0], Mode: 0o644, Size: int64(len(file[1])), Typeflag: tar.TypeReg}
			if w.WriteHeader(h) != nil {
				return // no tar holds such a name
			}
			if _, err := w.Write([]byte(file[1])); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		s, warnings, err := read("f", &b, ReadOptions{Now: noon}, small)
		for _, warning := range warnings {
			checkLine(t, string(warning))
		}
		if err != nil {
			checkLine(t, err.Error())
			return
		}
		checkLine(t, s.Source.ServerVersion)
		for _, g := range s.Gaps {
			checkLine(t, g.Detail+g.Namespace)
		}
		for _, kind := range Kinds() {
			said := strings.Contains(textA+textB+textC, "List") || strings.Contains(textA+textB+textC, "complete")
			if s.Complete(kind) && !said && countOf(s, kind) == 0 {
				t.Errorf("%s are said to be whole, and there is neither a list nor an object", kind)
			}
		}
	})
}

func countOf(s *Snapshot, kind Kind) int {
	n := 0
	for range resourceOf(kind).all(&s.Objects) {
		n++
	}
	return n
}
