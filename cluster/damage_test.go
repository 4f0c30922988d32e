package cluster

import (
	"bytes"
	"math/rand"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/intern"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// damaged calls check with the page in which one byte is another: each byte, with
// each of its bits flipped.
func damaged(page []byte, check func(page []byte)) {
	page = bytes.Clone(page)
	for i := range page {
		for bit := range 8 {
			page[i] ^= 1 << bit
			check(page)
			page[i] ^= 1 << bit
		}
	}
}

// generatedItems decodes a page with the generated code alone.
func generatedItems[T any, P interface {
	*T
	object
}, L interface{ Unmarshal([]byte) error }](page []byte, list L, items func() []T) ([]T, error) {
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(page[len(envelope):]); err != nil {
		return nil, err
	}
	err := list.Unmarshal(unknown.Raw)
	return items(), err
}

// TestDamagedPage: whichever byte of a page is damaged, the page is refused, or gives
// what the generated decoder makes of the same bytes. No object is ever dropped: the
// two count as many.
func TestDamagedPage(t *testing.T) {
	long.Test(t)
	ofUse := facts.NeedsOf(&snapshot.Objects{}).OfUse
	list := typicalPods(2) // one of use, one of none
	for i := range list.Items {
		shorten(&list.Items[i])
	}
	whole := encodedList(t, list)
	accepted, refused := 0, 0
	damaged(whole, func(page []byte) {
		peek := new(podPeeker).peek
		p := &pages[corev1.Pod, *corev1.Pod]{Cluster: &Cluster{}, kind: snapshot.Pods, sharer: intern.New(), choice: choice[*corev1.Pod]{
			peek: peek, keep: ofUse,
		}}
		if _, err := listPage(bytes.NewReader(page), corev1.SchemeGroupVersion.WithKind("PodList"), p.take, nil); err != nil {
			refused++
			return
		}
		accepted++
		var typed corev1.PodList
		all, err := generatedItems[corev1.Pod](page, &typed, func() []corev1.Pod { return typed.Items })
		if err != nil || len(all) != p.seen {
			t.Fatalf("%d pods are read, the generated decoder reads %d: %v", p.seen, len(all), err)
		}
		var want []*corev1.Pod
		for i := range all {
			if ofUse(&all[i]) {
				trim.Object(&all[i])
				want = append(want, &all[i])
			}
		}
		if diff := cmp.Diff(asJSON(t, want), asJSON(t, p.kept)); diff != "" {
			t.Fatal(diff)
		}
	})
	if accepted == 0 || refused == 0 {
		t.Errorf("%d pages accepted, %d refused", accepted, refused)
	}
}

// shorten leaves a pod with every kind of field, and few of each.
func shorten(pod *corev1.Pod) {
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x", FieldsV1: metav1.NewFieldsV1("{}")}}
	pod.Annotations = map[string]string{"a": "b"}
	pod.Spec.Containers = pod.Spec.Containers[:1]
	pod.Spec.Containers[0].Env = pod.Spec.Containers[0].Env[:1]
	pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[:1]
}

// TestDamagedAttachments is TestDamagedPage for a kind of which every object is kept.
func TestDamagedAttachments(t *testing.T) {
	volume, errorTime := "pv1", metav1.NewTime(serverTime)
	list := &storagev1.VolumeAttachmentList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []storagev1.VolumeAttachment{{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-1", UID: "u", DeletionTimestamp: &errorTime, Finalizers: []string{"external-attacher/x"}},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "x", NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true, DetachError: &storagev1.VolumeError{Message: "no", Time: errorTime}},
	}, {ObjectMeta: metav1.ObjectMeta{Name: "csi-2"}}}}
	damaged(encodedList(t, list), func(page []byte) {
		p := &pages[storagev1.VolumeAttachment, *storagev1.VolumeAttachment]{Cluster: &Cluster{}, kind: snapshot.VolumeAttachments, sharer: intern.New()}
		if _, err := listPage(bytes.NewReader(page), storagev1.SchemeGroupVersion.WithKind("VolumeAttachmentList"), p.take, nil); err != nil {
			return
		}
		var typed storagev1.VolumeAttachmentList
		all, err := generatedItems[storagev1.VolumeAttachment](page, &typed, func() []storagev1.VolumeAttachment { return typed.Items })
		if err != nil || len(all) != len(p.kept) {
			t.Fatalf("%d attachments are read, the generated decoder reads %d: %v", len(p.kept), len(all), err)
		}
		for i := range all {
			trim.Object(&all[i])
			if diff := cmp.Diff(asJSON(t, all[i]), asJSON(t, p.kept[i])); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// checkLayout: what a layout accepts, the generated decoder reads.
func checkLayout[T any, P interface {
	*T
	object
	marshaler
}](t *testing.T) (accepted int) {
	t.Helper()
	described := layoutOf(reflect.TypeFor[T]())
	random := rand.New(rand.NewSource(1))
	for seed := range int64(30) {
		o := P(new(T))
		filler(seed).Fill(o)
		raw, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			damage := bytes.Clone(raw)
			for range random.Intn(3) {
				damage[random.Intn(len(damage))] ^= byte(1 + random.Intn(255))
			}
			if !described.accepts(damage) {
				continue
			}
			accepted++
			if err := P(new(T)).Unmarshal(damage); err != nil {
				t.Fatalf("%T, seed %d: accepted, and the decoder says %v", o, seed, err)
			}
		}
	}
	return accepted
}

func TestLayouts(t *testing.T) {
	for kind, accepted := range map[snapshot.Kind]int{
		snapshot.Pods:              checkLayout[corev1.Pod](t),
		snapshot.Nodes:             checkLayout[corev1.Node](t),
		snapshot.Volumes:           checkLayout[corev1.PersistentVolume](t),
		snapshot.Claims:            checkLayout[corev1.PersistentVolumeClaim](t),
		snapshot.Events:            checkLayout[corev1.Event](t),
		snapshot.VolumeAttachments: checkLayout[storagev1.VolumeAttachment](t),
		snapshot.CSINodes:          checkLayout[storagev1.CSINode](t),
		snapshot.CSIDrivers:        checkLayout[storagev1.CSIDriver](t),
		snapshot.StorageClasses:    checkLayout[storagev1.StorageClass](t),
		snapshot.Leases:            checkLayout[coordinationv1.Lease](t),
		snapshot.Deployments:       checkLayout[appsv1.Deployment](t),
	} {
		if accepted == 0 {
			t.Errorf("no object of the %s is accepted", kind)
		}
	}
	pods := typicalPods(6)
	for i := range pods.Items {
		if raw, err := pods.Items[i].Marshal(); err != nil || !layoutOf(reflect.TypeFor[corev1.Pod]()).accepts(raw) {
			t.Errorf("a usual pod is left to the slow decoder: %v", err)
		}
	}
}
