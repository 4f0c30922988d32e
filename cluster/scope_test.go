package cluster

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/scope"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const wantedDisk = "kubernetes.io/csi/ebs.csi.aws.com^vol-a"

// lookedAt are the objects without what no diagnose.Part looks at.
func attachmentLookedAt(va *storagev1.VolumeAttachment) *storagev1.VolumeAttachment {
	o := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Attacher: va.Spec.Attacher, NodeName: va.Spec.NodeName, Source: va.Spec.Source}}
	o.Name = va.Name
	if va.Spec.Source.InlineVolumeSpec != nil {
		o.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{}
	}
	return o
}

func nodeLookedAt(node *corev1.Node) *corev1.Node {
	o := &corev1.Node{}
	o.Name, o.Status.VolumesInUse = node.Name, node.Status.VolumesInUse
	for _, v := range node.Status.VolumesAttached {
		o.Status.VolumesAttached = append(o.Status.VolumesAttached, corev1.AttachedVolume{Name: v.Name})
	}
	return o
}

func volumeLookedAt(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	o := &corev1.PersistentVolume{}
	o.Name = pv.Name
	if csi := pv.Spec.CSI; csi != nil {
		o.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
	}
	return o
}

func claimLookedAt(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	o := &corev1.PersistentVolumeClaim{}
	o.Namespace, o.Name, o.Spec.VolumeName = claim.Namespace, claim.Name, claim.Spec.VolumeName
	return o
}

func checkPeeks[T any, P interface {
	*T
	object
	marshaler
}](t *testing.T, peek func([]byte) (P, bool), lookedAt func(P) P) {
	t.Helper()
	for seed := range int64(300) {
		o := P(new(T))
		filler(seed).Fill(o)
		raw, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, ok := peek(raw)
		if !ok {
			t.Fatalf("seed %d could not be read", seed)
		}
		decoded := P(new(T)) // an empty list is none on the wire
		if err := decoded.Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asJSON(t, lookedAt(decoded)), asJSON(t, got)); diff != "" {
			t.Fatalf("seed %d:\n%s", seed, diff)
		}
	}
}

// TestPeeksOfScope: what is looked at before decoding is what decoding gives, and
// nothing of one object shows in the next.
func TestPeeksOfScope(t *testing.T) {
	checkPeeks(t, peekAt[storagev1.VolumeAttachment](attachmentPeek), attachmentLookedAt)
	checkPeeks(t, peekAt[corev1.Node](nodePeek), nodeLookedAt)
	checkPeeks(t, peekAt[corev1.PersistentVolume](volumePeek), volumeLookedAt)
	checkPeeks(t, peekAt[corev1.PersistentVolumeClaim](claimPeek), claimLookedAt)
	peek := kindNamed(snapshot.Pods).(*kindOf[corev1.Pod, *corev1.Pod]).peek()
	skipped := 0
	for seed := range int64(300) {
		var pod corev1.Pod
		filler(seed).Fill(&pod)
		if seed%3 == 0 {
			pod.Spec.Volumes = nil
		}
		raw, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, ok := peek(raw)
		if attached := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return reconcile.CanBeAttached(&v) }); ok == attached {
			t.Fatalf("seed %d: has a volume to attach: %v, peeked at: %v", seed, attached, ok)
		}
		if ok {
			skipped++
			if got.Name != pod.Name || got.Namespace != pod.Namespace {
				t.Fatalf("seed %d: %s/%s", seed, got.Namespace, got.Name)
			}
		}
	}
	if skipped == 0 {
		t.Error("no pod was ever peeked at")
	}
}

// selecting answers as an API server does that knows the field selector.
func selecting[O metav1.Object](a *api, path string, all []O, list func([]O) runtime.Object, also func(O) fieldselector.Set) {
	a.handlers[path] = func(r *http.Request) (int, runtime.Object) {
		selector, err := fieldselector.ParseSelector(r.URL.Query().Get("fieldSelector"))
		if err != nil {
			a.t.Error(err)
		}
		var selected []O
		for _, o := range all {
			set := fieldselector.Set{"metadata.name": o.GetName()}
			if also != nil {
				for field, value := range also(o) {
					set[field] = value
				}
			}
			if selector.Matches(set) {
				selected = append(selected, o)
			}
		}
		return http.StatusOK, list(selected)
	}
}

func values[T any](pointers []*T) []T {
	var list []T
	for _, p := range pointers {
		list = append(list, *p)
	}
	return list
}

// servePods serves a cluster in which shop/a, on n1, has the volume vol-a, and
// another pod another volume on another node.
func servePods(t *testing.T) *api {
	a := newAPI(t)
	var pods []*corev1.Pod
	var claims []*corev1.PersistentVolumeClaim
	var volumes []*corev1.PersistentVolume
	var nodes []*corev1.Node
	var vas []*storagev1.VolumeAttachment
	for name, node := range map[string]string{"a": "n1", "b": "n2"} {
		p := pod(name)
		p.Spec.NodeName = node
		pods = append(pods, &p)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
		claim.Spec.VolumeName = "pv-" + name
		claims = append(claims, claim)
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name}}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + name}
		volumes = append(volumes, pv)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{corev1.UniqueVolumeName("kubernetes.io/csi/ebs.csi.aws.com^vol-" + name)}
		nodes = append(nodes, n)
		va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: reconcile.VolumeAttachmentName("vol-"+name, "ebs.csi.aws.com", types.NodeName(node))}}
		va.Spec = storagev1.VolumeAttachmentSpec{Attacher: "ebs.csi.aws.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name}}
		vas = append(vas, va)
	}
	podList := func(pods []*corev1.Pod) runtime.Object { return &corev1.PodList{Items: values(pods)} }
	podFields := func(p *corev1.Pod) fieldselector.Set { return fieldselector.Set{"spec.nodeName": p.Spec.NodeName} }
	selecting(a, "/api/v1/pods", pods, podList, podFields)
	selecting(a, "/api/v1/namespaces/shop/pods", pods, podList, podFields)
	for _, path := range []string{"/api/v1/persistentvolumeclaims", "/api/v1/namespaces/shop/persistentvolumeclaims"} {
		selecting(a, path, claims, func(l []*corev1.PersistentVolumeClaim) runtime.Object {
			return &corev1.PersistentVolumeClaimList{Items: values(l)}
		}, nil)
	}
	selecting(a, "/api/v1/persistentvolumes", volumes, func(l []*corev1.PersistentVolume) runtime.Object {
		return &corev1.PersistentVolumeList{Items: values(l)}
	}, nil)
	selecting(a, "/api/v1/nodes", nodes, func(l []*corev1.Node) runtime.Object { return &corev1.NodeList{Items: values(l)} }, nil)
	selecting(a, "/apis/storage.k8s.io/v1/volumeattachments", vas, func(l []*storagev1.VolumeAttachment) runtime.Object {
		return &storagev1.VolumeAttachmentList{Items: values(l)}
	}, nil)
	selecting(a, "/apis/coordination.k8s.io/v1/leases", []*coordinationv1.Lease{
		{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n1"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n2"}},
	}, func(l []*coordinationv1.Lease) runtime.Object { return &coordinationv1.LeaseList{Items: values(l)} }, nil)
	return a
}

func names[O metav1.Object](list []O) string {
	var names []string
	for _, o := range list {
		names = append(names, o.GetName())
	}
	return strings.Join(names, " ")
}

// TestSnapshotOf: of a pod that is asked for no more is read than its scope, in
// at most 15 requests, and nothing of the others is kept.
func TestSnapshotOf(t *testing.T) {
	a := servePods(t)
	s, err := a.cluster(Options{PageSize: PageSize}).SnapshotOf(t.Context(), scope.OfPod(types.NamespacedName{Namespace: "shop", Name: "a"}), func(*snapshot.Snapshot) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	got := names(s.Pods) + "; " + names(s.Claims) + "; " + names(s.Volumes) + "; " + names(s.Nodes) + "; " + names(s.Leases)
	if want := "a; a; pv-a; n1; n1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(s.VolumeAttachments) != 1 || s.VolumeAttachments[0].Spec.NodeName != "n1" || !slices.Contains(s.Nodes[0].Status.VolumesInUse, wantedDisk) {
		t.Errorf("%+v", s)
	}
	if len(s.Gaps) != 0 || !s.TakenAt.Equal(serverTime) || s.Source.ServerVersion != "v1.36.3" || s.Pods[0].Spec.Containers[0].Args != nil {
		t.Errorf("%+v", s)
	}
	if len(a.requests) > 15 {
		t.Errorf("%d requests", len(a.requests))
	}
	last := len(a.requests) - 1
	for i, r := range a.requests {
		if len(r.query["limit"]) > 0 {
			t.Errorf("%s in chunks", r.path)
		}
		if whole := len(r.query["fieldSelector"]) == 0; whole && r.path == "/api/v1/pods" || whole && r.path == "/api/v1/persistentvolumeclaims" {
			t.Errorf("all of %s", r.path)
		}
		if strings.HasSuffix(r.path, "/pods") && i > 1 && i < last-2 {
			t.Errorf("pods are read before what they use: request %d of %d", i, last)
		}
	}
}

// TestSnapshotOfWhole: what does not suffice, or could not all be read, is never
// passed off for the cluster.
func TestSnapshotOfWhole(t *testing.T) {
	web := types.NamespacedName{Namespace: "shop", Name: "a"}
	whole := func(t *testing.T, a *api, pod types.NamespacedName, suffices func(*snapshot.Snapshot) bool) *snapshot.Snapshot {
		t.Helper()
		s, err := a.cluster(Options{PageSize: PageSize}).SnapshotOf(t.Context(), scope.OfPod(pod), suffices)
		if err != nil {
			t.Fatal(err)
		}
		if names(s.Pods) != "a b" || names(s.Volumes) != "pv-a pv-b" || len(s.VolumeAttachments) != 2 {
			t.Errorf("not the whole cluster: %+v", s)
		}
		return s
	}
	t.Run("it does not suffice", func(t *testing.T) {
		whole(t, servePods(t), web, func(*snapshot.Snapshot) bool { return false })
	})
	t.Run("no such pod", func(t *testing.T) {
		whole(t, servePods(t), types.NamespacedName{Namespace: "shop", Name: "c"}, func(s *snapshot.Snapshot) bool {
			if len(s.Pods)+len(s.Nodes) > 0 {
				t.Errorf("%+v", s)
			}
			return false
		})
	})
	t.Run("a kind that may not be read", func(t *testing.T) {
		a := servePods(t)
		a.fail("/apis/coordination.k8s.io/v1/leases", forbidden("leases"))
		s := whole(t, a, web, func(s *snapshot.Snapshot) bool {
			if len(s.Gaps) != 1 || s.Gaps[0].Kind != snapshot.Leases {
				t.Errorf("%+v", s.Gaps)
			}
			return len(s.Gaps) == 0
		})
		if len(s.Gaps) != 1 {
			t.Errorf("%+v", s.Gaps)
		}
	})
	t.Run("the credentials are refused", func(t *testing.T) {
		a := servePods(t)
		a.fail("/version", apierrors.NewUnauthorized("Unauthorized"))
		if s, err := a.cluster(Options{}).SnapshotOf(t.Context(), scope.OfPod(web), func(*snapshot.Snapshot) bool { return true }); err == nil {
			t.Errorf("%+v", s)
		}
	})
}
