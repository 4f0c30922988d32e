package snapshot

import (
	"fmt"
	"strings"
	"testing"
)

// TestNamesOfFiles: a name that no API server takes is refused with its place and
// its object, and free text is not.
func TestNamesOfFiles(t *testing.T) {
	for object, want := range map[string]string{
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q}}`:                                                                        "Node %s: metadata.name",
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}}`:                                                                         "Pod %s: metadata.name",
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": %q}}`:                                                       "metadata.namespace",
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": %q}}`:                                              "Pod a: spec.nodeName",
		`{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": %q}}`:                                                            "metadata.name",
		`{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": {"csi": {"driver": %q, "volumeHandle": "h"}}}`:     "spec.csi.driver",
		`{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": %q}}`:                                                       "metadata.name",
		`{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": %q}}`:                                             "metadata.name",
		`{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a"}, "spec": {"attacher": "d", "nodeName": %q}}`: "spec.nodeName",
		`{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a"}, "spec": {"attacher": %q}}`:                  "spec.attacher",
		`{"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": [{"name": %q}]}}`:                "spec.drivers[].name",
		`{"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": %q}}`:                                                    "metadata.name",
	} {
		for _, name := range []string{"$(touch x)", "`id`", "a b", "a;b", "it's", "-a", "a\nb", "a\u202eb", "../a", strings.Repeat("a", 254)} {
			_, _, err := Read("case.json", strings.NewReader(fmt.Sprintf(object, name)), ReadOptions{Now: noon})
			want, _, _ := strings.Cut(want, "%s")
			if err == nil || !strings.HasPrefix(err.Error(), "case.json") || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "is a name that no API server accepts") || strings.ContainsAny(err.Error(), "\n\u202e") {
				t.Errorf("%s named %q: %v", object, name, err)
			}
		}
	}
	for _, fine := range []string{
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a.b-1", "namespace": "n-1", "uid": "$(id)"}, "spec": {"nodeName": "ip-10-0-0-1.ec2.internal"}}`,
		`{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": {"csi": {"driver": "Dell.example.com", "volumeHandle": "$(id); b"}, "claimRef": {"uid": "$(id)"}}}`,
		`{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "Web 0.17a"}, "message": "$(id)"}`,
		`{"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "Dell.example.com"}}`,
	} {
		if _, _, err := Read("case.json", strings.NewReader(fine), ReadOptions{Now: noon}); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}
