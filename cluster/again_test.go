package cluster

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestReadAgain: of a node whose volumesAttached the controller has only just written the
// fullest of several readings counts, and no other node is read again.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	node := func(written time.Duration, manager string, volumes ...corev1.UniqueVolumeName) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid", ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", FieldsType: "FieldsV1",
			Time: &metav1.Time{Time: serverTime.Add(-written)}, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:volumesAttached":{}}}`)}}}}
		for _, v := range volumes {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: v})
		}
		return n
	}
	const controller = reconcile.ControllerManager
	other := node(time.Second, controller, "a", "b")
	other.UID = "another"
	for what, test := range map[string]struct {
		nodes []corev1.Node // the first reading and those of the node alone; zero: refused
		again int
		want  int
		gap   bool
	}{
		"it is missing at first":       {[]corev1.Node{node(time.Second, controller), node(0, controller, "a"), node(0, controller), node(0, controller)}, 3, 1, false},
		"it is missing later":          {[]corev1.Node{node(time.Second, controller, "a"), node(0, controller), node(0, controller), node(0, controller)}, 3, 1, false},
		"two take turns":               {[]corev1.Node{node(time.Second, controller, "a"), node(0, controller), node(0, controller, "a", "b"), node(0, controller)}, 3, 2, false},
		"written a while ago":          {[]corev1.Node{node(10*time.Second, controller)}, 0, 0, false},
		"the controller is k3s's":      {[]corev1.Node{node(time.Second, "k3s"), node(0, "k3s", "a"), node(0, "k3s"), node(0, "k3s")}, 3, 1, false},
		"written by somebody else":     {[]corev1.Node{node(time.Second, "kubelet")}, 0, 0, false},
		"refused":                      {[]corev1.Node{node(time.Second, controller, "a"), {}, {}, {}, {}}, 4, 1, true},
		"refused once":                 {[]corev1.Node{node(time.Second, controller), {}, node(0, controller, "a"), node(0, controller)}, 3, 1, false},
		"refused at last":              {[]corev1.Node{node(time.Second, controller), node(0, controller), node(0, controller), {}, node(0, controller, "a")}, 4, 1, false},
		"another machine has its name": {[]corev1.Node{node(time.Second, controller, "a"), other, other, other}, 3, 1, false},
	} {
		t.Run(what, func(t *testing.T) {
			a := newAPI(t)
			var mu sync.Mutex
			again := 0
			a.handle("/api/v1/nodes", func(r *http.Request) (int, runtime.Object) {
				mu.Lock()
				defer mu.Unlock()
				if selector := r.URL.Query().Get("fieldSelector"); selector == "metadata.name=n1" {
					again++
				} else if selector != "" {
					t.Errorf("asked for %q", selector)
				}
				if test.nodes[again].Name == "" {
					err := forbidden("nodes")
					return int(err.ErrStatus.Code), &err.ErrStatus
				}
				return http.StatusOK, &corev1.NodeList{Items: []corev1.Node{test.nodes[again]}}
			})
			progress := map[snapshot.Kind]int{}
			s, err := a.cluster(Options{PageSize: PageSize, Progress: func(kind snapshot.Kind, n int) { progress[kind] += n }}).Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := len(s.Node(types.NodeName("n1")).Status.VolumesAttached); got != test.want || again != test.again {
				t.Errorf("%d entries after %d more readings, want %d after %d", got, again, test.want, test.again)
			}
			if gap := len(s.Gaps) > 0; gap != test.gap || progress[snapshot.Nodes] != 1 {
				t.Errorf("gaps %v, want some: %v; progress %v", s.Gaps, test.gap, progress)
			}
		})
	}
}

// TestReadAgainWhereAnEntryIsMissing: the lists are not of one moment. A volume that its
// VolumeAttachment has attached, and that the node uses and does not list, may be listed
// by now.
func TestReadAgainWhereAnEntryIsMissing(t *testing.T) {
	const volume = corev1.UniqueVolumeName("kubernetes.io/csi/disk^vol-1")
	for what, test := range map[string]struct {
		inUse, listed, attached, going bool
		age                            time.Duration
		again                          int
	}{
		"it is missing":              {true, false, true, false, 29 * time.Minute, 3},
		"it has been for long":       {true, false, true, false, 31 * time.Minute, 0},
		"it is there":                {true, true, true, false, time.Minute, 0},
		"the attach is under way":    {true, false, false, false, time.Minute, 0},
		"it is being detached":       {true, false, true, true, time.Minute, 0},
		"the kubelet has not got it": {false, false, true, false, time.Minute, 0},
	} {
		t.Run(what, func(t *testing.T) {
			a := newAPI(t)
			va := storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: reconcile.VolumeAttachmentName("vol-1", "disk", "n1")}}
			va.CreationTimestamp = metav1.NewTime(serverTime.Add(-test.age))
			va.Status.Attached = test.attached
			if test.going {
				va.DeletionTimestamp = &metav1.Time{Time: serverTime}
			}
			a.serve("/apis/storage.k8s.io/v1/volumeattachments", &storagev1.VolumeAttachmentList{Items: []storagev1.VolumeAttachment{va}})
			var again atomic.Int32
			a.handle("/api/v1/nodes", func(r *http.Request) (int, runtime.Object) {
				node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid"}}
				if test.inUse {
					node.Status.VolumesInUse = []corev1.UniqueVolumeName{volume}
				}
				later := r.URL.Query().Get("fieldSelector") != "" && again.Add(1) > 0
				if test.listed || later {
					node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: volume}}
				}
				return http.StatusOK, &corev1.NodeList{Items: []corev1.Node{node}}
			})
			s, err := a.cluster(Options{PageSize: PageSize}).Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			listed := len(s.Node("n1").Status.VolumesAttached) > 0
			if int(again.Load()) != test.again || listed != (test.listed || test.again > 0) {
				t.Errorf("read again %d times, want %d; listed: %v", again.Load(), test.again, listed)
			}
		})
	}
}

// TestReadAgainWithoutAttachment: a volume that was detached while the lists were read is not
// listed any more. One that is still listed has lost its VolumeAttachment in another way.
func TestReadAgainWithoutAttachment(t *testing.T) {
	const volume = corev1.UniqueVolumeName("kubernetes.io/csi/disk^vol-1")
	for what, test := range map[string]struct {
		attachment, gone bool
		again            int32
		entries          int
	}{
		"it was detached":                  {false, true, 1, 0},
		"its VolumeAttachment was deleted": {false, false, 1, 1},
		"it is attached":                   {true, true, 0, 1},
	} {
		t.Run(what, func(t *testing.T) {
			a := newAPI(t)
			list := &storagev1.VolumeAttachmentList{}
			if test.attachment {
				list.Items = append(list.Items, storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: reconcile.VolumeAttachmentName("vol-1", "disk", "n1")},
					Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}})
			}
			a.serve("/apis/storage.k8s.io/v1/volumeattachments", list)
			var again atomic.Int32
			a.handle("/api/v1/nodes", func(r *http.Request) (int, runtime.Object) {
				node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid"}}
				if later := r.URL.Query().Get("fieldSelector") != "" && again.Add(1) > 0; !later || !test.gone {
					node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: volume}}
				}
				return http.StatusOK, &corev1.NodeList{Items: []corev1.Node{node}}
			})
			s, err := a.cluster(Options{PageSize: PageSize}).Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := len(s.Node("n1").Status.VolumesAttached); got != test.entries || again.Load() != test.again {
				t.Errorf("%d entries after %d more readings, want %d after %d", got, again.Load(), test.entries, test.again)
			}
		})
	}
}
