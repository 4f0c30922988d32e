// Package kubeletwords has the texts that the checks and the trace look for in a kubelet's
// events and in its log. Each is a part of a whole text; upper and lower case do not matter. A
// test compares all of them with what real kubelets have written.
package kubeletwords

import "regexp"

// Reasons why one volume is not mounted.
const (
	BeingDetached    = "volume attachment is being deleted"
	AttachmentUnread = "get error for volume attachment"
	NotAttached      = "is not attached for volume attachment"
	OfAttachment     = "for volume attachment" // part of the two above
	AttachTimeout    = "attachdetachment timeout"
	AttacherTimeout  = "timed out waiting for external-attacher"
	OfAttacher       = "external-attacher" // part of the one above
	StageSecret      = "NodeStageSecretRef"
	PublishSecret    = "NodePublishSecretRef"
	ModeNotSupported = "not supported by driver"
	NoCSIDriver      = "(no CSIDriver object)"
	NoToken          = "service accoount token" // the kubelet's own spelling
	OwnershipFailed  = "applyFSGroup failed"
	GrowthReadOnly   = "requested read-only file system"
	WhileExpanding   = "while expanding volume" // in the step, not in the reason
	NotInjected      = "inject the sidecar container into the Pod spec"
	NoSidecar        = "find the sidecar container in Pod spec"
	NoNodeExpansion  = "to not support node expansion"
	UsedByOtherPod   = "ReadWriteOncePod access mode"
	NotRegistered    = `" not registered`
	CachesEmpty      = "failed to sync"
	NotPermitted     = "no relationship found between node"
	KeyMissing       = "references non-existent"
	NoMountOptions   = "mount options are not supported for this volume type"
	PathCheckFailed  = "hostPath type check failed"
	NodeNotAllowed   = "no matching NodeSelectorTerms"
	DriverUnknown    = "not found in the list of registered CSI drivers"
	ServerUnreached  = `Get "https://`  // the API server's address; a driver writes the same about its storage
	TokenUnreached   = `Post "https://` // the same, about a token
	AnswerCutOff     = "unexpected error when reading response body"
	NobodyListens    = "connect: connection refused"
	SocketMissing    = "connect: no such file or directory"
	DataLost         = "unmounter failed to load volume data file"
	DataUnread       = "failed to open volume data file" // part of the one above
	NotEmpty         = "directory not empty"
	MountBusy        = "target is busy"
	StillMapped      = "is still referenced from other Pods"
	DeviceOpen       = "the device is in use when it was no longer expected to be in use"
)

// The words at the end of a failed call to a CSI driver. A mount whose error has none of these words
// has failed in the kubelet, before or after its calls.
const (
	CallFailed       = "rpc error:"
	CallCode         = "code = "
	DeadlineExceeded = "DeadlineExceeded"
	ContextDeadline  = "deadline exceeded"
)

// Reasons why a volume is not taken up, or must not be mounted yet. They follow the lists of
// volumes of a failed wait. Kubelets write them from 1.26 on.
const (
	ClaimFailed      = "error processing PVC"
	ClaimTerminating = "PVC is being deleted"
	ClaimUnbound     = "PVC is not bound"
	ClaimNamesNone   = "empty pvc.Spec.VolumeName"
	VolumeUnclaimed  = "nil pv.Spec.ClaimRef"
	VolumeOfAnother  = "does not point to claim.UID"
	ClaimUnread      = "failed to fetch PVC"
	VolumeUnread     = "failed to fetch PV " // not PVC
	ClaimOfAnother   = "pod is not owner"
	OfVolumeMode     = "volumeMode" // also in the messages with the next two
	BlockMounted     = "but is specified in volumeMounts"
	FilesAsDevice    = "but is specified in volumeDevices"
	NoPlugin         = "no volume plugin matched"
	OfSELinux        = "SELinux" // also in the messages with the next three
	LabelsInPod      = "multiple SELinux labels"
	LabelsCollide    = "conflicting SELinux labels"
	LabelMounted     = "different SELinux label"
	NotProcessed     = "failed to process volumes=["
	AllProcessed     = "failed to process volumes=[]"
)

// Beginnings of the text about one volume that is being mounted.
const (
	Mounting = "MountVolume."
	Mapping  = "MapVolume."
)

// StagingSteps are parts of the names of the steps that come before the driver publishes the
// volume to the pod.
var StagingSteps = []string{"NodeAffinity", "NewMounter", "MountOptionSupport", "NewBlockVolumeMapper", "WaitForAttach", "GetDeviceMountPath", "GetGlobalMapPath", "MountDevice", "SetUpDevice"}

var (
	// Failed matches the text about one volume: what failed, the name of the volume's PV or the
	// pod's name for it, and why. Old kubelets put the volume's unique name first and the pod
	// after it.
	Failed = regexp.MustCompile(`(?s)^(?:\(combined from similar events\): )?` +
		`((?:AttachVolume|MountVolume|MapVolume|NodeExpand[Vv]olume)[A-Za-z. ]*) ` +
		`for volume "(?:[^"]+" \(spec\.Name: ")?([^"]+)"(?:\) pod "[^"]*" \(UID: "[^"]*"\) with)? ?: ?(.*)$`)
	// WaitFailed matches the text with which the kubelet gives up a wait for all volumes of a
	// pod. It lists volumes by the pod's own names: unmounted, unattached and not processed.
	// The reason follows.
	WaitFailed = regexp.MustCompile(`(?s)unmounted volumes=\[([^\]]*)\](?:, unattached volumes=\[([^\]]*)\])?` +
		`(?:, failed to process volumes=\[([^\]]*)\])?: ?(.*)$`)
	// GaveUp matches the first code of a call that had no answer in time. Behind the same code other
	// words are the driver's.
	GaveUp = regexp.MustCompile(`(?i)^[^=]*code = (\w+) desc = (?:context deadline exceeded|received context error)`)
	// MissingObject matches the kind and the name of a Secret or ConfigMap that does not exist.
	MissingObject = regexp.MustCompile(`(?i)\b(secret|configmap)s? "([^"]+)" not found`)
	// Published matches a missing ConfigMap that a controller publishes, so that no person
	// makes it.
	Published = regexp.MustCompile(`(?i)\bconfigmaps? "((?:kube-root-ca|openshift-service-ca)\.crt)" not found`)
	// MissingBundle matches a ClusterTrustBundle that does not exist (clustertrustbundle_manager.go).
	MissingBundle = regexp.MustCompile(`clustertrustbundles?(?:\.certificates\.k8s\.io)? "([^"]+)" not found`)
	// KubeletsFile matches a failed call for one of the kubelet's own files on the node's disk: a
	// directory that it makes or removes, its record of a volume, or what it writes into a volume that it
	// makes itself. Files deeper in any other volume may be the volume's. A dead mount, and a directory
	// that is in use or not empty, are no faults of the disk.
	KubeletsFile = regexp.MustCompile(`\b(?:(?:mkdir|symlink|rename|remove|rmdir|unlinkat) \S*/(?:pods|plugins/kubernetes\.io)/[^:]*` +
		`|failed to create (?:data )?dir \S+\s+mkdir [^:]*|[a-z]+ \S*(?:/vol_data\.json|/kubernetes\.io~(?:configmap|secret|projected|downward-api|empty-dir)/)[^:]*): ` +
		`(?:no space left on device|read-only file system|disk quota exceeded|input/output error|permission denied|operation not permitted|no such file or directory|not a directory|structure needs cleaning|too many open files)`)
	// HostPathUnmade matches the path of a hostPath volume that the kubelet cannot make on the node.
	HostPathUnmade = regexp.MustCompile(`^(?:mkdir|open) (/\S*): `)
	// DeadPath matches a path on the node that is there, and whose type the node cannot read.
	DeadPath = regexp.MustCompile(PathCheckFailed + `[:,] (\S+) is not .*(?:transport endpoint is not connected|stale (?:NFS )?file handle|host is down|input/output error|permission denied)`)
	// NodesOption matches a mount command, as the kubelet quotes it, to which the volume gave no option.
	NodesOption = regexp.MustCompile(`Mounting arguments:\s+(?:.* -- mount )?-t \S+ (?:-o (?:ro|rw|defaults)(?:,(?:ro|rw|defaults))* )?[^-\s]`)
	// NoContainer matches the container that a downward API volume names and the pod lacks.
	NoContainer = regexp.MustCompile(`(?:^|[\[ ])container ([a-z0-9-]+) not found(?:$|[],])`)
	// TokenDenied matches the webhook or the policy that keeps the kubelet from getting a token.
	TokenDenied = regexp.MustCompile(`failed to fetch token: .*(?:admission webhook|calling webhook|ValidatingAdmissionPolicy) ["']([^"']+)["']`)
	// AttachmentMissing matches a VolumeAttachment that the API server does not find.
	AttachmentMissing = regexp.MustCompile(`volumeattachments\S* "[^"]+" not found`)
	// AttachmentForbidden matches the API server's refusal to show the kubelet any VolumeAttachment. Of a
	// single one that it does not see, it reports that there is no relationship.
	AttachmentForbidden = regexp.MustCompile(`is forbidden: User "[^"]*" cannot [^:]*$`)
	// NoNodesDevice matches a device that the kubelet does not find on the node.
	NoNodesDevice = regexp.MustCompile(`^lstat (/dev/\S+): no such file or directory`)
	// DriversSocket matches a call that did not get through the socket of a CSI driver.
	DriversSocket = regexp.MustCompile(`dial unix \S+: connect: `)
	// FileSystemUnknown matches a driver that does not know the file system.
	FileSystemUnknown = regexp.MustCompile(`(?i)(?:unsupported|unknown) fs ?type|fs ?type "?\w+"? (?:is )?not supported`)
	// TokenRefused matches the refusal of a token: the API server does not allow it.
	TokenRefused = regexp.MustCompile(`failed to fetch token: (.*?) is forbidden`)
	// ShareUnmountable matches a network share that mount takes for a device: a share has no
	// file system.
	ShareUnmountable = regexp.MustCompile(`wrong fs type, bad option, bad superblock on (//\S+|[^\s/]\S*?:/[^\s,]*)`)
	// DriversSecret matches the namespace of a Secret that a PV names for its driver.
	DriversSecret = regexp.MustCompile(`Node(?:Stage|Publish)SecretRef ([^/\s]+)/\S+ failed`)
	// MissingKey matches the key that a Secret or ConfigMap lacks.
	MissingKey = regexp.MustCompile(KeyMissing + ` (?:secret|config) key: (\S+)`)
	// MissingPath matches a path on the node that is missing or of another type. A colon comes
	// before the path; since 1.37, a comma where the path is missing.
	MissingPath = regexp.MustCompile(PathCheckFailed + `[:,] (\S+) is not`)
	// MissingLocal matches the path of a local volume that is missing (getFileType, hostutil).
	MissingLocal = regexp.MustCompile(`path "([^"]+)" does not exist`)
	// MissingAccount matches the missing ServiceAccount for which there is no token.
	MissingAccount = regexp.MustCompile(`serviceaccounts? "([^"]+)" not found`)
	// NoDevice matches the path at which a driver should have made the device of a block
	// volume.
	NoDevice = regexp.MustCompile(`lstat (\S+/volumeDevices/publish/\S+): no such file or directory`)
	// OtherMounts matches the places where a device is mounted in addition to the kubelet's own
	// mount.
	OtherMounts = regexp.MustCompile(`is still mounted by other references \[([^\]]+)\]`)
	// DirectoryGone matches the record of a volume that could not be written, because its
	// directory was removed meanwhile, or the one above it while the kubelet made it.
	DirectoryGone = regexp.MustCompile(`failed to (?:save volume data file \S+: open|create data dir \S+:\s+mkdir) \S+: no such file or directory`)
	// AttachmentAnswered matches the API server's answer about a VolumeAttachment. After
	// AttachmentUnread, any other words say that the kubelet got none.
	AttachmentAnswered = regexp.MustCompile(`not found|is forbidden|cannot get resource`)
	// UnknownDriver matches the driver that the kubelet does not know.
	UnknownDriver = regexp.MustCompile(`driver name (\S+) ` + DriverUnknown)
)
