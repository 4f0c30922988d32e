package snapshot

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

// TestUsualNames: a name that is not asked of the library is one that it takes.
func TestUsualNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9.\-A_]{0,5}([a-z0-9]{0,30}[.\-]{0,2}[a-z0-9]{0,30}){0,3}`).Draw(t, "name")
		for rule, rules := range map[string][2]func(string) []string{
			"label":     {isLabel, validation.IsDNS1123Label},
			"subdomain": {isSubdomain, validation.IsDNS1123Subdomain},
		} {
			if got, want := rules[0](name), rules[1](name); len(got) != len(want) {
				t.Fatalf("%s %q: %v, not %v", rule, name, got, want)
			}
		}
	})
}

// TestMissingNode: an object that must name a node and does not is bad input. A folder names the file and reads
// the others; pods that no node has taken, or that ended without one, are valid.
func TestMissingNode(t *testing.T) {
	pod := func(spec, status string) string {
		return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a", "uid": "u1"}, "spec": {"containers": [{"name": "c"}]` + spec + `}, "status": {` + status + `}}`
	}
	va := func(spec string) string {
		return `{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1", "uid": "u2"}, "spec": {"source": {"persistentVolumeName": "v"}` + spec + `}, "status": {"attached": true}}`
	}
	bound := `"conditions": [{"type": "PodScheduled", "status": "True"}]`
	for in, want := range map[string]string{
		pod("", `"phase": "Running"`):         "Pod a/p has no spec.nodeName",
		pod("", `"phase": "Pending", `+bound): "Pod a/p has no spec.nodeName",
		va(`, "attacher": "d.io"`):            "VolumeAttachment csi-1 has no spec.nodeName",
		va(`, "nodeName": "n1"`):              "VolumeAttachment csi-1 has no spec.attacher",
		pod("", `"phase": "Pending"`):         "",
		pod("", `"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]`): "",
		pod("", `"phase": "Failed"`):                            "",
		pod(`, "nodeName": "n1"`, `"phase": "Running", `+bound): "",
		va(`, "attacher": "d.io", "nodeName": "n1"`):            "",
	} {
		_, _, err := Read("f", strings.NewReader(in), ReadOptions{Now: noon})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want+": no API server shows that")) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
		s, warnings, err := ReadFS("f", fstest.MapFS{"it.json": {Data: []byte(in)}, "other.json": {Data: []byte(podA)}}, ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprint(gapLines(s), warnings)
		if named := strings.Contains(said, "it.json") && strings.Contains(said, want); named != (want != "") {
			t.Errorf("%s in a folder: %s", in, said)
		}
	}
}
