package reconcile

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The names by which the components of Kubernetes know each other. Package snapshot, which
// this package imports, repeats some of them: the annotations that it keeps.
const (
	// ControllerManager is the name of the component, of its lease and of its field
	// manager.
	ControllerManager = "kube-controller-manager"

	// ManagedAnnotation on a node makes the controller attach and detach its volumes. Only
	// the key counts, as in addNodeToDswp: the value "false" manages the node too.
	ManagedAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	// KeepTerminatedAnnotation on a node, with the value "true", makes the pods that
	// have ended there keep their volumes; see KeepsTerminatedPodVolumes.
	KeepTerminatedAnnotation = "volumes.kubernetes.io/keep-terminated-pod-volumes"
	// NodeIDAnnotation on a VolumeAttachment is the driver's name for the node that the
	// volume was published to. The external-attacher writes it.
	NodeIDAnnotation = "csi.alpha.kubernetes.io/node-id"
	// NodeIDsAnnotation on a node has each driver's name for it, as JSON. The kubelet writes
	// it before the CSINode.
	NodeIDsAnnotation = "csi.volume.kubernetes.io/nodeid"
	// SelectedNodeAnnotation on a claim is the node that the scheduler chose.
	SelectedNodeAnnotation = "volume.kubernetes.io/selected-node"
	// ProvisionerAnnotation and ProvisionerAnnotationBeta on a claim name who is to
	// make its volume.
	ProvisionerAnnotation     = "volume.kubernetes.io/storage-provisioner"
	ProvisionerAnnotationBeta = "volume.beta.kubernetes.io/storage-provisioner"
	// ManagedByLabel names the tool that made an object.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ShutdownTaint is put by a cloud's node controller on a node that is not Ready and whose
	// machine is stopped, as the cloud says.
	ShutdownTaint = "node.cloudprovider.kubernetes.io/shutdown"

	// AttacherFinalizerPrefix is the start of every external-attacher's finalizer.
	AttacherFinalizerPrefix = "external-attacher/"
	// AttacherLeasePrefix is the start of the name of every external-attacher's lease.
	AttacherLeasePrefix = "external-attacher-leader-"
	// ResizerLeasePrefix is the start of the name of every external-resizer's lease.
	ResizerLeasePrefix = "external-resizer-"
)

// The plugins that each kube-controller-manager registers for attaching. It also has the
// flexvolume drivers that it finds on its own host and, in older releases, the inTreePlugins.
const (
	CSIPlugin   = "kubernetes.io/csi"
	FCPlugin    = "kubernetes.io/fc"
	ISCSIPlugin = "kubernetes.io/iscsi"
)

// The in-tree plugins that a release may have registered. Their volumes are
// attached without a VolumeAttachment.
const (
	AWSEBSPlugin    = "kubernetes.io/aws-ebs"
	AzureDiskPlugin = "kubernetes.io/azure-disk"
	GCEPDPlugin     = "kubernetes.io/gce-pd"
	VSpherePlugin   = "kubernetes.io/vsphere-volume"
	RBDPlugin       = "kubernetes.io/rbd"
	// These cannot attach, or no longer exist: they matter only for their migration.
	PortworxPlugin  = "kubernetes.io/portworx-volume"
	AzureFilePlugin = "kubernetes.io/azure-file"
	CinderPlugin    = "kubernetes.io/cinder"
)

// CSIVolumeName is the unique name of the driver's volume where it is attached;
// ParseCSI is the way back.
func CSIVolumeName(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(CSIPlugin + "/" + driver + "^" + handle)
}

var notInNames = regexp.MustCompile("[^a-zA-Z0-9-]")

// AttacherName is how the external-attacher writes its driver's name in its
// finalizer and in its lease (SanitizeDriverName).
func AttacherName(driver string) string {
	name := notInNames.ReplaceAllString(driver, "-")
	if strings.HasSuffix(name, "-") {
		name += "X"
	}
	return name
}

// AttacherFinalizer is the finalizer of the driver's external-attacher, on
// VolumeAttachments and persistent volumes.
func AttacherFinalizer(driver string) string { return AttacherFinalizerPrefix + AttacherName(driver) }

// AttacherLeaseName is the name of the lease of the driver's external-attacher.
func AttacherLeaseName(driver string) string { return AttacherLeasePrefix + AttacherName(driver) }

// ResizerLeaseName is the name of the lease of the driver's external-resizer, which writes its
// driver's name as the external-attacher does (SanitizeName).
func ResizerLeaseName(driver string) string { return ResizerLeasePrefix + AttacherName(driver) }
