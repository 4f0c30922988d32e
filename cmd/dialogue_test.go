//go:build unix

package cmd_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// variable is what differs between two runs of the dialogue, and what stands for it in docs.
var variable = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`volume-doctor-[0-9A-Za-z.-]+\.journal`), "volume-doctor-20261120T100031.000Z-1a2b3c4d.journal"},
	{regexp.MustCompile(` --kubeconfig=\S+`), ""},
	{regexp.MustCompile(`T10:0[0-9]:[0-9]{2}Z`), "T10:00:36Z"},
	{regexp.MustCompile(`\([0-9]+s after the write\)`), "(4s after the write)"},
}

// TestDialogue: docs/repairing-safely.md shows what --apply --yes says, from the command to the
// prompt, which is back seconds after the pod runs.
func TestDialogue(t *testing.T) {
	t.Parallel()
	server, kubeconfig := newAPI(t, "vd301-current-release")
	ran := make(chan time.Time, 1)
	server.onWrite(func() {
		server.starts(t, "web-0")
		server.managed("n1", "volumesAttached", repair.FieldManager)
		ran <- server.clock()
	})
	out, err := server.inItsTime(t.TempDir(), "--kubeconfig", kubeconfig, "diagnose", "pod/web-0", "--apply", "--yes").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if late := server.clock().Sub(<-ran); late > 15*time.Second {
		t.Errorf("the prompt is back %s after the pod runs", late)
	}
	says := string(out)
	for _, v := range variable {
		says = v.pattern.ReplaceAllString(says, v.text)
	}
	page, err := os.ReadFile("../docs/repairing-safely.md")
	if err != nil {
		t.Fatal(err)
	}
	checks := regexp.MustCompile(`[0-9]+ checks`) // a new one does not change the page
	page, says = checks.ReplaceAll(page, []byte("N checks")), checks.ReplaceAllString(says, "N checks")
	if screen := "```console\n$ kubectl volume-doctor diagnose pod/web-0 --apply --yes\n" + says + "```\n"; !strings.Contains(string(page), screen) {
		t.Errorf("docs/repairing-safely.md has another dialogue than\n%s", screen)
	}
}

// managed notes that the manager has written the field of the node's status.
func (a *api) managed(name, field, manager string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, o := range a.objects[listPaths["Node"]] {
		if o.GetName() == name {
			node, at := o.DeepCopy(), metav1.NewTime(a.now)
			node.SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at, Subresource: "status",
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:` + field + `":{}}}`),
			}})
			a.objects[listPaths["Node"]][i] = node
		}
	}
}

// starts makes the pod run, as its kubelet does.
func (a *api) starts(t *testing.T, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.now.UTC().Format(time.RFC3339)
	for i, o := range a.objects[listPaths["Pod"]] {
		if o.GetName() != name {
			continue
		}
		pod := o.DeepCopy()
		containers, _, err := unstructured.NestedSlice(pod.Object, "spec", "containers")
		if err != nil || len(containers) != 1 {
			t.Errorf("pod %s has containers %v: %v", name, containers, err)
			return
		}
		container, _ := containers[0].(map[string]any)
		pod.Object["status"] = map[string]any{
			"phase": "Running", "startTime": at,
			"conditions": []any{
				map[string]any{"type": "PodScheduled", "status": "True", "lastTransitionTime": at},
				map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": at},
			},
			"containerStatuses": []any{map[string]any{
				"name": container["name"], "image": container["image"], "imageID": "", "ready": true, "restartCount": int64(0),
				"state": map[string]any{"running": map[string]any{"startedAt": at}},
			}},
		}
		a.objects[listPaths["Pod"]][i] = pod
	}
}
