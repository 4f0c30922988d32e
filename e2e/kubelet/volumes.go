package kubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
)

// volume is the resolved volume of a pod.
type volume struct {
	name       corev1.UniqueVolumeName
	attachment string // name of its VolumeAttachment
	attachable bool   // false: ready without the attach/detach controller
	handle     string // the driver's name for it
	spec       string // its name in the kubelet's events
}

// desire adds the volumes of a pod that can be resolved to the desired state, and returns the
// first reason why one cannot.
func (w *worker) desire(pod *corev1.Pod) error {
	var problem error
	referenced := referencedVolumes(pod)
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if _, known := w.desired[pod.UID][v.Name]; known || !referenced[v.Name] {
			continue
		}
		resolved, err := w.resolve(pod, v)
		if err != nil {
			if problem == nil {
				problem = err
			}
			continue
		}
		if w.desired[pod.UID] == nil {
			w.desired[pod.UID] = map[string]volume{}
		}
		w.desired[pod.UID][v.Name] = resolved
	}
	return problem
}

// resolve follows a volume of a pod through its claim to its PersistentVolume.
func (w *worker) resolve(pod *corev1.Pod, v *corev1.Volume) (volume, error) {
	var claimName string
	switch {
	case v.PersistentVolumeClaim != nil:
		claimName = v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		claimName = ephemeral.VolumeClaimName(pod, v)
	default:
		return readyAtOnce(pod, v), nil
	}
	claim, err := w.claims.PersistentVolumeClaims(pod.Namespace).Get(claimName)
	if err != nil {
		return volume{}, fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, claimName, err)
	}
	if v.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return volume{}, err
		}
	}
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
		return volume{}, fmt.Errorf("error processing PVC %s/%s: PVC is not bound", pod.Namespace, claimName)
	}
	pv, err := w.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return volume{}, fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, claimName, err)
	}
	if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
		return volume{}, fmt.Errorf("error processing PVC %s/%s: PV %s is not bound to it", pod.Namespace, claimName, pv.Name)
	}
	if err := rightMode(pod, v, pv); err != nil {
		return volume{}, err
	}
	if pv.Spec.CSI == nil {
		return readyAtOnce(pod, v), nil
	}
	driver, err := w.drivers.Get(pv.Spec.CSI.Driver)
	if err != nil && !apierrors.IsNotFound(err) {
		return volume{}, err
	}
	// Without a CSIDriver object attaching is required.
	skipsAttach := err == nil && driver.Spec.AttachRequired != nil && !*driver.Spec.AttachRequired
	return volume{
		name:       csidriver.UniqueName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle),
		attachment: csidriver.AttachmentName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle, w.options.Node),
		attachable: !skipsAttach,
		handle:     pv.Spec.CSI.VolumeHandle,
		spec:       pv.Name,
	}, nil
}

// rightMode refuses a raw device that a container mounts, and a file system that a container
// uses as a device.
func rightMode(pod *corev1.Pod, v *corev1.Volume, pv *corev1.PersistentVolume) error {
	block := pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
		device := slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == v.Name })
		if block && mounted || !block && device {
			return fmt.Errorf("volume %s of container %s has the other volumeMode", v.Name, c.Name)
		}
	}
	return nil
}

func readyAtOnce(pod *corev1.Pod, v *corev1.Volume) volume {
	return volume{name: corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/other/%s-%s", pod.UID, v.Name)), spec: v.Name}
}

// referencedVolumes names the volumes that a container mounts. A kubelet does
// not touch the others.
func referencedVolumes(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	add := func(mounts []corev1.VolumeMount, devices []corev1.VolumeDevice) {
		for _, m := range mounts {
			names[m.Name] = true
		}
		for _, d := range devices {
			names[d.Name] = true
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		add(c.VolumeMounts, c.VolumeDevices)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		add(c.VolumeMounts, c.VolumeDevices)
	}
	return names
}

// mount mounts the pod's desired volumes that may be mounted, and returns the first reason
// why one may not.
func (w *worker) mount(ctx context.Context, pod *corev1.Pod) error {
	var problem error
	for _, v := range w.desired[pod.UID] {
		if w.mounted[pod.UID][v.name] {
			continue
		}
		err := w.mayMount(ctx, v)
		if err == nil {
			err = w.tryMount(pod, v)
		}
		if err != nil {
			if problem == nil {
				problem = err
			}
			continue
		}
		if w.mounted[pod.UID] == nil {
			w.mounted[pod.UID] = map[corev1.UniqueVolumeName]bool{}
		}
		w.mounted[pod.UID][v.name] = true
		w.logf("mounted %s for pod %s/%s", v.name, pod.Namespace, pod.Name)
	}
	return problem
}

// mayMount makes the checks of a kubelet before it mounts a volume: it has announced the
// volume, the controller lists it as attached, in the watch and in the API, and its
// VolumeAttachment agrees. After that the volume counts as attached until nobody wants it.
func (w *worker) mayMount(ctx context.Context, v volume) error {
	if _, attached := w.attached[v.name]; attached || !v.attachable {
		return nil
	}
	if !w.reported[v.name] {
		return fmt.Errorf("volume %s is not yet reported in use", v.name)
	}
	node, err := w.nodes.Get(w.options.Node)
	if err != nil {
		return err
	}
	if !listsAttached(node, v.name) {
		return fmt.Errorf("volume %s is not yet in node's status", v.name)
	}
	node, err = w.client.CoreV1().Nodes().Get(ctx, w.options.Node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !listsAttached(node, v.name) {
		return fmt.Errorf("volume %s not attached according to node status", v.name)
	}
	attachment, err := w.client.StorageV1().VolumeAttachments().Get(ctx, v.attachment, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case attachment.DeletionTimestamp != nil:
		return fmt.Errorf("attachment of volume %s is being deleted", v.name)
	case !attachment.Status.Attached:
		return fmt.Errorf("volume %s is not attached", v.name)
	case w.options.Backend != nil && !slices.Contains(w.options.Backend.PublishedOn(v.handle), w.options.Machine):
		return fmt.Errorf("volume %s: device not found", v.name)
	}
	w.attached[v.name] = v.spec
	return nil
}

func listsAttached(node *corev1.Node, name corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == name })
}

// unmount unmounts the mounted volumes of a pod that has ended. A volume that was never
// mounted stays desired for as long as the pod object exists, as in a kubelet. all is false
// where an unmount fails.
func (w *worker) unmount(pod *corev1.Pod) (all bool) {
	all = true
	for outer, v := range w.desired[pod.UID] {
		switch {
		case !w.mounted[pod.UID][v.name]:
		case w.faults.failsUnmount(v.spec):
			all = false
		default:
			delete(w.desired[pod.UID], outer)
			delete(w.mounted[pod.UID], v.name)
			w.logf("unmounted %s of pod %s/%s", v.name, pod.Namespace, pod.Name)
		}
	}
	return all
}

// inUse is the right value of status.volumesInUse.
func (w *worker) inUse() map[corev1.UniqueVolumeName]bool {
	names := map[corev1.UniqueVolumeName]bool{}
	for name := range w.attached {
		names[name] = true
	}
	for _, volumes := range w.desired {
		for _, v := range volumes {
			if v.attachable {
				names[v.name] = true
			}
		}
	}
	return names
}

// forget drops the pods whose objects are gone and the volumes that no pod
// wants any longer.
func (w *worker) forget(present map[types.UID]bool) {
	maps.DeleteFunc(w.desired, func(uid types.UID, _ map[string]volume) bool { return !present[uid] })
	maps.DeleteFunc(w.mounted, func(uid types.UID, _ map[corev1.UniqueVolumeName]bool) bool { return !present[uid] })
	maps.DeleteFunc(w.attempts, func(key podVolume, _ attempt) bool { return !present[key.pod] })
	wanted := map[corev1.UniqueVolumeName]bool{}
	for _, volumes := range w.desired {
		for _, v := range volumes {
			wanted[v.name] = true
		}
	}
	maps.DeleteFunc(w.attached, func(name corev1.UniqueVolumeName, spec string) bool {
		return !wanted[name] && !w.faults.failsUnstage(spec)
	})
}
