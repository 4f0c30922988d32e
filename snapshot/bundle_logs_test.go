package snapshot

import (
	"io"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

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
	if err := Logs(strings.NewReader("apiVersion: v1\n"), func(Log, io.Reader) error { panic("a log in one text") }); err != nil {
		t.Error(err)
	}
}

// TestDriversObjectsInBundle: Longhorn's own objects in a bundle are a list of the storage.
// Nobody knows whether they were read before the others or after them, so that only an
// attachment counts which has been there since before the bundle.
func TestDriversObjectsInBundle(t *testing.T) {
	const folder = "supportbundle_1_2026-11-20T10-00-00Z/yamls/"
	volume := func(name, state, node string) string {
		return "- apiVersion: longhorn.io/v1beta2\n  kind: Volume\n  metadata: {name: " + name + ", namespace: longhorn-system}\n  spec: {accessMode: rwo, nodeID: " + node + "}\n  status: {state: " + state + ", currentNodeID: " + node + "}\n"
	}
	attachment := func(name, node, since string) string {
		return "- apiVersion: longhorn.io/v1beta2\n  kind: VolumeAttachment\n  metadata: {name: " + name + ", namespace: longhorn-system}\n  spec: {volume: " + name + ", attachmentTickets: {t: {type: csi-attacher, nodeID: " + node + ", generation: 0}}}\n" +
			"  status: {attachmentTicketStatuses: {t: {satisfied: true, generation: 0, conditions: [{type: Satisfied, status: 'True', lastTransitionTime: '" + since + "'}]}}}\n"
	}
	list := func(kind, items string) string {
		return "apiVersion: longhorn.io/v1beta2\nitems:\n" + items + "kind: " + kind + "List\nmetadata: {resourceVersion: '7'}\n"
	}
	files := fstest.MapFS{}
	put := func(p, text string) { files[folder+p] = &fstest.MapFile{Data: []byte(text)} }
	put("cluster/v1/nodes.yaml", "apiVersion: v1\nitems:\n- {metadata: {name: n1}}\nkind: NodeList\nmetadata: {resourceVersion: '7'}\n")
	put("namespaced/longhorn-system/longhorn.io/v1beta2/volumes.yaml", list("Volume", volume("old", "attached", "n1")+volume("new", "attached", "n1")+volume("free", "detached", "''")))
	put("namespaced/longhorn-system/longhorn.io/v1beta2/volumeattachments.yaml", list("VolumeAttachment", attachment("old", "n1", "2026-11-20T09:00:00Z")+attachment("new", "n1", "2026-11-20T10:00:30Z")))
	files["supportbundle_1_2026-11-20T10-00-00Z/metadata.yaml"] = &fstest.MapFile{Data: []byte("kubernetesVersion: v1.28.1\nbundleCreatedAt: \"2026-11-20T10:00:00Z\"\n")}
	s, warnings, err := ReadFS("dir", files, ReadOptions{Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) > 0 || len(s.Backends) != 1 || len(s.Backends[0].Volumes) != 3 {
		t.Fatalf("%q, lists %+v", warnings, s.Backends)
	}
	for _, v := range s.Backends[0].Volumes {
		if counts := !v.Silent && len(v.Attachments) == 1 && v.Attachments[0].State == ""; counts != (v.ID == "old") {
			t.Errorf("%+v", v)
		}
	}
}
