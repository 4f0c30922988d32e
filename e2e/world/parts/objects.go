package parts

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// SystemNamespace has the leases of what is elected.
const SystemNamespace = "kube-system"

// Objects are what the stand-ins read: one set of watches for all of them.
type Objects struct {
	Pods    corelisters.PodLister
	Nodes   corelisters.NodeLister
	Claims  corelisters.PersistentVolumeClaimLister
	Volumes corelisters.PersistentVolumeLister

	factory     informers.SharedInformerFactory
	pods, nodes cache.SharedIndexInformer
}

// byNode is the index of the pods by their node.
const byNode = "node"

// Watch starts to read the objects, until the context ends.
func Watch(ctx context.Context, client kubernetes.Interface) (*Objects, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	core := factory.Core().V1()
	o := &Objects{
		Pods: core.Pods().Lister(), Nodes: core.Nodes().Lister(), Claims: core.PersistentVolumeClaims().Lister(), Volumes: core.PersistentVolumes().Lister(),
		factory: factory, pods: core.Pods().Informer(), nodes: core.Nodes().Informer(),
	}
	err := o.pods.AddIndexers(cache.Indexers{byNode: func(object any) ([]string, error) { return []string{object.(*corev1.Pod).Spec.NodeName}, nil }})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return o, nil
}

// Follow calls the functions with every pod and every node that appears, changes or goes; before
// or after is nil.
func (o *Objects) Follow(pod func(before, after *corev1.Pod), node func(before, after *corev1.Node)) error {
	return errors.Join(follow(o.pods, pod), follow(o.nodes, node))
}

func follow[T any](informer cache.SharedIndexInformer, each func(before, after *T)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { each(nil, object.(*T)) },
		UpdateFunc: func(old, object any) { each(old.(*T), object.(*T)) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			each(object.(*T), nil)
		},
	})
	return err
}

// podsOn are the pods of a node, in the order of their names.
func (o *Objects) podsOn(node string) []*corev1.Pod {
	objects, _ := o.pods.GetIndexer().ByIndex(byNode, node)
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, object := range objects {
		pods = append(pods, object.(*corev1.Pod))
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	return pods
}

// claimsBound reports whether a scheduler would pass the pod's claims.
func (o *Objects) claimsBound(p *corev1.Pod) bool {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		c, err := o.Claims.PersistentVolumeClaims(p.Namespace).Get(v.PersistentVolumeClaim.ClaimName)
		if err != nil || c.DeletionTimestamp != nil || c.Status.Phase != corev1.ClaimBound {
			return false
		}
	}
	return true
}

// volumeOf is the volume of a pod's claim; nil where the kubelet would not go on, since the
// claim is not bound to it.
func (o *Objects) volumeOf(namespace, claim string) *corev1.PersistentVolume {
	c, err := o.Claims.PersistentVolumeClaims(namespace).Get(claim)
	if err != nil || c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName == "" {
		return nil
	}
	pv, err := o.Volumes.Get(c.Spec.VolumeName)
	if err != nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != c.UID || pv.Spec.CSI == nil {
		return nil
	}
	return pv
}

// UniqueName is the name of a CSI volume in the status of a node.
func UniqueName(pv *corev1.PersistentVolume) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + pv.Spec.CSI.Driver + "^" + pv.Spec.CSI.VolumeHandle)
}

// NewVolume is a volume for one node at a time.
func NewVolume(name, driverName, handle string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: handle}},
	}}
}

// IsReady reports whether the node's Ready condition is True.
func IsReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// tick waits, and reports false where the context ends.
func tick(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
