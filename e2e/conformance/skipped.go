package conformance

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// nodeNames are all nodes that a pod or the cluster knows of.
func (c *Cluster) nodeNames() []types.NodeName {
	var names []types.NodeName
	for _, node := range c.Nodes {
		names = append(names, types.NodeName(node.Name))
	}
	for _, pod := range c.Pods {
		names = append(names, types.NodeName(pod.Spec.NodeName))
	}
	return names
}

// readSkipped finds in the log why a pod volume or a VolumeAttachment was
// dropped.
func (o *oracle) readSkipped(a *Answer, lines []line) {
	pods := map[string]reconcile.SkipReason{}
	for _, l := range lines {
		if key, reason := podSkip(l); reason != "" {
			pods[key] = reason
		}
		o.readAttachmentSkip(a, l)
	}
	for _, pod := range o.cluster.Pods {
		node := types.NodeName(pod.Spec.NodeName)
		if node == "" {
			continue
		}
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			key := podVolumeKey(pod.Namespace+"/"+pod.Name, v.Name)
			switch {
			case neverAttached(v):
			case !a.Managed.Has(node) && hasNode(o.cluster, node):
				a.Skipped[key] = reconcile.NodeNotManaged
			case !a.Managed.Has(node):
				a.Skipped[key] = reconcile.NodeNotFound
			case pods[key] != "":
				a.Skipped[key] = pods[key]
			case volumeutil.IsPodTerminated(pod, pod.Status):
				a.Skipped[key] = reconcile.PodEnded
			}
		}
	}
}

// neverAttached are the sources that the model does not list as skipped.
func neverAttached(v *corev1.Volume) bool {
	return v.Secret != nil || v.ConfigMap != nil || v.DownwardAPI != nil || v.Projected != nil ||
		v.EmptyDir != nil || v.HostPath != nil || v.Image != nil || v.GitRepo != nil
}

// podSkip says which pod volume a line drops, and why.
func podSkip(l line) (key string, reason reconcile.SkipReason) {
	err := fmt.Sprint(l.values["err"])
	switch l.msg {
	case "Error processing volume for pod":
		reason = whyNoSpec(err)
	case "Skipping volume for pod, it does not implement attacher interface":
		reason = whyNotAttachable(err)
	case "Failed to add volume for pod to desiredStateOfWorld",
		"Failed to delete volume for pod from desiredStateOfWorld. GetUniqueVolumeNameFromSpec failed":
		reason = reconcile.NoVolumeName
	default:
		return "", ""
	}
	pod, _ := l.values["pod"].(klog.ObjectRef)
	volume, _ := l.values["volumeName"].(string)
	return podVolumeKey(pod.Namespace+"/"+pod.Name, volume), reason
}

func whyNoSpec(err string) reconcile.SkipReason {
	for text, reason := range map[string]reconcile.SkipReason{
		"failed to find PVC ":              reconcile.ClaimNotFound,
		"has non-bound phase":              reconcile.ClaimNotBound,
		"(pod is not owner)":               reconcile.ClaimNotOwned,
		"failed to find PV ":               reconcile.VolumeNotFound,
		"has a nil pv.Spec.ClaimRef":       reconcile.VolumeNotClaimed,
		"does not point to claim.UID":      reconcile.ClaimRefMismatch,
		"failed to translate in-tree pv t": reconcile.TranslationFailed,
	} {
		if strings.Contains(err, text) {
			return reason
		}
	}
	return reconcile.SkipReason(err)
}

func whyNotAttachable(err string) reconcile.SkipReason {
	if strings.Contains(err, "multiple volume plugins matched") {
		return reconcile.AmbiguousPlugin
	}
	return reconcile.NotAttachable
}

// readAttachmentSkip finds the VolumeAttachments that a line drops. Some lines
// name the PV only.
func (o *oracle) readAttachmentSkip(a *Answer, l line) {
	skip := func(name string, reason reconcile.SkipReason) { a.Skipped["volumeattachment "+name] = reason }
	name, _ := l.values["vaName"].(string)
	switch l.msg {
	case "Skipping the va as its pvName is nil":
		skip(name, reconcile.InlineVolumeSpecified)
	case "Failed to translate intree volumeSpec to CSI volumeSpec for volume":
		skip(name, reconcile.TranslationFailed)
	case "Failed to find unique name for volume":
		skip(name, reconcile.NoVolumeName)
	case "Unable to lookup pv object":
		for _, va := range o.attachmentsOf(l) {
			skip(va, reconcile.VolumeNotFound)
		}
	case "Skipping processing the volume on node, no attacher interface found":
		for _, va := range o.attachmentsOf(l) {
			skip(va, whyNotAttachable(fmt.Sprint(l.values["err"])))
		}
	}
}

func (o *oracle) attachmentsOf(l line) []string {
	pv, _ := l.values["PV"].(klog.ObjectRef)
	node, onNode := l.values["node"].(klog.ObjectRef)
	var names []string
	for _, va := range o.cluster.VolumeAttachments {
		source := va.Spec.Source.PersistentVolumeName
		if source != nil && *source == pv.Name && (!onNode || va.Spec.NodeName == node.Name) {
			names = append(names, va.Name)
		}
	}
	return names
}
