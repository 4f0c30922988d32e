package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// readSkipped finds in the log why a pod volume or a VolumeAttachment was
// dropped.
func (o *oracle) readSkipped(r *reading, lines []line) {
	pods := map[string]string{}
	for _, l := range lines {
		if key, reason := podSkip(l); reason != "" {
			pods[key] = reason
		}
		o.readAttachmentSkip(r, l)
	}
	for _, pod := range o.request.Pods {
		node := pod.Spec.NodeName
		if node == "" {
			continue
		}
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			key := wire.PodVolumeKey(pod.Namespace+"/"+pod.Name, v.Name)
			switch {
			case neverAttached(v):
			case !r.managed[node] && o.hasNode(node):
				r.skipped[key] = "NodeNotManaged"
			case !r.managed[node]:
				r.skipped[key] = "NodeNotFound"
			case pods[key] != "":
				r.skipped[key] = pods[key]
			case volumeutil.IsPodTerminated(pod, pod.Status) && !r.wants(pod):
				r.skipped[key] = "PodTerminated"
			}
		}
	}
}

// neverAttached are the sources that the model does not list as skipped.
func neverAttached(v *corev1.Volume) bool {
	return v.Secret != nil || v.ConfigMap != nil || v.DownwardAPI != nil || v.Projected != nil ||
		v.EmptyDir != nil || v.HostPath != nil || v.GitRepo != nil || isImage(v)
}

// podSkip says which pod volume a line drops, and why.
func podSkip(l line) (key string, reason string) {
	err := fmt.Sprint(l.values["err"])
	switch l.msg {
	case "Error processing volume for pod":
		reason = whyNoSpec(err)
	case "Skipping volume for pod, it does not implement attacher interface":
		reason = whyNotAttachable(err)
	case "Failed to add volume for pod to desiredStateOfWorld",
		"Failed to delete volume for pod from desiredStateOfWorld. GetUniqueVolumeNameFromSpec failed":
		reason = "NoVolumeName"
	default:
		return "", ""
	}
	pod, _ := l.values["pod"].(klog.ObjectRef)
	volume, _ := l.values["volumeName"].(string)
	return wire.PodVolumeKey(pod.Namespace+"/"+pod.Name, volume), reason
}

func whyNoSpec(err string) string {
	for text, reason := range map[string]string{
		"failed to find PVC ":              "ClaimNotFound",
		"has non-bound phase":              "ClaimNotBound",
		"(pod is not owner)":               "ClaimNotOwned",
		"failed to find PV ":               "VolumeNotFound",
		"has a nil pv.Spec.ClaimRef":       "VolumeNotClaimed",
		"does not point to claim.UID":      "ClaimRefMismatch",
		"failed to translate in-tree pv t": "TranslationFailed",
		"csinode.storage.k8s.io ":          "CSINodeNotFound",
	} {
		if strings.Contains(err, text) {
			return reason
		}
	}
	return err
}

func whyNotAttachable(err string) string {
	if strings.Contains(err, "multiple volume plugins matched") {
		return "AmbiguousPlugin"
	}
	return "NotAttachable"
}

// readAttachmentSkip finds the VolumeAttachments that a line drops. Some lines
// name the PV only.
func (o *oracle) readAttachmentSkip(r *reading, l line) {
	skip := func(name string, reason string) { r.skipped[wire.AttachmentKey(name)] = reason }
	name, _ := l.values["vaName"].(string)
	switch l.msg {
	case "Skipping the va as its pvName is nil":
		skip(name, "InlineVolumeSpecified")
	case "Failed to translate intree volumeSpec to CSI volumeSpec for volume":
		skip(name, "TranslationFailed")
	case "Failed to find unique name for volume":
		skip(name, "NoVolumeName")
	case "Unable to lookup pv object":
		for _, va := range o.attachmentsOf(l) {
			skip(va, "VolumeNotFound")
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
	for _, va := range o.request.VolumeAttachments {
		source := va.Spec.Source.PersistentVolumeName
		if source != nil && *source == pv.Name && (!onNode || va.Spec.NodeName == node.Name) {
			names = append(names, va.Name)
		}
	}
	return names
}

func (o *oracle) hasNode(name string) bool {
	return slices.ContainsFunc(o.request.Nodes, func(n *corev1.Node) bool { return n.Name == name })
}

// wants reports whether the pod is in the desired state of the world. A pod that
// has ended is with all its volumes or with none.
func (r *reading) wants(pod *corev1.Pod) bool {
	for _, row := range r.desired {
		if slices.Contains(row.Pods, pod.Namespace+"/"+pod.Name) {
			return true
		}
	}
	return false
}
