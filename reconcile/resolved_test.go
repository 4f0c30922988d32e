package reconcile

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestLivePodsAreWhatTheyAreSaidToBe: the index of the pods that use a volume on a node gives
// the same answer as asking each pod there.
func TestLivePodsAreWhatTheyAreSaidToBe(t *testing.T) {
	found := 0
	check(t, func(t *rapid.T, o snapshot.Objects, _ Options, w *World, _ *Plan) {
		for _, node := range []types.NodeName{"", "n1", "n2", "n3", "gone"} {
			for _, volume := range append(volumeNames(o), "nobody's") {
				pair := VolumeNode{volume, node}
				var want []*corev1.Pod
				for _, pod := range w.snapshot.PodsOnNode(node) {
					if (!PodTerminated(pod) || w.keepsTerminated(node)) && reaches(w, pod, volume) {
						want = append(want, pod)
					}
				}
				found += len(want)
				if got := w.LivePods(pair); !slices.Equal(got, want) {
					t.Errorf("%v: %v, want %v", pair, podNamesOf(got), podNamesOf(want))
				}
			}
		}
	})
	if found == 0 {
		t.Error("no volume had a user")
	}
}

// reaches reports whether the pod reaches the volume through a claim by whatever
// name, bound or not, or did through one that the volume still names.
func reaches(w *World, pod *corev1.Pod, volume corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		// v is a copy, for which nothing is remembered.
		name, _, err := w.PodVolume(pod, &v)
		if err == nil && name == volume {
			return true
		}
		key := namespaced(pod.Namespace, ClaimName(pod, &v))
		claim := w.snapshot.Claim(key)
		return slices.ContainsFunc(w.Volumes(volume), func(pv *corev1.PersistentVolume) bool {
			former := key.Name != "" && (claim == nil || pod.CreationTimestamp.Before(&claim.CreationTimestamp))
			ref := pv.Spec.ClaimRef
			return err != nil && claim != nil && pv.Name == claim.Spec.VolumeName || former && ref != nil && namespaced(ref.Namespace, ref.Name) == key
		})
	})
}

func podNamesOf(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, fmt.Sprintf("%s/%s", pod.Namespace, pod.Name))
	}
	return names
}

// TestVolumesWithoutAPlugin: hasNoPlugin, the shortcut, agrees with asking the plugins.
func TestVolumesWithoutAPlugin(t *testing.T) {
	w := NewWorld(snapshot.New(metav1.Now().Time, snapshot.Source{}, snapshot.Objects{}, nil), Options{})
	pod := newPod("p", "n1", nil)
	for _, source := range []corev1.VolumeSource{
		{Secret: &corev1.SecretVolumeSource{}}, {HostPath: &corev1.HostPathVolumeSource{Path: "/var"}}, {EmptyDir: &corev1.EmptyDirVolumeSource{}},
		{Projected: &corev1.ProjectedVolumeSource{}}, {ConfigMap: &corev1.ConfigMapVolumeSource{}}, {Image: &corev1.ImageVolumeSource{}},
		{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}, {GitRepo: &corev1.GitRepoVolumeSource{}},
		{NFS: &corev1.NFSVolumeSource{}}, {CSI: &corev1.CSIVolumeSource{Driver: "d"}}, {FC: &corev1.FCVolumeSource{WWIDs: []string{"w"}}},
		// no API server accepts two sources, but a file may have them
		{EmptyDir: &corev1.EmptyDirVolumeSource{}, FC: &corev1.FCVolumeSource{WWIDs: []string{"w"}}},
	} {
		volume := &corev1.Volume{Name: "v", VolumeSource: source}
		name, _, err := w.PodVolume(pod, volume)
		spec, long := w.resolver.inline(volume, pod.Namespace, "n1")
		if long != nil {
			t.Fatal(long)
		}
		want, long := w.nameOf(spec)
		if name != want || fmt.Sprint(err) != fmt.Sprint(long) {
			t.Errorf("%+v: %q, %v; want %q, %v", source, name, err, want, long)
		}
	}
}
