package backend

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// placement is a row of LINSTOR's table of resources.
func placement(resource, node, snapshot string, flags int) string {
	return fmt.Sprintf(`{"apiVersion": "internal.linstor.linbit.com/v1-33-1", "kind": "Resources", "metadata": {"name": "f00d"},
"spec": {"uuid": "u", "node_name": %q, "resource_name": %q, "snapshot_name": %q, "resource_flags": %d, "create_timestamp": 1}}`, node, resource, snapshot, flags)
}

func cstorAttachment(volume, node string) string {
	return fmt.Sprintf(`{"apiVersion": "cstor.openebs.io/v1", "kind": "CStorVolumeAttachment", "metadata": {"name": "%s-%s", "namespace": "openebs", "labels": {"nodeID": %[2]q, "Volname": %[1]q}},
"spec": {"iscsi": {"iqn": "planted-iqn"}, "volume": {"name": %[1]q, "ownerNodeID": %[2]q, "accessType": "mount"}}}`, volume, node)
}

func jivaVolume(name, node string) string {
	return fmt.Sprintf(`{"apiVersion": "openebs.io/v1", "kind": "JivaVolume", "metadata": {"name": %q, "namespace": "openebs", "labels": {"nodeID": %q, "openebs.io/component": "jiva-volume"}},
"spec": {"pv": %[1]q, "capacity": "1Gi", "accessType": "mount", "iscsiSpec": {"iqn": "planted-iqn"}}, "status": {"phase": "Ready", "replicaStatus": [{"address": "n9", "mode": "RW"}]}}`, name, node)
}

var (
	linstorText = kubectlList(placement("PVC-1", "N1", "", 0), placement("PVC-1", "N2", "", 388), placement("PVC-1", "N3", "SNAP", 0))
	cstorText   = kubectlList(cstorAttachment("pvc-1", "n1"))
	jivaText    = kubectlList(jivaVolume("pvc-1", "n1"), jivaVolume("pvc-2", ""))
)

// TestPlacements: LINSTOR's table shows the only nodes on which a volume can be, whoever
// placed it there, and never that it is attached to one.
func TestPlacements(t *testing.T) {
	only := func(machines ...string) Volume { return Volume{ID: "pvc-1", Silent: true, Only: machines} }
	deleted, diskless, tieBreaker := 1<<1, 1<<2|1<<8, 1<<2|1<<8|1<<7
	for name, row := range map[string]struct {
		items []string
		want  Volume
	}{
		"a copy":                  {[]string{placement("PVC-1", "N1", "", 0)}, only("n1")},
		"a client":                {[]string{placement("PVC-1", "N1", "", 0), placement("PVC-1", "N2", "", diskless)}, only("n1", "n2")},
		"a tie-breaker":           {[]string{placement("PVC-1", "N2", "", tieBreaker), placement("PVC-1", "N1", "", 0)}, only("n1", "n2")},
		"on its way out":          {[]string{placement("PVC-1", "N1", "", deleted)}, only("n1")},
		"the same twice":          {[]string{placement("PVC-1", "N1", "", 0), placement("pvc-1", "n1", "", 0)}, only("n1")},
		"a snapshot":              {[]string{placement("PVC-1", "N1", "", 0), placement("PVC-1", "N2", "SNAP", 0)}, only("n1")},
		"another volume":          {[]string{placement("PVC-1", "N1", "", 0), placement("PVC-2", "N2", "", 0)}, only("n1")},
		"an older release":        {[]string{strings.Replace(placement("PVC-1", "N1", "", 0), "v1-33-1", "v1-19-1", 1)}, only("n1")},
		"a version of a later":    {[]string{placement("PVC-1", "N1", "", 0), strings.Replace(placement("PVC-1", "N2", "", 0), "v1-33-1", "v1-99-1", 1)}, only()},
		"another of its tables":   {[]string{placement("PVC-1", "N1", "", 0), strings.Replace(placement("PVC-1", "N2", "", 0), `"Resources"`, `"Volumes"`, 1)}, only("n1")},
		"the operator's own kind": {[]string{placement("PVC-1", "N1", "", 0), `{"apiVersion": "piraeus.io/v1", "kind": "LinstorSatellite", "metadata": {"name": "n2"}}`}, only("n1")},
	} {
		l := read(t, kubectlList(row.items...))
		got, ok := l.Find("linstor.csi.linbit.com", "PVC-1")
		if !ok || l.Format != LINSTOR {
			t.Errorf("%s: %+v", name, l)
		} else if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if got.Settled() || len(got.Attachments) > 0 {
			t.Errorf("%s: a placement counts as an attachment: %+v", name, got)
		}
	}
	if got := LINSTOR.Machines("n1", "N1", "x://y"); !cmp.Equal(got, []string{"n1"}) {
		t.Errorf("LINSTOR's node is %q", got)
	}
}

// TestStaged: OpenEBS's records show on which node a volume is staged. No record that is read
// shows where its data are.
func TestStaged(t *testing.T) {
	on := func(a ...Attachment) Volume { return Volume{ID: "v", Attachments: a} }
	n1 := Attachment{Machine: "n1"}
	deleted := func(text string) string {
		return strings.Replace(text, `"name"`, `"deletionTimestamp": "2026-11-20T12:00:00Z", "name"`, 1)
	}
	for name, row := range map[string]struct {
		driver string
		items  []string
		want   Volume
	}{
		"cStor":                       {"cstor.csi.openebs.io", []string{cstorAttachment("v", "n1")}, on(n1)},
		"cStor, twice":                {"cstor.csi.openebs.io", []string{cstorAttachment("v", "n1"), cstorAttachment("v", "n1")}, on(n1)},
		"cStor, on two nodes":         {"cstor.csi.openebs.io", []string{cstorAttachment("v", "n2"), cstorAttachment("v", "n1")}, on(n1, Attachment{Machine: "n2"})},
		"cStor, unstaged just now":    {"cstor.csi.openebs.io", []string{deleted(cstorAttachment("v", "n1"))}, on(Attachment{Machine: "n1", State: "detaching", Since: &noon})},
		"cStor, of a version":         {"cstor.csi.openebs.io", []string{cstorAttachment("v", "n1"), strings.Replace(cstorAttachment("w", "n1"), "io/v1", "io/v2", 1)}, Volume{ID: "v", Silent: true, Attachments: []Attachment{n1}}},
		"Jiva":                        {"jiva.csi.openebs.io", []string{jivaVolume("v", "n1")}, on(n1)},
		"Jiva, nowhere":               {"jiva.csi.openebs.io", []string{jivaVolume("v", "")}, on()},
		"Jiva, being deleted":         {"jiva.csi.openebs.io", []string{deleted(jivaVolume("v", "n1"))}, Volume{ID: "v", Silent: true}},
		"Jiva, of a version":          {"jiva.csi.openebs.io", []string{strings.Replace(jivaVolume("v", "n1"), "io/v1", "io/v1alpha1", 1)}, Volume{ID: "v", Silent: true}},
		"Jiva, where data of LVM are": {"jiva.csi.openebs.io", []string{jivaVolume("v", ""), localVolume("LVMVolume", "local"), localVolume("ZFSVolume", "zfs")}, on()},
	} {
		l := read(t, kubectlList(row.items...))
		if got, ok := l.Find(row.driver, "v"); !ok {
			t.Errorf("%s: %+v", name, l)
		} else if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// localVolume is a volume of OpenEBS's local engines; its owner is the node that has its
// data.
func localVolume(kind, group string) string {
	return fmt.Sprintf(`{"apiVersion": "%s.openebs.io/v1alpha1", "kind": %q, "metadata": {"name": "v", "namespace": "openebs"}, "spec": {"ownerNodeID": "n1", "capacity": "1"}}`, group, kind)
}

// TestOnlyData: objects that only show where data are, or which nodes a driver has, make no
// list.
func TestOnlyData(t *testing.T) {
	for name, item := range map[string]string{
		"LVM":                localVolume("LVMVolume", "local"),
		"ZFS":                localVolume("ZFSVolume", "zfs"),
		"Longhorn's replica": `{"apiVersion": "longhorn.io/v1beta2", "kind": "Replica", "metadata": {"name": "r"}, "spec": {"volumeName": "v", "nodeID": "n1"}}`,
		"Mayastor's pool":    `{"apiVersion": "openebs.io/v1beta2", "kind": "DiskPool", "metadata": {"name": "p"}, "spec": {"node": "n1", "disks": ["/dev/sdb"]}}`,
		"Portworx's node":    `{"apiVersion": "core.libopenstorage.org/v1", "kind": "StorageNode", "metadata": {"name": "n1"}, "status": {"phase": "Online"}}`,
		"a fence":            `{"apiVersion": "csiaddons.openshift.io/v1alpha1", "kind": "NetworkFence", "metadata": {"name": "n1"}, "spec": {"fenceState": "Fenced", "cidrs": ["10.0.0.1/32"]}, "status": {"result": "Succeeded"}}`,
		"a driver's sidecar": `{"apiVersion": "csiaddons.openshift.io/v1alpha1", "kind": "CSIAddonsNode", "metadata": {"name": "n1"}, "spec": {"driver": {"name": "rook-ceph.rbd.csi.ceph.com", "nodeID": "n1"}}}`,
		"a pool of Ceph":     `{"apiVersion": "ceph.rook.io/v1", "kind": "CephBlockPool", "metadata": {"name": "p", "namespace": "rook-ceph"}}`,
		"a pool of cStor":    `{"apiVersion": "cstor.openebs.io/v1", "kind": "CStorVolumeReplica", "metadata": {"name": "v-p", "namespace": "openebs"}}`,
	} {
		if l, err := Read("list", strings.NewReader(kubectlList(item)), noon); err == nil {
			t.Errorf("%s is read as %+v", name, l)
		}
	}
}

// FuzzLINSTOR: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzLINSTOR(f *testing.F) { fuzzVolume(f, linstorText, objectsBegin, objectsEnd) }

// FuzzCStor: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzCStor(f *testing.F) { fuzzVolume(f, cstorText, objectsBegin, objectsEnd) }

// FuzzJiva: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzJiva(f *testing.F) { fuzzVolume(f, jivaText, objectsBegin, objectsEnd) }

const (
	objectsBegin = `{"apiVersion": "v1", "items": [`
	objectsEnd   = `], "kind": "List", "metadata": {"resourceVersion": ""}}`
)
