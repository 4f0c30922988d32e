package driverwords

// Meaning is the meaning of an error message. The set is closed: checks decide by it.
type Meaning string

// Actor is who has to act so that the volume becomes usable.
type Actor string

// Heals reports whether waiting usually suffices, because the caller retries.
func (a Actor) Heals() bool {
	return a == Nobody
}

// Concern is the part that an error message is about.
type Concern string

// The concerns.
const (
	OneVolume   Concern = "" // one volume, on whatever node
	OneNode     Concern = "node"
	WholeDriver Concern = "driver" // all volumes of the driver, on all nodes
)

// The actors.
const (
	StorageAdmin  Actor = "storage admin"
	ClusterAdmin  Actor = "cluster admin"
	NodeAdmin     Actor = "node admin"
	WorkloadOwner Actor = "workload owner"
	Nobody        Actor = "nobody: it heals"
)

// The meanings.
const (
	NodeUnknown        Meaning = "node-unknown"
	MachineGone        Meaning = "machine-gone"
	MachineFailed      Meaning = "machine-failed"
	NodeGone           Meaning = "node-gone"
	AttachedElsewhere  Meaning = "attached-elsewhere"
	NotAttached        Meaning = "not-attached"
	BackendBusy        Meaning = "backend-busy"
	BackendStuck       Meaning = "backend-stuck"
	MachineBusy        Meaning = "machine-busy"
	VolumeNotFound     Meaning = "volume-not-found"
	ObjectNotFound     Meaning = "object-not-found"
	VolumeDeleted      Meaning = "volume-deleted"
	VolumeFailed       Meaning = "volume-failed"
	VolumeNotReady     Meaning = "volume-not-ready"
	AttachLimit        Meaning = "attach-limit"
	QuotaReached       Meaning = "quota-reached"
	PermissionDenied   Meaning = "permission-denied"
	PodUnseen          Meaning = "pod-unseen"
	ZoneMismatch       Meaning = "zone-mismatch"
	FilesystemDamaged  Meaning = "filesystem-damaged"
	WrongFilesystem    Meaning = "wrong-filesystem"
	DeviceBusy         Meaning = "device-busy"
	DeviceMissing      Meaning = "device-missing"
	PathsMissing       Meaning = "paths-missing"
	Unreachable        Meaning = "unreachable"
	SecretMissing      Meaning = "secret-missing"
	NotRegistered      Meaning = "not-registered"
	DriverUnavailable  Meaning = "driver-unavailable"
	DriverConfig       Meaning = "driver-config"
	ToolMissing        Meaning = "tool-missing"
	OperationPending   Meaning = "operation-pending"
	TimedOut           Meaning = "timed-out"
	Throttled          Meaning = "throttled"
	EncryptionKey      Meaning = "encryption-key"
	MultiAttach        Meaning = "multi-attach"
	ReadOnly           Meaning = "read-only"
	OutOfSpace         Meaning = "out-of-space"
	AccessType         Meaning = "access-type"
	NodeIncompatible   Meaning = "node-incompatible"
	BadParameters      Meaning = "bad-parameters"
	ClientBlocked      Meaning = "client-blocked"
	StaleMount         Meaning = "stale-mount"
	StorageError       Meaning = "storage-error"
	SessionExists      Meaning = "session-exists"
	MapperMissing      Meaning = "mapper-missing"
	DuplicateUUID      Meaning = "duplicate-uuid"
	FilesystemTooLarge Meaning = "filesystem-too-large"
	GrowRefused        Meaning = "grow-refused"
	RecordMissing      Meaning = "record-missing"
	NoFreeDevice       Meaning = "no-free-device"
)

// About describes a meaning.
type About struct {
	// Says is the meaning as a sentence.
	Says string
	// Actor is who usually has to act.
	Actor Actor
	// Helps is the usual advice.
	Helps string
	// Concerns is the scope of the meaning: everything there has the same error for the same
	// reason.
	Concerns Concern
}

// About returns the description of the meaning, and false if there is no such
// meaning.
func (m Meaning) About() (About, bool) {
	about, ok := meanings[m]
	return about, ok
}

var meanings = map[Meaning]About{
	NodeUnknown: {"The driver or its storage system does not know the node.", ClusterAdmin,
		"{restart-node-plugin} so that it registers the node again; compare the node ID in the CSINode with the one in the storage system.", OneNode},
	MachineGone: {"The machine behind the node does not exist at the provider.", ClusterAdmin,
		"{check} Check at the provider that the machine was deleted and that the volume is attached nowhere; {delete-node}.", OneNode},
	MachineFailed: {"The provider attaches nothing to the machine in the state in which it is.", ClusterAdmin,
		"{check} Look at the provider which state the machine is in, and bring it back to one in which volumes can be attached; until then run the pod on another node.", OneNode},
	NodeGone: {"It names a node that does not exist in the cluster.", ClusterAdmin,
		"Take the node's name off the claim where it stands there (annotation volume.kubernetes.io/selected-node); else {restart-driver-controller}, which may still count on that node.", OneVolume},
	AttachedElsewhere: {"The volume is attached to another machine.", StorageAdmin,
		"{check} Find out in the storage system which machine has the volume; detach it there only after nothing on that machine uses it.", OneVolume},
	NotAttached: {"The volume is not attached to the node, although Kubernetes treats it as attached.", ClusterAdmin,
		"{check} Check in the storage system that the volume is attached to this machine; if it is not, {delete-pod} so that the volume is detached and attached again.", OneVolume},
	BackendBusy: {"An earlier operation on the volume has not ended in the storage system.", Nobody,
		"{wait}; {if if it lasts longer than 15 minutes,} look at the volume's state in the storage system.", OneVolume},
	BackendStuck: {"An operation on the volume is stuck in the storage system.", StorageAdmin,
		"{check} Look at the volume in the storage system's console, and end or repeat the stuck operation there.", OneVolume},
	MachineBusy: {"The provider runs another operation on the machine.", Nobody,
		"{wait}: the attach is retried and follows when the other operation has ended; {if if it does not,} look in the storage system for the operation that runs.", OneVolume},
	VolumeNotFound: {"The storage system does not have the volume.", StorageAdmin,
		"{check} Check in the storage system, in the account, project and region of the driver, whether the volume was deleted; restore it from a backup if it was.", OneVolume},
	ObjectNotFound: {"The storage system does not have the volume or the node.", StorageAdmin,
		"{check} Read the whole message (-o wide) to see whether the volume or the node is missing, and look for it in the storage system.", OneVolume},
	VolumeDeleted: {"The PersistentVolume is being deleted.", ClusterAdmin,
		"Keep the pod from using this volume: nothing is attached that is being deleted.", OneVolume},
	VolumeFailed: {"The volume is in a failed state in the storage system.", StorageAdmin,
		"{check} Look at the volume's state in the storage system and repair it there.", OneVolume},
	VolumeNotReady: {"The volume is not ready yet.", Nobody,
		"{wait}; {if if it lasts,} look at the volume's state in the storage system.", OneVolume},
	AttachLimit: {"The machine cannot attach more volumes.", ClusterAdmin,
		"Move a pod to another node, or detach volumes that no pod uses; then set the driver's volume limit to what the machine can attach.", OneNode},
	QuotaReached: {"A quota or a capacity of the provider is used up.", StorageAdmin,
		"Raise the quota, or delete what is not needed.", WholeDriver},
	PermissionDenied: {"The driver's or the node's credentials are missing, wrong or not allowed to do this.", StorageAdmin,
		"{check} Check the credentials that the driver uses, and give them the permission that the message names.", WholeDriver},
	PodUnseen: {"The API server does not see that a pod on the node uses the object, and lets the kubelet read no other.", Nobody,
		"{wait}: the API server learns of a new pod or volume within seconds; {if if it lasts,} look whether the pod is still bound to this node, and whether the object that the message names exists. " +
			"No role and no ClusterRole decides this.", OneNode},
	ZoneMismatch: {"The volume is in another zone than the node.", WorkloadOwner,
		"Run the pod on a node in the volume's zone; use a StorageClass with volumeBindingMode WaitForFirstConsumer for new volumes.", OneVolume},
	FilesystemDamaged: {"The file system on the volume is damaged.", StorageAdmin,
		"Take a snapshot of the volume first; then check and repair the file system while it is mounted nowhere.", OneVolume},
	WrongFilesystem: {"The volume holds another file system or format than requested, or none that the node can mount.", WorkloadOwner,
		"Set fsType in the PersistentVolume to the file system that is on the volume; do not format a volume that has data.", OneVolume},
	DeviceBusy: {"The device or the mount point is still in use on the node.", NodeAdmin,
		"{check} Find on the node what uses the device (findmnt, lsof, fuser, multipath -ll) and stop that.", OneVolume},
	DeviceMissing: {"The node does not find the volume's device.", NodeAdmin,
		"{check} Check on the node that the device has appeared (lsblk), and in the storage system that the volume is attached to this machine.", OneVolume},
	PathsMissing: {"The node has no working connection (iSCSI, Fibre Channel, NVMe or multipath) to the storage system.", NodeAdmin,
		"{check} Check on the node the initiator, the sessions and the multipath service, and the network or zoning to the storage system.", OneNode},
	Unreachable: {"The storage system's or the provider's address cannot be reached or resolved.", ClusterAdmin,
		"{check} Check name resolution, routes, firewall and whether the server runs, from the place that reports the error.", OneVolume},
	SecretMissing: {"A Secret or a ConfigMap is missing, or a key in it.", ClusterAdmin,
		"Create the Secret or the ConfigMap, with the keys that the message names.", WholeDriver},
	NotRegistered: {"The driver is not registered on the node.", ClusterAdmin,
		"{check} Check that the driver's node pod runs on this node and that its registrar reports no error.", OneNode},
	DriverUnavailable: {"The driver is not running, still starting, or does not answer.", Nobody,
		"{wait} for the driver's pod to become ready; {if if it lasts,} {read-log}.", OneVolume},
	DriverConfig: {"The driver's own configuration lacks something or is wrong.", ClusterAdmin,
		"Correct the driver's configuration; {restart-driver}.", WholeDriver},
	ToolMissing: {"A program, a package or a kernel module is missing on the node.", NodeAdmin,
		"Install the program or load the kernel module on the node.", OneNode},
	OperationPending: {"The same operation, or another one on the same volume, is already running in the driver.", Nobody,
		"{wait}; {if if it lasts longer than 15 minutes,} the running operation hangs: {read-log}.", OneVolume},
	TimedOut: {"The operation did not end in time; it may still be running.", Nobody,
		"{wait} for the retry; {if if it repeats,} {read-log}; look at the load and the state of the storage system.", OneVolume},
	Throttled: {"The provider limits the rate of requests.", Nobody,
		"{wait}; {if if it lasts,} find out what sends so many requests, or raise the limit.", WholeDriver},
	EncryptionKey: {"The volume's encryption key is missing, wrong or not usable.", StorageAdmin,
		"{check} Check that the key or passphrase exists, is enabled and is the one the volume was encrypted with.", OneVolume},
	MultiAttach: {"The volume may be attached to one node only, and another one has it.", WorkloadOwner,
		"{wait} until the other node has released the volume; {if or} use a volume that supports several nodes.", OneVolume},
	ReadOnly: {"The volume is read-only, or was requested in a mode that does not fit that.", WorkloadOwner,
		"Make the requested mode and the volume's mode the same.", OneVolume},
	OutOfSpace: {"There is no space left on the volume, in the pool or on the node.", StorageAdmin,
		"Free or add space where the message says that it is missing.", OneVolume},
	AccessType: {"The volume does not support the requested access mode or volume mode.", WorkloadOwner,
		"Use an access mode and a volume mode that the driver supports for this kind of volume.", OneVolume},
	NodeIncompatible: {"The node's hardware, kernel or release does not support the volume.", ClusterAdmin,
		"Run the pod on a node that supports the volume, or upgrade the node.", OneNode},
	BadParameters: {"A parameter, an attribute or a mount option is missing or wrong.", ClusterAdmin,
		"Correct what the message names where it stands: in the PersistentVolume, its StorageClass or its VolumeAttributesClass. Before a PersistentVolume is recreated, set its reclaim policy to Retain: else its disk goes with it.", OneVolume},
	ClientBlocked: {"The storage system has blocked this node.", StorageAdmin,
		"{reboot-node}, so that it no longer writes to the volume; then remove the block.", OneNode},
	StaleMount: {"A mount on the node no longer works.", NodeAdmin,
		"{delete-pod} so that the volume is unmounted and mounted again; if that hangs, unmount it on the node or {reboot-node}.", OneVolume},
	SessionExists: {"The node has a session with the iSCSI target already.", NodeAdmin,
		"{check} Look on the node which sessions there are (iscsiadm -m session) and whether they work; log a session out only after nothing uses its devices.", OneVolume},
	MapperMissing: {"The node has not made the mapped device of the volume: a decrypted one, or one of several paths.", NodeAdmin,
		"{check} Read what opens the device (cryptsetup or multipathd) in the log of the driver's node plugin and of the node, and check that its program and its kernel module are there.", OneVolume},
	DuplicateUUID: {"A file system with the same UUID is mounted on the node: a clone or a restored snapshot beside its source.", WorkloadOwner,
		"Run the pod on a node where no copy of the volume is mounted, or end the pod that has it; the mount option nouuid in the PersistentVolume lets both be mounted. Do not format the volume.", OneVolume},
	FilesystemTooLarge: {"The file system is larger than its device.", StorageAdmin,
		"{check} Compare the size of the volume in the storage system with that of the file system, and give the volume at least that size again. Neither format it nor let fsck or resize2fs cut it: what lies beyond the end would be lost.", OneVolume},
	GrowRefused: {"The kernel does not let the mounted file system grow: it is marked as damaged, or who asks for it lacks a right.", StorageAdmin,
		"{check} Read the kernel log of the node. If it says that the file system has errors, take a snapshot first, then check it while it is mounted nowhere; if not, let the driver's node pod run privileged.", OneVolume},
	RecordMissing: {"A PersistentVolume or a claim that the message names does not exist in the cluster; the disk behind it may.", ClusterAdmin,
		"{check} Look which object is missing, and for its disk in the storage system. Where the disk is there, recreate the PersistentVolume with its handle and the reclaim policy Retain; restore no backup beside it.", OneVolume},
	NoFreeDevice: {"The node has no free device, such as a loop or an NBD device, to give the volume.", NodeAdmin,
		"{check} Count the devices of that kind on the node (losetup -a, lsblk), load the kernel module with more of them, and see that the program in the message may open the node's /dev.", OneNode},
	StorageError: {"Reading from or writing to the storage failed.", StorageAdmin,
		"{check} Read the kernel log of the node, and check the health of the storage system.", OneVolume},
}
