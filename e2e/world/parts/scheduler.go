package parts

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
)

const (
	scheduleEvery = 500 * time.Millisecond
	// scheduleFirst is when the scheduler first looks: the claims that a world begins with are bound
	// by then, in whichever order, and copies of it begin alike.
	scheduleFirst = 20 * time.Second
	// unschedulable is what a scheduler says of a pod for which no node is free.
	unschedulable = "no node of the world fits"
)

// Scheduler binds each pod to the node with the fewest pods, once its claims are bound.
func Scheduler(ctx context.Context, client kubernetes.Interface, objects *Objects) {
	for every := scheduleFirst; tick(ctx, every); every = scheduleEvery {
		pods, _ := objects.Pods.List(labels.Everything())
		byName(pods)
		nodes, _ := objects.Nodes.List(labels.Everything())
		load := map[string]int{}
		for _, p := range pods {
			load[p.Spec.NodeName]++
		}
		for _, p := range pods {
			if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || !objects.claimsBound(p) {
				continue
			}
			node := freest(nodes, load)
			if node == "" {
				sayUnschedulable(ctx, client, p)
				continue
			}
			load[node]++
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
			_ = client.CoreV1().Pods(p.Namespace).Bind(ctx, binding, metav1.CreateOptions{}) // it is bound already, or gone
		}
	}
}

func byName[T metav1.Object](objects []T) {
	slices.SortFunc(objects, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
}

func freest(nodes []*corev1.Node, load map[string]int) string {
	best := ""
	for _, n := range nodes {
		if n.Spec.Unschedulable || len(n.Spec.Taints) > 0 || !IsReady(n) || n.DeletionTimestamp != nil {
			continue
		}
		if best == "" || load[n.Name] < load[best] || load[n.Name] == load[best] && n.Name < best {
			best = n.Name
		}
	}
	return best
}

// sayUnschedulable sets the condition that a scheduler sets, once.
func sayUnschedulable(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return
		}
	}
	p = p.DeepCopy()
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: unschedulable, LastTransitionTime: metav1.Now()})
	_, _ = client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{}) // else at the next tick
}

// Provisioner makes a volume for each claim that the binder asks one for, and deletes those
// that are to be deleted once they are released.
func Provisioner(ctx context.Context, client kubernetes.Interface, objects *Objects, d *driver.Driver) {
	for tick(ctx, time.Second) {
		claims, _ := objects.Claims.List(labels.Everything())
		byName(claims)
		for _, c := range claims {
			if c.Spec.VolumeName != "" || c.DeletionTimestamp != nil || c.Annotations["volume.kubernetes.io/storage-provisioner"] != d.Name {
				continue
			}
			handle := "vol-" + string(c.UID)[:8]
			pv := NewVolume("pvc-"+string(c.UID), d.Name, handle)
			pv.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": d.Name}
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			pv.Spec.StorageClassName = *c.Spec.StorageClassName
			pv.Spec.AccessModes = c.Spec.AccessModes
			pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
			_, _ = client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}) // it is there already
		}
		volumes, _ := objects.Volumes.List(labels.Everything())
		for _, v := range volumes {
			if v.Status.Phase != corev1.VolumeReleased || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || v.DeletionTimestamp != nil {
				continue
			}
			if v.Spec.CSI != nil && len(d.AttachedTo(v.Spec.CSI.VolumeHandle)) > 0 {
				continue // a storage system deletes no volume that is attached
			}
			_ = client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
		}
	}
}
