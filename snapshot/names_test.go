package snapshot

import (
	"encoding/json"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestNames: as a map in which later objects replace earlier ones.
func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"", "a", "b", "ab", "c", "shop", "shop/a"})
		var list []*corev1.Pod
		byBoth, byOne := map[types.NamespacedName]*corev1.Pod{}, map[string]*corev1.Pod{}
		for range rapid.IntRange(0, 40).Draw(t, "objects") {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Draw(t, "namespace"), Name: name.Draw(t, "name")}}
			list = append(list, pod)
			byBoth[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}], byOne[pod.Name] = pod, pod
		}
		both, one := byNamespacedName(list), byName(list)
		for range 20 {
			key := types.NamespacedName{Namespace: name.Draw(t, "namespace"), Name: name.Draw(t, "name")}
			if got := named(both, key); got != byBoth[key] {
				t.Fatalf("%v: %v, not %v", key, got, byBoth[key])
			}
			if got := named(one, key.Name); got != byOne[key.Name] {
				t.Fatalf("%s: %v, not %v", key.Name, got, byOne[key.Name])
			}
		}
	})
}

// TestShareNames: nothing that is said changes, and what names another object
// takes no text of its own.
func TestShareNames(t *testing.T) {
	text := func(s string) string { return string([]byte(s)) } // one of its own
	volume := text("pv-1")
	o := Objects{
		Volumes: []*corev1.PersistentVolume{
			{ObjectMeta: metav1.ObjectMeta{Name: text("pv-1")}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: text("data"), UID: types.UID(text("u"))}}},
			{ObjectMeta: metav1.ObjectMeta{Name: text("pv-2")}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: text("data"), UID: types.UID(text("of another"))}}},
			{ObjectMeta: metav1.ObjectMeta{Name: text("pv-3")}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: text("gone")}}},
		},
		Claims: []*corev1.PersistentVolumeClaim{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: text("data"), UID: types.UID(text("u"))}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: text("pv-1")}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: text("unbound")}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: text("lost")}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: text("pv-9")}},
		},
		VolumeAttachments: []*storagev1.VolumeAttachment{
			{Spec: storagev1.VolumeAttachmentSpec{Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}},
			{Spec: storagev1.VolumeAttachmentSpec{Source: storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{}}}},
		},
		Pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: text("data")}}},
			{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: text("gone")}}},
			{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}}}},
	}
	said := func() string {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := said()
	o.ShareNames()
	if after := said(); after != before {
		t.Fatalf("%s\nbecame\n%s", before, after)
	}
	pv, claim := o.Volumes[0], o.Claims[0]
	for what, texts := range map[string][2]string{
		"the claim's volume":       {claim.Spec.VolumeName, pv.Name},
		"the attachment's volume":  {*o.VolumeAttachments[0].Spec.Source.PersistentVolumeName, pv.Name},
		"the volume's claim":       {pv.Spec.ClaimRef.Name, claim.Name},
		"the volume's claim's UID": {string(pv.Spec.ClaimRef.UID), string(claim.UID)},
		"the pod's claim":          {o.Pods[0].Spec.Volumes[0].PersistentVolumeClaim.ClaimName, claim.Name},
	} {
		if unsafe.StringData(texts[0]) != unsafe.StringData(texts[1]) {
			t.Errorf("%s is not shared", what)
		}
	}
}
