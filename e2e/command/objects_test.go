package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// The drivers' own objects. Longhorn's status is a subresource, so it is written after the
// rest.
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
	linstorObjects = `
apiVersion: internal.linstor.linbit.com/v1-33-1
kind: Resources
metadata: {name: f00d}
spec: {uuid: u, node_name: N1, resource_name: LS-PLACED, snapshot_name: "", resource_flags: 0, create_timestamp: 1}
---
apiVersion: internal.linstor.linbit.com/v1-19-1
kind: Resources
metadata: {name: f00e}
spec: {uuid: v, node_name: N2, resource_name: LS-PLACED, snapshot_name: "", resource_flags: 260, create_timestamp: 1}
---
apiVersion: internal.linstor.linbit.com/v1-33-1
kind: Resources
metadata: {name: f00f}
spec: {uuid: w, node_name: N3, resource_name: LS-PLACED, snapshot_name: SNAP, resource_flags: 0, create_timestamp: 1}
`
	cstorObjects = `
apiVersion: cstor.openebs.io/v1
kind: CStorVolumeAttachment
metadata: {name: cs-staged-n1, labels: {nodeID: n1, Volname: cs-staged}}
spec: {iscsi: {iqn: "iqn.2016-09.com.openebs.cstor:cs-staged"}, volume: {name: cs-staged, ownerNodeID: n1, accessType: mount}}
`
	jivaObjects = `
apiVersion: openebs.io/v1
kind: JivaVolume
metadata: {name: ji-staged, labels: {nodeID: n1}}
spec: {pv: ji-staged, capacity: 1Gi, accessType: mount, mountInfo: {stagingPath: /staging}}
---
apiVersion: openebs.io/v1
kind: JivaVolume
metadata: {name: ji-free, labels: {nodeID: ""}}
spec: {pv: ji-free, capacity: 1Gi, accessType: mount}
`
)

// TestDriverObjects applies the published definitions of the drivers' objects, and reads the
// objects as docs/backend.md says: with kubectl get, then with --backend; and, where the
// driver is installed, without any flag.
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
	for _, driver := range []struct{ name, objects string }{{"longhorn", longhornObjects}, {"trident", tridentObjects}, {"linstor", linstorObjects}, {"cstor", cstorObjects}, {"jiva", jivaObjects}} {
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

	for driver, names := range map[string][]string{"driver.longhorn.io": {"lh-attached", "lh-backup", "lh-detached"}, "csi.trident.netapp.io": {"tr-free", "tr-published"},
		"linstor.csi.linbit.com": {"ls-placed"}, "cstor.csi.openebs.io": {"cs-staged"}, "jiva.csi.openebs.io": {"ji-free", "ji-staged"}} {
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

	created := func(name string) *time.Time {
		t.Helper()
		at, err := time.Parse(time.RFC3339, kubectl("get", "volumes.longhorn.io", name, "-n", "driver-objects", "-o", "jsonpath={.metadata.creationTimestamp}"))
		if err != nil {
			t.Fatal(err)
		}
		return &at
	}
	on := func(state string) []backend.Attachment { return []backend.Attachment{{Machine: "n1", State: state}} }
	placed := []backend.Volume{{ID: "ls-placed", Silent: true, Only: []string{"n1", "n2"}}}
	const noObjects = "the driver's second kind of objects is missing"
	for _, row := range []struct {
		name, kinds string
		format      backend.Format
		want        []backend.Volume
	}{
		{"longhorn", "volumes.longhorn.io,volumeattachments.longhorn.io", backend.Longhorn, []backend.Volume{
			{ID: "lh-attached", State: "attached", Attachments: on(""), Created: created("lh-attached")},
			{ID: "lh-backup", State: "attached", Attachments: on("temporary"), Created: created("lh-backup")},
			{ID: "lh-detached", State: "detached", Created: created("lh-detached")},
		}},
		{noObjects, "volumes.longhorn.io", backend.Longhorn, []backend.Volume{
			{ID: "lh-attached", State: "attached", Attachments: on("unknown"), Created: created("lh-attached")},
			{ID: "lh-backup", State: "attached", Attachments: on("unknown"), Created: created("lh-backup")},
			{ID: "lh-detached", State: "detached", Created: created("lh-detached")},
		}},
		{"trident", "tridentvolumes.trident.netapp.io,tridentvolumepublications.trident.netapp.io", backend.Trident, []backend.Volume{
			{ID: "tr-free", State: "online"},
			{ID: "tr-published", State: "online", Attachments: on("")},
		}},
		{noObjects, "tridentvolumes.trident.netapp.io", backend.Trident, []backend.Volume{
			{ID: "tr-free", State: "online", Silent: true},
			{ID: "tr-published", State: "online", Silent: true},
		}},
		{"linstor", "resources.internal.linstor.linbit.com", backend.LINSTOR, placed},
		{"cstor", "cstorvolumeattachments.cstor.openebs.io", backend.CStor, []backend.Volume{{ID: "cs-staged", Attachments: on("")}}},
		{"jiva", "jivavolumes.openebs.io", backend.Jiva, []backend.Volume{{ID: "ji-free"}, {ID: "ji-staged", Attachments: on("")}}},
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

	for _, driver := range []string{"driver.longhorn.io", "csi.trident.netapp.io", "linstor.csi.linbit.com", "cstor.csi.openebs.io", "jiva.csi.openebs.io"} {
		if _, err := cluster.Client().StorageV1().CSIDrivers().Create(t.Context(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cluster.Client().StorageV1().CSIDrivers().Delete(context.WithoutCancel(t.Context()), driver, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	file := filepath.Join(dir, "live.yaml")
	if r := doctor(t, "snapshot", file); r.Code != 0 {
		t.Fatalf("exit code %d", r.Code)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "planted") {
		t.Error("the file has a secret of the driver")
	}
	s, _, err := snapshot.Read(file, strings.NewReader(string(text)), snapshot.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[backend.Format][]backend.Volume{}
	for _, l := range s.Backends {
		got[l.Format] = l.Volumes
	}
	if diff := cmp.Diff(map[backend.Format][]backend.Volume{
		backend.Longhorn: {{ID: "lh-attached", State: "attached", Attachments: on(""), Created: created("lh-attached")}, {ID: "lh-backup", State: "attached", Attachments: on("temporary"), Created: created("lh-backup")}, {ID: "lh-detached", State: "detached", Created: created("lh-detached")}},
		backend.Trident:  {{ID: "tr-free"}, {ID: "tr-published", Attachments: on("")}},
		backend.LINSTOR:  placed,
		backend.CStor:    {{ID: "cs-staged", Attachments: on("")}},
		backend.Jiva:     {{ID: "ji-free"}, {ID: "ji-staged", Attachments: on("")}},
	}, got); diff != "" {
		t.Errorf("the objects of installed drivers:\n%s", diff)
	}
}

func deleteVolume(t *testing.T, volume string) {
	t.Helper()
	if err := cluster.Client().CoreV1().PersistentVolumes().Delete(context.WithoutCancel(t.Context()), volume, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
