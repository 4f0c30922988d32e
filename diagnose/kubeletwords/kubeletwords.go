// Package kubeletwords has the texts of the kubelet's that the checks and the trace look
// for in its events and in its log. Each is a part of a whole text, to be looked for in
// whatever case. A test compares all of them with what real kubelets have said.
package kubeletwords

import "regexp"

// Why one volume is not mounted.
const (
	BeingDetached    = "volume attachment is being deleted"
	AttachmentUnread = "get error for volume attachment"
	NotAttached      = "is not attached for volume attachment"
	OfAttachment     = "for volume attachment" // part of both before
	AttachTimeout    = "attachdetachment timeout"
	AttacherTimeout  = "timed out waiting for external-attacher"
	OfAttacher       = "external-attacher" // part of the one before
	StageSecret      = "NodeStageSecretRef"
	PublishSecret    = "NodePublishSecretRef"
	ModeNotSupported = "not supported by driver"
	NoCSIDriver      = "(no CSIDriver object)"
	NoToken          = "service accoount token" // the kubelet's own spelling
	OwnershipFailed  = "applyFSGroup failed"
	GrowthReadOnly   = "requested read-only file system"
	WhileExpanding   = "while expanding volume" // in the step, and not in the reason
	UsedByOtherPod   = "ReadWriteOncePod access mode"
	NotRegistered    = `" not registered`
	CachesEmpty      = "failed to sync"
	NotPermitted     = "no relationship found between node"
	KeyMissing       = "references non-existent"
	NoMountOptions   = "mount options are not supported for this volume type"
	PathCheckFailed  = "hostPath type check failed"
	NodeNotAllowed   = "no matching NodeSelectorTerms"
	DriverUnknown    = "not found in the list of registered CSI drivers"
	ServerUnreached  = `Get "https://`  // said of the API server; a driver says it of its storage
	TokenUnreached   = `Post "https://` // the same, of a token
	AnswerCutOff     = "unexpected error when reading response body"
	NobodyListens    = "connect: connection refused"
	SocketMissing    = "connect: no such file or directory"
	DataLost         = "unmounter failed to load volume data file"
	MountBusy        = "target is busy"
	StillMapped      = "is still referenced from other Pods"
	DeviceOpen       = "the device is in use when it was no longer expected to be in use"
)

// What a call to a CSI driver ends with. A failed mount without any of them has failed in
// the kubelet, before or after its calls.
const (
	CallFailed       = "rpc error:"
	CallCode         = "code = "
	DeadlineExceeded = "DeadlineExceeded"
	ContextDeadline  = "deadline exceeded"
)

// Why a volume is not taken up, or must not be mounted yet: the causes that stand behind
// the lists of a failed wait. The kubelet says them from 1.26 on.
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
	OfVolumeMode     = "volumeMode" // part of both that follow
	BlockMounted     = "but is specified in volumeMounts"
	FilesAsDevice    = "but is specified in volumeDevices"
	NoPlugin         = "no volume plugin matched"
	OfSELinux        = "SELinux" // part of the three that follow
	LabelsInPod      = "multiple SELinux labels"
	LabelsCollide    = "conflicting SELinux labels"
	LabelMounted     = "different SELinux label"
	NotProcessed     = "failed to process volumes=["
	AllProcessed     = "failed to process volumes=[]"
)

// How the text about one volume begins, on its way up.
const (
	Mounting = "MountVolume."
	Mapping  = "MapVolume."
)

// StagingSteps are the parts of a step's name by which it comes before the driver publishes
// the volume to the pod.
var StagingSteps = []string{"NodeAffinity", "NewMounter", "MountOptionSupport", "NewBlockVolumeMapper", "WaitForAttach", "GetDeviceMountPath", "GetGlobalMapPath", "MountDevice", "SetUpDevice"}

var (
	// Failed is the text about one volume: what failed, the volume by its PV's name or the
	// pod's, and why. Old kubelets give the volume's unique name first, and the pod behind it.
	Failed = regexp.MustCompile(`(?s)^(?:\(combined from similar events\): )?` +
		`((?:AttachVolume|MountVolume|MapVolume|NodeExpand[Vv]olume)[A-Za-z. ]*) ` +
		`for volume "(?:[^"]+" \(spec\.Name: ")?([^"]+)"(?:\) pod "[^"]*" \(UID: "[^"]*"\) with)? ?: ?(.*)$`)
	// WaitFailed is the text with which the kubelet gives up a wait for all volumes of a pod;
	// it lists them by the pod's own names: unmounted, unattached, not processed, and then why.
	WaitFailed = regexp.MustCompile(`(?s)unmounted volumes=\[([^\]]*)\](?:, unattached volumes=\[([^\]]*)\])?` +
		`(?:, failed to process volumes=\[([^\]]*)\])?: ?(.*)$`)
	// MissingObject is the kind and the name of a Secret or ConfigMap that does not exist.
	MissingObject = regexp.MustCompile(`(?i)\b(secret|configmap)s? "([^"]+)" not found`)
	// Published is a ConfigMap that does not exist and that no person makes.
	Published = regexp.MustCompile(`(?i)\bconfigmaps? "((?:kube-root-ca|openshift-service-ca)\.crt)" not found`)
	// TokenRefused is who gets no token, and the pod with it.
	TokenRefused = regexp.MustCompile(`failed to fetch token: (.*?) is forbidden`)
	// ShareUnmountable is a share, which has no file system, taken for a device.
	ShareUnmountable = regexp.MustCompile(`wrong fs type, bad option, bad superblock on (//\S+|[^\s/]\S*?:/[^\s,]*)`)
	// DriversSecret is the namespace of a Secret that a PV names for its driver.
	DriversSecret = regexp.MustCompile(`Node(?:Stage|Publish)SecretRef ([^/\s]+)/\S+ failed`)
	// MissingKey is the key that such an object lacks.
	MissingKey = regexp.MustCompile(KeyMissing + ` (?:secret|config) key: (\S+)`)
	// MissingPath is the path on the node that is missing, from 1.37 on behind a comma, or,
	// behind a colon, of another type.
	MissingPath = regexp.MustCompile(PathCheckFailed + `[:,] (\S+) is not`)
	// MissingLocal is the path of a local volume that is missing (getFileType, hostutil).
	MissingLocal = regexp.MustCompile(`path "([^"]+)" does not exist`)
	// MissingAccount is the ServiceAccount for which there is no token.
	MissingAccount = regexp.MustCompile(`serviceaccounts? "([^"]+)" not found`)
	// NoDevice is the path at which a driver was to make the device of a block volume.
	NoDevice = regexp.MustCompile(`lstat (\S+/volumeDevices/publish/\S+): no such file or directory`)
	// OtherMounts are the places where a device is mounted beside the kubelet's own.
	OtherMounts = regexp.MustCompile(`is still mounted by other references \[([^\]]+)\]`)
	// DirectoryGone is a record of a volume that could not be written because its directory
	// was taken away meanwhile.
	DirectoryGone = regexp.MustCompile(`failed to save volume data file \S+: open \S+: no such file or directory`)
	// UnknownDriver is the driver that the kubelet does not know.
	UnknownDriver = regexp.MustCompile(`driver name (\S+) ` + DriverUnknown)
)
