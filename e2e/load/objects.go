package load

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	namespaces = 50
	attacher   = "external-attacher/ebs-csi-aws-com"
	class      = "gp3"
)

func yes() *bool        { v := true; return &v }
func ptr[T any](v T) *T { return &v }
func nodeName(n int) string {
	return fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", n>>16, n>>8&255, n&255)
}
func nodeID(n int) string { return fmt.Sprintf("i-%017x", n) }

// Namespace is the namespace of the volume with the number, and of its claim and pod.
func Namespace(i int) string  { return fmt.Sprintf("team-%02d", i%namespaces) }
func volumeName(v int) string { return fmt.Sprintf("pvc-%s", uid("claim", v)) }
func claimName(v int) string  { return fmt.Sprintf("data-db-%06d-0", v) }

// VolumePod is the pod that uses the volume.
func VolumePod(v int) string { return fmt.Sprintf("db-%06d-0", v) }

// handle is what the driver calls a volume.
func handle(v int) string { return fmt.Sprintf("vol-%017x", v) }

func uniqueName(handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + Driver + "^" + handle)
}

// attachmentName mirrors getAttachmentName of the CSI plugin.
func attachmentName(handle, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+Driver+node)))
}

func uid(kind string, i int) types.UID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s-%d", kind, i))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

func (c Cluster) ago(d time.Duration) metav1.Time {
	return metav1.NewTime(c.Now.Add(-d).Truncate(time.Second))
}

// old is for how long nothing has been made.
const old = 48 * time.Hour

// age of what was made together: a volume, its claim, its attachment and its pod.
// Few have the same one, as in a cluster that grew.
func age(i int) time.Duration {
	return old + time.Duration(i*7919%int(30*24*time.Hour/time.Second))*time.Second
}

func (c Cluster) meta(kind, name string, i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: uid(kind, i), CreationTimestamp: c.ago(age(i))}
}

// first is the metadata of what was there before anything else.
func (c Cluster) first(kind, name string, i int) metav1.ObjectMeta {
	meta := c.meta(kind, name, i)
	meta.CreationTimestamp = c.ago(old + 40*24*time.Hour)
	return meta
}

// written is one entry of managed fields: about as long as those of its kind.
func (c Cluster) written(manager, subresource, fields string) metav1.ManagedFieldsEntry {
	at := c.ago(old)
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields), Subresource: subresource}
}

// singles are the objects of the kinds that a cluster has few of.
func (c Cluster) singles() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		objects := []Object{
			&storagev1.CSIDriver{ObjectMeta: c.first("csidriver", Driver, 0), Spec: storagev1.CSIDriverSpec{AttachRequired: yes()}},
			&storagev1.StorageClass{ObjectMeta: c.first("storageclass", class, 0), Provisioner: Driver,
				ReclaimPolicy: ptr(corev1.PersistentVolumeReclaimDelete), VolumeBindingMode: ptr(storagev1.VolumeBindingWaitForFirstConsumer)},
		}
		for i := range namespaces {
			objects = append(objects, &corev1.Namespace{ObjectMeta: c.first("namespace", Namespace(i), i)})
		}
		for i := range 2 {
			objects = append(objects, c.attacherPod(i))
		}
		for _, o := range objects {
			if !yield(o) {
				return
			}
		}
	}
}

// Heartbeats are the objects that somebody writes all the time. They age: write them
// again before each look.
func (c Cluster) Heartbeats() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for o := range c.renewed() {
			if !yield(o) {
				return
			}
		}
		if c.Size.Volumes == 0 || c.Size.Nodes == 0 {
			return
		}
		// Something of each kind changes all the time. Where nothing does for minutes,
		// an API server ceases to list in chunks from memory.
		for _, o := range []Object{c.node(0), c.volume(0), c.claim(0), c.volumePod(0)} {
			if !yield(o) {
				return
			}
		}
	}
}

// Changes are n pods with volumes, from one on, as they are: to write one again is a change
// to whoever watches.
func (c Cluster) Changes(from, n int) iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for i := range n {
			if !yield(c.volumePod((from + i) % c.Size.Volumes)) {
				return
			}
		}
	}
}

// renewed are those of the Heartbeats whose age shows.
func (c Cluster) renewed() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		lease := func(namespace, name, holder string, i int) *coordinationv1.Lease {
			l := &coordinationv1.Lease{ObjectMeta: c.first("lease-"+namespace, name, i), Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: ptr(int32(40)),
				AcquireTime: ptr(metav1.NewMicroTime(c.Now.Add(-old))), RenewTime: ptr(metav1.NewMicroTime(c.Now)),
			}}
			l.Namespace = namespace
			return l
		}
		if !yield(lease(metav1.NamespaceSystem, "kube-controller-manager", "control-plane-0_1", 0)) ||
			!yield(lease(metav1.NamespaceSystem, "external-attacher-leader-ebs-csi-aws-com", "ebs-csi-controller-0", 1)) {
			return
		}
		for n := range c.Size.Nodes {
			if !yield(lease(corev1.NamespaceNodeLease, nodeName(n), nodeName(n), n)) {
				return
			}
		}
		for i := range c.leftoverCount() {
			if !yield(c.stuck(i)) {
				return
			}
		}
	}
}

// nodeOf is the node of the volume's pod.
func (c Cluster) nodeOf(volume int) int { return volume % c.Size.Nodes }

func (c Cluster) nodes() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for n := range c.Size.Nodes {
			csi := &storagev1.CSINode{ObjectMeta: c.first("csinode", nodeName(n), n), Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
				Name: Driver, NodeID: nodeID(n), TopologyKeys: []string{corev1.LabelTopologyZone}, Allocatable: &storagev1.VolumeNodeResources{Count: ptr(int32(127))},
			}}}}
			if !yield(c.node(n)) || !yield(csi) {
				return
			}
		}
	}
}

func (c Cluster) node(n int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: c.first("node", nodeName(n), n)}
	node.Annotations = map[string]string{
		"volumes.kubernetes.io/controller-managed-attach-detach": "true",
		"csi.volume.kubernetes.io/nodeid":                        fmt.Sprintf("{%q:%q}", Driver, nodeID(n)),
		"node.alpha.kubernetes.io/ttl":                           "0",
	}
	node.Labels = map[string]string{
		corev1.LabelHostname: nodeName(n), corev1.LabelTopologyZone: fmt.Sprintf("eu-central-1%c", 'a'+n%3), corev1.LabelTopologyRegion: "eu-central-1",
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelInstanceTypeStable: "m6i.4xlarge",
	}
	node.ManagedFields = []metav1.ManagedFieldsEntry{
		c.written("kubelet", "", nodeFields), c.written("kube-controller-manager", "status", `{"f:status":{"f:volumesAttached":{}}}`), c.written("kubelet", "status", nodeStatusFields),
	}
	node.Spec.ProviderID = "aws:///eu-central-1a/" + nodeID(n)
	s := &node.Status
	s.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}
	s.Allocatable = s.Capacity
	for _, t := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		condition := corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, Reason: "KubeletHas", Message: "kubelet has no " + string(t),
			LastHeartbeatTime: c.ago(time.Minute), LastTransitionTime: c.ago(old)}
		if t == corev1.NodeReady {
			condition.Status, condition.Reason, condition.Message = corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"
		}
		s.Conditions = append(s.Conditions, condition)
	}
	s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)}, {Type: corev1.NodeHostName, Address: nodeName(n)}}
	s.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", KernelVersion: "6.12.9", OSImage: "Bottlerocket", ContainerRuntimeVersion: "containerd://2.1.4",
		OperatingSystem: "linux", Architecture: "amd64", MachineID: strings.Repeat("0", 32), SystemUUID: strings.Repeat("1", 36), BootID: strings.Repeat("2", 36)}
	for i := range 50 {
		repository := fmt.Sprintf("602401143452.dkr.ecr.eu-central-1.amazonaws.com/team/service-%02d", i)
		s.Images = append(s.Images, corev1.ContainerImage{SizeBytes: int64(50_000_000 + i),
			Names: []string{fmt.Sprintf("%s@sha256:%x", repository, sha256.Sum256([]byte(repository))), repository + ":v1.2." + fmt.Sprint(i)}})
	}
	for v := n; v < c.Size.Volumes; v += c.Size.Nodes {
		s.VolumesInUse = append(s.VolumesInUse, uniqueName(handle(v)))
		if !c.unlisted(v) {
			s.VolumesAttached = append(s.VolumesAttached, corev1.AttachedVolume{Name: uniqueName(handle(v))})
		}
	}
	return node
}

func (c Cluster) volumes() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for v := range c.Size.Volumes {
			if !yield(c.volume(v)) || !yield(c.claim(v)) || !yield(c.attachment(v, c.nodeOf(v))) {
				return
			}
		}
	}
}

func (c Cluster) volume(v int) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: c.meta("volume", volumeName(v), v)}
	pv.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": Driver, "volume.kubernetes.io/provisioner-deletion-secret-name": ""}
	pv.Finalizers = []string{"external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-protection", attacher}
	pv.ManagedFields = []metav1.ManagedFieldsEntry{c.written("csi-provisioner", "", volumeFields), c.written("kube-controller-manager", "status", `{"f:status":{"f:phase":{}}}`)}
	pv.Spec = corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: class, VolumeMode: ptr(corev1.PersistentVolumeFilesystem),
		ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: Namespace(v), Name: claimName(v), UID: uid("claim", v)},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: Driver, VolumeHandle: handle(v), FSType: "ext4",
			VolumeAttributes: map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": "1760000000000-8081-ebs.csi.aws.com"}}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprintf("eu-central-1%c", 'a'+c.nodeOf(v)%3)}}}}}}},
	}
	pv.Status.Phase = corev1.VolumeBound
	return pv
}

func (c Cluster) claim(v int) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: c.meta("claim", claimName(v), v)}
	claim.Namespace = Namespace(v)
	claim.Labels = map[string]string{"app": "db"}
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
		"volume.kubernetes.io/storage-provisioner": Driver, "volume.kubernetes.io/selected-node": nodeName(c.nodeOf(v))}
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	claim.ManagedFields = []metav1.ManagedFieldsEntry{c.written("kube-controller-manager", "", claimFields), c.written("kube-controller-manager", "status", `{"f:status":{"f:accessModes":{},"f:capacity":{".":{},"f:storage":{}},"f:phase":{}}}`)}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec = corev1.PersistentVolumeClaimSpec{AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}, StorageClassName: ptr(class),
		VolumeMode: ptr(corev1.PersistentVolumeFilesystem), VolumeName: volumeName(v)}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: modes, Capacity: size}
	return claim
}

func (c Cluster) attachment(v, node int) *storagev1.VolumeAttachment {
	name := volumeName(v)
	va := &storagev1.VolumeAttachment{ObjectMeta: c.meta("attachment", attachmentName(handle(v), nodeName(node)), v)}
	va.Annotations = map[string]string{"csi.alpha.kubernetes.io/node-id": nodeID(node)}
	va.Finalizers = []string{attacher}
	va.ManagedFields = []metav1.ManagedFieldsEntry{c.written("kube-controller-manager", "", attachmentFields), c.written("csi-attacher", "", attacherFields),
		c.written("csi-attacher", "status", `{"f:status":{"f:attached":{},"f:attachmentMetadata":{".":{},"f:devicePath":{}}}}`)}
	va.Spec = storagev1.VolumeAttachmentSpec{Attacher: Driver, NodeName: nodeName(node), Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}
	va.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"devicePath": "/dev/xvdaa"}}
	return va
}

// leftovers are the drifts that are objects of their own.
func (c Cluster) leftovers() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for i := range c.leftoverCount() {
			pv := c.volume(c.Size.Volumes + 2*i + 1)
			pv.Spec.ClaimRef, pv.Status.Phase = nil, corev1.VolumeAvailable
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			if !yield(c.orphan(i)) || !yield(pv) {
				return
			}
		}
	}
}

// orphan is an attachment whose volume is gone.
func (c Cluster) orphan(i int) *storagev1.VolumeAttachment {
	return c.attachment(c.Size.Volumes+2*i, i%c.Size.Nodes)
}

// stuck is an attachment that the driver fails to detach.
func (c Cluster) stuck(i int) *storagev1.VolumeAttachment {
	va := c.attachment(c.Size.Volumes+2*i+1, i%c.Size.Nodes)
	va.DeletionTimestamp, va.DeletionGracePeriodSeconds = ptr(c.ago(time.Hour)), ptr(int64(0))
	va.Status.DetachError = &storagev1.VolumeError{Time: c.ago(0), Message: "rpc error: code = Internal desc = could not detach: device is busy"}
	return va
}
