package conformance

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Lookups are the model's answers to the diagnoses' questions to a world. The controller has
// no such questions, but its own answer bounds each of these.
type Lookups struct {
	// Recovered are the VolumeAttachments that World.Attachments returns for any pair.
	Recovered sets.Set[string]
	// AttachmentVolume is the volume that each VolumeAttachment is about, where it can be
	// told.
	AttachmentVolume map[string]corev1.UniqueVolumeName
	// PodVolume is the volume behind each volume of a pod, where it can be told, by its key
	// in the skips.
	PodVolume map[string]corev1.UniqueVolumeName
	// Attachment is the VolumeAttachment that is shown for a pair.
	Attachment map[Pair]string
	// Volume and Volumes are the PVs behind a unique name.
	Volume  map[corev1.UniqueVolumeName]string
	Volumes map[corev1.UniqueVolumeName][]string
	// LivePods are the pods that may have the pair's volume mounted.
	LivePods map[Pair][]string
}

func lookupsOf(world *reconcile.World, objects *snapshot.Snapshot, pairs []Pair) Lookups {
	l := Lookups{
		Recovered: sets.New[string](), Attachment: map[Pair]string{},
		AttachmentVolume: map[string]corev1.UniqueVolumeName{}, PodVolume: map[string]corev1.UniqueVolumeName{}, LivePods: map[Pair][]string{},
		Volume: map[corev1.UniqueVolumeName]string{}, Volumes: map[corev1.UniqueVolumeName][]string{},
	}
	for _, pod := range objects.Pods {
		for i := range pod.Spec.Volumes {
			if name, _, err := world.PodVolume(pod, &pod.Spec.Volumes[i]); err == nil {
				l.PodVolume[podVolumeKey(pod, i)] = name
			}
		}
	}
	for _, va := range objects.VolumeAttachments {
		if name, err := world.AttachmentVolume(va); err == nil {
			l.AttachmentVolume[va.Name] = name
		}
	}
	for _, pair := range pairs {
		for _, va := range world.Attachments(pair) {
			l.Recovered.Insert(va.Name)
		}
		if row := world.Actual.Find(pair); row != nil && row.Attachment != nil {
			l.Attachment[pair] = row.Attachment.Name
		}
		if pv := world.Volume(pair.Volume); pv != nil {
			l.Volume[pair.Volume] = pv.Name
		}
		l.Volumes[pair.Volume] = nil
		for _, pv := range world.Volumes(pair.Volume) {
			l.Volumes[pair.Volume] = append(l.Volumes[pair.Volume], pv.Name)
		}
		for _, pod := range world.LivePods(pair) {
			l.LivePods[pair] = append(l.LivePods[pair], pod.Namespace+"/"+pod.Name)
		}
	}
	return l
}

// compareLookups compares the look-ups with the controller's worlds, its log and its
// operations.
func (r *comparison) compareLookups() {
	recovered := sets.New[string]()
	for _, va := range r.cluster.VolumeAttachments {
		name, told := r.model.AttachmentVolume[va.Name]
		_, skipped := r.oracle.Skipped[wire.AttachmentKey(va.Name)]
		if !skipped {
			recovered.Insert(va.Name)
			_, told = r.oracle.Actual[Pair{Volume: name, Node: types.NodeName(va.Spec.NodeName)}]
		}
		r.row("volume of VolumeAttachment "+va.Name, told, !skipped, "processVolumeAttachments")
	}
	r.row("recovered VolumeAttachments", join(sets.List(r.model.Recovered)), join(sets.List(recovered)), "processVolumeAttachments")
	for _, pod := range r.cluster.Pods {
		r.comparePodVolumes(pod)
	}
	for _, pair := range keys(r.model.Actual, r.oracle.Actual) {
		o := r.oracle.Decisions[pair]
		if starts(o) && r.cluster.hasAttachment(o.VolumeAttachment) && o.Verb != reconcile.Attach {
			r.row(pairName("VolumeAttachment shown for", pair), r.model.Attachment[pair], o.VolumeAttachment, "csiAttacher.Detach")
		}
		r.compareVolumes(pair, r.oracle.Actual[pair].Spec)
		r.compareLivePods(pair)
	}
	for _, pair := range keys(r.model.Desired, r.oracle.Desired) {
		r.compareVolumes(pair, r.oracle.Desired[pair].Spec)
		r.compareLivePods(pair)
	}
}

func podVolumeKey(pod *corev1.Pod, i int) string {
	return wire.PodVolumeKey(pod.Namespace+"/"+pod.Name, pod.Spec.Volumes[i].Name)
}

// comparePodVolumes: a volume that the pod wants is among its volumes.
func (r *comparison) comparePodVolumes(pod *corev1.Pod) {
	for i := range pod.Spec.Volumes {
		key := podVolumeKey(pod, i)
		if _, skipped := r.oracle.Skipped[key]; skipped || pod.Spec.NodeName == "" || !reconcile.CanBeAttached(&pod.Spec.Volumes[i]) {
			continue
		}
		row := r.oracle.Desired[Pair{Volume: r.model.PodVolume[key], Node: types.NodeName(pod.Spec.NodeName)}]
		r.row("wanted as the volume that "+key+" is", slices.Contains(strings.Split(row.Pods, ","), pod.Namespace+"/"+pod.Name), true, "CreateVolumeSpec")
	}
}

// compareVolumes checks that the PV that the controller resolved is among those behind its
// name. A flexvolume in a pod has none.
func (r *comparison) compareVolumes(pair Pair, spec Spec) {
	const read = "GetUniqueVolumeNameFromSpec"
	volumes := r.model.Volumes[pair.Volume]
	switch {
	case r.cluster.volume(spec.Source) != nil:
		r.row("PVs behind "+string(pair.Volume), slices.Contains(volumes, spec.Source), true, read)
		if len(volumes) == 1 {
			r.row("PV behind "+string(pair.Volume), r.model.Volume[pair.Volume], spec.Source, read)
		}
	case spec.Source != "" && !strings.HasPrefix(string(pair.Volume), "kubernetes.io/"):
		r.row("PV behind "+string(pair.Volume), r.model.Volume[pair.Volume], "", read)
	}
}

// compareLivePods: the pods that want the volume are among the live pods; those that have
// ended are not; and those that the controller left out for another reason than their end
// are.
func (r *comparison) compareLivePods(pair Pair) {
	live := sets.New(r.model.LivePods[pair]...)
	row := r.oracle.Desired[pair]
	wanted := sets.New[string]()
	if row.Pods != "" {
		wanted.Insert(strings.Split(row.Pods, ",")...)
	}
	r.row(pairName("wanting, but not live, for", pair), join(sets.List(wanted.Difference(live))), "", "ProcessPodVolumes")
	ended := live.Intersection(r.oracle.Ended).Difference(wanted)
	if node := r.cluster.node(pair.Node); node != nil && node.Annotations["volumes.kubernetes.io/keep-terminated-pod-volumes"] == "true" {
		return
	}
	r.row(pairName("live, but ended, for", pair), join(sets.List(ended)), "", "IsPodTerminated")
	for _, pod := range r.cluster.Pods {
		key := pod.Namespace + "/" + pod.Name
		if types.NodeName(pod.Spec.NodeName) == pair.Node && !r.oracle.Ended.Has(key) && r.leftOut(pod, r.oracle.Actual[pair].Spec.Source) {
			r.row(pairName("live "+key+" for", pair), live.Has(key), true, "CreateVolumeSpec")
		}
	}
}

// leftOut reports whether a claim of the pod names the CSI PV, and the controller left the
// pod's volume out for another reason than the pod's end.
func (r *comparison) leftOut(pod *corev1.Pod, pvName string) bool {
	pv := r.cluster.volume(pvName)
	if pv == nil || pv.Spec.CSI == nil {
		return false // its name may depend on the node
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		claim := r.cluster.claim(pod.Namespace, reconcile.ClaimName(pod, v))
		if claim == nil || claim.Spec.VolumeName != pvName {
			continue
		}
		why := r.oracle.Skipped[wire.PodVolumeKey(pod.Namespace+"/"+pod.Name, v.Name)]
		if why == reconcile.NodeNotManaged || why == reconcile.VolumeNotClaimed || why == reconcile.ClaimRefMismatch {
			return true
		}
	}
	return false
}
