package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// The drivers' own objects. Longhorn's status is a subresource, so that it is written
// after the rest.
const (
	longhornObjects = `
apiVersion: longhorn.io/v1beta2
kind: Volume
metadata: {name: lh-attached}
spec: {nodeID: n1, accessMode: rwo, size: "1073741824", numberOfReplicas: 1}
---
apiVersion: longhorn.io/v1beta2
kind: Volume
metadata: {name: lh-backup}
spec: {nodeID: n1, accessMode: rwo, size: "1073741824", numberOfReplicas: 1}
---
apiVersion: longhorn.io/v1beta2
kind: Volume
metadata: {name: lh-detached}
spec: {nodeID: "", accessMode: rwo, size: "1073741824", numberOfReplicas: 1}
---
apiVersion: longhorn.io/v1beta2
kind: VolumeAttachment
metadata: {name: lh-attached}
spec:
  volume: lh-attached
  attachmentTickets: {csi-1: {id: csi-1, type: csi-attacher, nodeID: n1, generation: 1}}
---
apiVersion: longhorn.io/v1beta2
kind: VolumeAttachment
metadata: {name: lh-backup}
spec:
  volume: lh-backup
  attachmentTickets: {backup-1: {id: backup-1, type: backup-controller, nodeID: n1, generation: 1}}
`
	tridentObjects = `
apiVersion: trident.netapp.io/v1
kind: TridentVolume
metadata: {name: tr-published}
config: {name: tr-published, accessMode: ReadWriteOnce, accessInfo: {iscsiUsername: planted-user, iscsiInitiatorSecret: planted-secret}}
state: online
---
apiVersion: trident.netapp.io/v1
kind: TridentVolume
metadata: {name: tr-free}
config: {name: tr-free, accessMode: ReadWriteOnce}
state: online
---
apiVersion: trident.netapp.io/v1
kind: TridentVolumePublication
metadata: {name: tr-published.n1}
volumeID: tr-published
nodeID: n1
readOnly: false
`
)

// TestDriverObjects applies the published definitions of the objects of Longhorn and
// Trident, and reads the objects as docs/backend.md says: with kubectl get, then with
// --backend.
func TestDriverObjects(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubectl := func(args ...string) string {
		t.Helper()
		r, err := command.Run(t.Context(), "kubectl", cluster.Kubeconfig, args...)
		if err != nil || r.Code != 0 {
			t.Fatalf("kubectl %v: %v, exit code %d: %s", args, err, r.Code, r.Stderr)
		}
		return r.Stdout
	}
	status := func(resource, name, status string) {
		kubectl("patch", resource, name, "-n", "driver-objects", "--subresource=status", "--type=merge", "-p", `{"status": `+status+`}`)
	}
	kubectl("create", "namespace", "driver-objects")
	for _, driver := range []struct{ name, objects string }{{"longhorn", longhornObjects}, {"trident", tridentObjects}} {
		definitions := filepath.Join("testdata", "crds", driver.name+".yaml")
		kubectl("apply", "--server-side", "-f", definitions)
		t.Cleanup(func() {
			if _, err := command.Run(context.WithoutCancel(t.Context()), "kubectl", cluster.Kubeconfig, "delete", "--wait=false", "-f", definitions); err != nil {
				t.Error(err)
			}
		})
		kubectl("wait", "--for=condition=Established", "-f", definitions)
		kubectl("apply", "-n", "driver-objects", "-f", write(driver.name+".yaml", driver.objects))
	}
	for _, name := range []string{"lh-attached", "lh-backup"} {
		status("volumes.longhorn.io", name, `{"state": "attached", "robustness": "healthy", "currentNodeID": "n1"}`)
	}
	status("volumes.longhorn.io", "lh-detached", `{"state": "detached", "robustness": "unknown", "currentNodeID": ""}`)
	status("volumeattachments.longhorn.io", "lh-attached", `{"attachmentTicketStatuses": {"csi-1": {"id": "csi-1", "satisfied": true, "generation": 1, "conditions": []}}}`)
	status("volumeattachments.longhorn.io", "lh-backup", `{"attachmentTicketStatuses": {"backup-1": {"id": "backup-1", "satisfied": true, "generation": 1, "conditions": []}}}`)

	for driver, names := range map[string][]string{"driver.longhorn.io": {"lh-attached", "lh-backup", "lh-detached"}, "csi.trident.netapp.io": {"tr-free", "tr-published"}} {
		for _, name := range names {
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
			pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
			pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
			pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}
			if _, err := cluster.Client().CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { deleteVolume(t, name) })
		}
	}

	on := func(state string) []backend.Attachment { return []backend.Attachment{{Machine: "n1", State: state}} }
	const noObjects = "the driver's second kind of objects is missing"
	for _, row := range []struct {
		name, kinds string
		format      backend.Format
		want        []backend.Volume
	}{
		{"longhorn", "volumes.longhorn.io,volumeattachments.longhorn.io", backend.Longhorn, []backend.Volume{
			{ID: "lh-attached", State: "attached", Attachments: on("")},
			{ID: "lh-backup", State: "attached", Attachments: on("temporary")},
			{ID: "lh-detached", State: "detached"},
		}},
		{noObjects, "volumes.longhorn.io", backend.Longhorn, []backend.Volume{
			{ID: "lh-attached", State: "attached", Attachments: on("unknown")},
			{ID: "lh-backup", State: "attached", Attachments: on("unknown")},
			{ID: "lh-detached", State: "detached"},
		}},
		{"trident", "tridentvolumes.trident.netapp.io,tridentvolumepublications.trident.netapp.io", backend.Trident, []backend.Volume{
			{ID: "tr-free", State: "online"},
			{ID: "tr-published", State: "online", Attachments: on("")},
		}},
		{noObjects, "tridentvolumes.trident.netapp.io", backend.Trident, []backend.Volume{
			{ID: "tr-free", State: "online", Silent: true},
			{ID: "tr-published", State: "online", Silent: true},
		}},
	} {
		list := write("volumes.json", kubectl("get", row.kinds, "-A", "-o", "json"))
		file := filepath.Join(dir, "case.yaml")
		_ = os.Remove(file)
		r := doctor(t, "snapshot", "--backend", list, file)
		if says := fmt.Sprintf("has %d of %d volumes; what it lacks proves nothing", len(row.want), len(row.want)); r.Code != 0 || !strings.Contains(r.Stderr, says) {
			t.Fatalf("%s, %s: exit code %d, want a note that it %s", row.name, row.kinds, r.Code, says)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "planted") {
			t.Errorf("%s: the file has a secret of the driver", row.kinds)
		}
		s, _, err := snapshot.Read(file, strings.NewReader(string(text)), snapshot.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Backends) != 1 || s.Backends[0].Format != row.format {
			got, _ := json.Marshal(s.Backends)
			t.Fatalf("%s, %s: %s", row.name, row.kinds, got)
		}
		if diff := cmp.Diff(row.want, s.Backends[0].Volumes); diff != "" {
			t.Errorf("%s, %s:\n%s", row.name, row.kinds, diff)
		}
	}
}

func deleteVolume(t *testing.T, volume string) {
	t.Helper()
	if err := cluster.Client().CoreV1().PersistentVolumes().Delete(context.WithoutCancel(t.Context()), volume, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
