package cluster

import (
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const attachmentsPath = "/apis/storage.k8s.io/v1/volumeattachments"

// withAttached is the scope's number of pods with an attached volume; "-" if it is not known.
func withAttached(s *snapshot.Snapshot) string {
	if n := diagnose.Diagnose(s, diagnose.Options{}).Scope.PodsWithAttachedVolume; n != nil {
		return fmt.Sprint(*n)
	}
	return "-"
}

// serveWorld serves a world with a pod that has an attached volume, one that has none, and one
// whose volume is not attached to its node.
func serveWorld(a *api) *testworld.World {
	w := testworld.New()
	none, elsewhere := testworld.NewPod("none", "n1"), testworld.NewPod("elsewhere", "n2")
	none.Spec.Volumes = nil
	w.Pods = append(w.Pods, none, elsewhere)
	a.serve("/api/v1/nodes", &corev1.NodeList{Items: values(w.Nodes)})
	a.serve(podsPath, &corev1.PodList{Items: values(w.Pods)})
	a.serve("/api/v1/persistentvolumes", &corev1.PersistentVolumeList{Items: values(w.Volumes)})
	a.serve("/api/v1/persistentvolumeclaims", &corev1.PersistentVolumeClaimList{Items: values(w.Claims)})
	a.serve(attachmentsPath, &storagev1.VolumeAttachmentList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: values(w.VolumeAttachments)})
	a.serve("/apis/storage.k8s.io/v1/csinodes", &storagev1.CSINodeList{Items: values(w.CSINodes)})
	a.serve("/apis/storage.k8s.io/v1/csidrivers", &storagev1.CSIDriverList{Items: values(w.CSIDrivers)})
	a.serve("/apis/coordination.k8s.io/v1/leases", &coordinationv1.LeaseList{Items: values(w.Leases)})
	return w
}

// TestAttachedPodsOfALiveCluster checks the number of pods with an attached volume in what is read
// at once, also where only the pods of use are kept, and that it is not known where a list that
// shows what is attached is refused.
func TestAttachedPodsOfALiveCluster(t *testing.T) {
	a := newAPI(t)
	w := serveWorld(a)
	read := func(options Options) *snapshot.Snapshot {
		s, err := a.cluster(options).Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, options := range map[string]Options{"all pods": {All: true}, "the pods of use": {}} {
		if s := read(options); withAttached(s) != "1" || s.Counts()[snapshot.Pods] != 3 {
			t.Errorf("%s: %s of %d pods", name, withAttached(s), s.Counts()[snapshot.Pods])
		}
	}
	detached := w.VolumeAttachments[0].DeepCopy()
	detached.Status.Attached = false
	w.Nodes[0].Status = corev1.NodeStatus{Conditions: w.Nodes[0].Status.Conditions}
	a.serve("/api/v1/nodes", &corev1.NodeList{Items: values(w.Nodes)})
	a.serve(attachmentsPath, &storagev1.VolumeAttachmentList{Items: []storagev1.VolumeAttachment{*detached}})
	if got := withAttached(read(Options{})); got != "0" {
		t.Errorf("a volume that is being attached: %s", got)
	}
	a.fail("/api/v1/events", forbidden("events"))
	if got := withAttached(read(Options{})); got != "0" {
		t.Errorf("without events: %s", got)
	}
	for path := range emptyLists {
		if strings.Contains(path, "/namespaces/") || !strings.HasSuffix(path, "nodes") && !strings.HasSuffix(path, "volumeattachments") && !strings.HasSuffix(path, "csidrivers") {
			continue
		}
		before := a.handlers[path]
		a.fail(path, forbidden(path[strings.LastIndex(path, "/")+1:]))
		if got := withAttached(read(Options{})); got != "-" {
			t.Errorf("without %s: %s", path, got)
		}
		a.handle(path, before)
	}
}

// TestAttachedPodsOfAWatch checks that the number follows the cluster.
func TestAttachedPodsOfAWatch(t *testing.T) {
	a := newAPI(t)
	a.noProtobuf = true
	s := a.streams()
	serveWorld(a)
	w := begin(t, a, Options{})
	until(t, w, "a pod with an attached volume", func(s *snapshot.Snapshot) bool { return len(s.Gaps) == 0 && withAttached(s) == "1" })
	until(t, w, "a stream of VolumeAttachments", func(*snapshot.Snapshot) bool { return s.stream(attachmentsPath) != nil })
	second := testworld.NewAttachment("n2")
	second.TypeMeta = metav1.TypeMeta{Kind: "VolumeAttachment", APIVersion: "storage.k8s.io/v1"}
	second.ResourceVersion = "11"
	s.stream(attachmentsPath) <- event(t, "ADDED", second)
	until(t, w, "a second pod with one", func(s *snapshot.Snapshot) bool { return withAttached(s) == "2" })
	second.ResourceVersion = "12"
	s.stream(attachmentsPath) <- event(t, "DELETED", second)
	until(t, w, "one pod with one", func(s *snapshot.Snapshot) bool { return withAttached(s) == "1" })
}
