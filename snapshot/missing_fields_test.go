package snapshot

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestManifests: a template, and a manifest beside the list of its kind, say nothing of the cluster: they
// are named, they leave no gap, and the object that the API server shows counts, whichever comes first.
func TestManifests(t *testing.T) {
	class := func(fields, provisioner string) string {
		return `{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3"` + fields + `}, "provisioner": "` + provisioner + `", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}`
	}
	served := `{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClassList", "metadata": {}, "items": [` + class(`, "uid": "c1", "resourceVersion": "4", "creationTimestamp": "2026-09-01T10:00:00Z"`, "real") + `]}`
	for _, folder := range []string{"app", "zz"} {
		s, warnings, err := ReadFS("f", fstest.MapFS{
			"storageclasses.json":                      {Data: []byte(served)},
			folder + "/class.yaml":                     {Data: []byte(class("", "wanted"))},
			folder + "/other.yaml":                     {Data: []byte(strings.Replace(class("", "wanted"), "gp3", "gp4", 1))},
			folder + "/templates/claim.yaml":           {Data: []byte("apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata:\n  name: {{ .Release.Name }}\nprovisioner: x\n")},
			folder + "/templates/persistentclaim.yaml": {Data: []byte("{{- if .Values.x }}\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\n{{- end }}\n")},
		}, ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.StorageClasses) != 1 || s.StorageClasses[0].Provisioner != "real" || !s.Complete(StorageClasses) {
			t.Errorf("%s: %d classes, gaps %q", folder, len(s.StorageClasses), gapLines(s))
		}
		want := []Warning{Warning("passed over 2 files without Kubernetes objects: f/" + folder + "/templates/claim.yaml, f/" + folder + "/templates/persistentclaim.yaml")}
		for _, w := range want {
			if !slices.Contains(warnings, w) {
				t.Errorf("%s: %q", folder, warnings)
			}
		}
		if slices.ContainsFunc(gapLines(s), func(g string) bool { return strings.Contains(g, "template") }) {
			t.Errorf("%s: a template is a gap: %q", folder, gapLines(s))
		}
	}
}
