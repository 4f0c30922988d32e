package snapshot

import (
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestBundledLogs: the logs of kube-controller-manager and of kubelets are found in the folders
// and archives of each tool, and no other.
func TestBundledLogs(t *testing.T) {
	const root, kcm = "quay-io/namespaces/", "kube-controller-manager"
	manager := map[string]string{
		root + "openshift-kube-controller-manager/pods/kube-controller-manager-m0/kube-controller-manager/kube-controller-manager/logs/current.log": "a",
		"bundle/cluster-resources/pods/logs/kube-system/kube-controller-manager-cp1/kube-controller-manager.log":                                    "b",
		"bundle/logs/kube-system/kube-controller-manager-cp1/kube-controller-manager.log":                                                           "c",
		"podlogs/kube-system/kube-controller-manager-cp1/logs/kube-controller-manager.txt":                                                          "d",
		"dump/kube-system/kube-controller-manager-cp1/logs.txt":                                                                                     "e",
		"bundle/logs/kube-system/kube-controller-manager-cp2/kube-controller-manager.log.gz":                                                        "f",
	}
	others := []string{
		root + "openshift-kube-controller-manager/pods/kube-controller-manager-m0/cluster-policy-controller/cluster-policy-controller/logs/current.log",
		root + "openshift-kube-controller-manager/pods/kube-controller-manager-m0/kube-controller-manager/kube-controller-manager/logs/previous.log",
		root + "openshift-kube-controller-manager-operator/pods/kube-controller-manager-operator-1/kube-controller-manager-operator/kube-controller-manager-operator/logs/current.log",
		"bundle/logs/shop/kube-controller-manager-x/kube-controller-manager.log", "dump/kube-system/kube-scheduler-cp1/logs.txt",
		"quay-io/nodes/n1/dmesg", "quay-io/host_service_logs/masters/crio_service.log", "n1/kubelet.log", "quay-io/nodes/n1/n2_logs_kubelet.gz", kcm + ".log",
	}
	files, want := fstest.MapFS{}, map[string]string{}
	put := func(p, text string) {
		if strings.HasSuffix(p, ".gz") {
			text = zipped(text)
		}
		files[p] = &fstest.MapFile{Data: []byte(text)}
	}
	for p, text := range manager {
		put(p, text)
		want[p] = text
	}
	put("quay-io/nodes/n1/n1_logs_kubelet.gz", "kubelet")
	want["quay-io/nodes/n1/n1_logs_kubelet.gz n1"] = "kubelet"
	for _, p := range []string{"quay-io/host_service_logs/masters/kubelet_service.log", "quay-io/host_service_logs/workers/kubelet_service.log.gz", "quay-io/host_service_logs/windows/log_files/kubelet/kubelet.log"} {
		put(p, "kubelets")
		want[p+" of several"] = "kubelets"
	}
	put("bundle/nodes/n2.zip", zipOf(t, "n2/logs/kubelet.log", "-- No entries --", "n2/logs/dmesg.log", "x", "n2/logs/k3s-agent-service.log", "of K3s\n"))
	want["bundle/nodes/n2.zip n2"] = "-- No entries --\nof K3s\n\n"
	put("bundle/nodes/n3.zip", zipOf(t, "n3/hostinfos/hostinfo", "x"))
	want["bundle/nodes/n3.zip n3"] = ""
	for _, p := range others {
		put(p, "x")
	}
	read := func(got map[string]string) func(Log, io.Reader) error {
		return func(l Log, in io.Reader) error {
			text, err := io.ReadAll(in)
			of := string(l.Node)
			if l.Kubelet && of == "" {
				of = "of several"
			}
			got[strings.TrimSpace(strings.TrimPrefix(l.Path, "top/")+" "+of)] = string(text)
			return err
		}
	}
	fromDir, fromTar := map[string]string{}, map[string]string{}
	if err := LogsFS(files, read(fromDir)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, fromDir); diff != "" {
		t.Error(diff)
	}
	if err := Logs(strings.NewReader(packed(t, files)), read(fromTar)); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(fromDir, fromTar) {
		t.Errorf("archive: %s", cmp.Diff(fromDir, fromTar))
	}
	damaged := fstest.MapFS{"bundle/nodes/n4.zip": &fstest.MapFile{Data: []byte("PK")}}
	if err := LogsFS(damaged, read(map[string]string{})); err == nil || err.Error() != "it is no archive" {
		t.Errorf("a node's archive that is none: %v", err)
	}
	if err := Logs(strings.NewReader("apiVersion: v1\n"), func(Log, io.Reader) error { panic("a log in one text") }); err != nil {
		t.Error(err)
	}
}

// TestDriversObjectsInBundle: Longhorn's own objects in a bundle are a list of the storage.
// Nobody knows whether they were read before the others or after them, so that only an
// attachment counts which has been there since before the bundle: by its own word, or 15 minutes
// before its time.
func TestDriversObjectsInBundle(t *testing.T) {
	volume := func(name, state, node string) string {
		return fmt.Sprintf(`{"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": %q, "namespace": "longhorn-system"}, "spec": {"accessMode": "rwo", "migratable": false, "migrationNodeID": "", "nodeID": %q, "size": "1073741824"},
			"status": {"actualSize": 104857600, "conditions": [], "currentMigrationNodeID": "", "currentNodeID": %q, "kubernetesStatus": {"namespace": "", "pvName": "", "pvcName": "", "workloadsStatus": null}, "robustness": "healthy", "state": %q}}`, name, node, node, state)
	}
	attachment := func(name, since string) string {
		return fmt.Sprintf(`{"apiVersion": "longhorn.io/v1beta2", "kind": "VolumeAttachment", "metadata": {"name": %q, "namespace": "longhorn-system"}, "spec": {"attacher": "longhorn-api", "attachmentTickets": {"t": {"generation": 0, "id": "t", "nodeID": "n1", "parameters": {}, "type": "csi-attacher"}}, "volume": %q},
			"status": {"attachmentTicketStatuses": {"t": {"conditions": [{"lastProbeTime": "", "lastTransitionTime": %q, "message": "", "reason": "", "status": "True", "type": "Satisfied"}], "generation": 0, "id": "t", "satisfied": true}}}}`, name, name, since)
	}
	volumes := map[string]string{"old": volume("old", "attached", "n1"), "new": volume("new", "attached", "n1"), "free": volume("free", "detached", "")}
	attachments := map[string]string{"old": attachment("old", "2026-11-20T09:00:00Z"), "new": attachment("new", "2026-11-20T10:00:30Z")}
	const kit, replicated, longhorn = "supportbundle_1_2026-11-20T10-00-00Z/", "support-bundle-2026-11-20T10_00_00/cluster-resources/", "longhorn.io/v1beta2"
	node := `{"metadata": {"name": "n1", "creationTimestamp": "2026-11-20T10:00:00Z"}}`
	for name, files := range map[string]map[string]string{
		"support-bundle-kit": {
			kit + "metadata.yaml":               "kubernetesVersion: v1.28.1\nbundleCreatedAt: \"2026-11-20T10:00:00Z\"\n",
			kit + "yamls/cluster/v1/nodes.yaml": kitYAML("v1", "Node", map[string]string{"n1": node}),
			kit + "yamls/namespaced/longhorn-system/longhorn.io/v1beta2/volumes.yaml":           kitYAML(longhorn, "Volume", volumes),
			kit + "yamls/namespaced/longhorn-system/longhorn.io/v1beta2/volumeattachments.yaml": kitYAML(longhorn, "VolumeAttachment", attachments),
		},
		"troubleshoot.sh": {
			replicated + "nodes.json": `{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [` + node + `]}`,
			replicated + "custom-resources/volumes.longhorn.io/longhorn-system.json":           "[" + joined(volumes) + "]",
			replicated + "custom-resources/volumes.longhorn.io/longhorn-system.yaml":           "[" + joined(volumes) + "]",
			replicated + "custom-resources/volumeattachments.longhorn.io/longhorn-system.json": "[" + joined(attachments) + "]",
			replicated + "custom-resources/volumeattachments.longhorn.io/longhorn-system.yaml": "[" + joined(attachments) + "]",
			replicated + "custom-resources/engines.longhorn.io/longhorn-system.json":           `[{"apiVersion": "longhorn.io/v1beta2", "kind": "Engine", "metadata": {"name": "e"}}]`,
		},
	} {
		tree := fstest.MapFS{}
		for p, text := range files {
			tree[p] = &fstest.MapFile{Data: []byte(text)}
		}
		s, warnings, err := ReadFS("dir", tree, ReadOptions{Now: time.Date(2026, 11, 20, 10, 1, 0, 0, time.UTC)})
		if err != nil {
			t.Fatal(err)
		}
		if len(warnings) > 0 || len(s.Backends) != 1 || len(s.Backends[0].Volumes) != 3 {
			t.Fatalf("%s: %q, lists %+v", name, warnings, s.Backends)
		}
		for _, v := range s.Backends[0].Volumes {
			if counts := !v.Silent && len(v.Attachments) == 1 && v.Attachments[0].State == ""; counts != (v.ID == "old") || v.MadeFor != nil {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
}
