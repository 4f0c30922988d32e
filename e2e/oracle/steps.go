package main

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// do makes a step happen. One about something that is not there does nothing.
func (c *cluster) do(step wire.Step) error {
	var err error
	switch step.Do {
	case wire.RunPod:
		err = c.client.Tracker().Create(podResource, wire.HistoryPod(step.Pod, step.Node, step.Volume, c.uid()), wire.Namespace)
	case wire.EndPod:
		var pod *corev1.Pod
		if pod, err = get[*corev1.Pod](c, podResource, wire.Namespace, step.Pod); err == nil {
			pod.Status.Phase = corev1.PodSucceeded
			err = c.client.Tracker().Update(podResource, pod, wire.Namespace)
		}
	case wire.RemovePod:
		err = c.client.Tracker().Delete(podResource, wire.Namespace, step.Pod)
	case wire.DropNode:
		delete(c.reports, step.Node)
		err = c.client.Tracker().Delete(nodeResource, "", step.Node)
	case wire.AddNode:
		node := wire.HistoryNode(step.Node)
		node.UID = c.uid()
		err = c.client.Tracker().Create(nodeResource, node, "")
	case wire.SyncNode, wire.Silence, wire.Return, wire.Taint, wire.Untaint, wire.Unlist, wire.List:
		err = c.changeNode(step)
	case wire.Attaching:
		c.attaching = step.Mode
	case wire.Detaching:
		c.detaching = step.Mode
	case wire.DeleteVA, wire.StripVA, wire.CreateVA:
		c.life.touched = true
		err = c.changeAttachment(step)
	case wire.LosePatch:
		c.life.lose = 3
	case wire.BreakWatch:
		c.life.blind.Store(true)
	default: // nothing, or a restart, which is the life's own
	}
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (c *cluster) changeNode(step wire.Step) error {
	node, err := get[*corev1.Node](c, nodeResource, "", step.Node)
	if err != nil {
		return err
	}
	name := wire.UniqueName(step.Volume)
	listed := func(v corev1.AttachedVolume) bool { return v.Name == name }
	switch step.Do {
	case wire.SyncNode:
		if !ready(node) {
			return nil
		}
		c.mount(node)
	case wire.Silence:
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
	case wire.Return:
		node.Status.Conditions[0].Status = corev1.ConditionTrue
	case wire.Taint:
		node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	case wire.Untaint:
		node.Spec.Taints = nil
	case wire.Unlist:
		c.life.touched = true
		node.Status.VolumesAttached = slices.DeleteFunc(node.Status.VolumesAttached, listed)
	case wire.List:
		c.life.touched = true
		if !slices.ContainsFunc(node.Status.VolumesAttached, listed) {
			node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: name})
		}
	default:
	}
	return c.client.Tracker().Update(nodeResource, node, "")
}

// mount is what a kubelet does for the pods of its node: it mounts what they want
// and the node lists as attached, unmounts what nobody wants any more, and reports.
func (c *cluster) mount(node *corev1.Node) {
	var inUse []corev1.UniqueVolumeName
	for _, pod := range c.pods() {
		if pod.Spec.NodeName != node.Name || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		name := wire.UniqueName(pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
		attached := slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == name })
		if attached || slices.Contains(node.Status.VolumesInUse, name) {
			inUse = append(without(inUse, name), name)
		}
	}
	node.Status.VolumesInUse = inUse
	node.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
}

func (c *cluster) changeAttachment(step wire.Step) error {
	va := wire.HistoryAttachment(step.Volume, step.Node)
	switch step.Do {
	case wire.DeleteVA:
		return c.deleteAttachment(va.Name)
	case wire.StripVA:
		return c.client.Tracker().Delete(attachmentResource, "", va.Name)
	default:
		va.UID, va.CreationTimestamp = c.uid(), metav1.Now()
		va.Status = storagev1.VolumeAttachmentStatus{Attached: true}
		return c.client.Tracker().Create(attachmentResource, va, "")
	}
}
