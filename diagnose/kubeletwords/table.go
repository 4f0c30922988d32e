package kubeletwords

import (
	"regexp"
	"strings"
)

// Speaker is the author of the words that the kubelet writes.
type Speaker string

// The speakers.
const (
	Kubelet Speaker = "" // the kubelet itself
	Driver  Speaker = "the CSI driver"
	Program Speaker = "the mount program of the node"
)

// Word is a text that a kubelet writes about one volume: who speaks, who has to act next,
// whether any retry can succeed, and what the text means. The trace, the plan and the checks
// all take these from here. Package driverwords may know texts that no row has.
type Word struct {
	// Text and Pattern match parts of the message; for Text, upper and lower case do not
	// matter. Where a row has both, both must match.
	Text    string
	Pattern *regexp.Regexp
	Speaker Speaker
	// Actor is who has to act; "" means the speaker, which tries again by itself. $1 and $2 are
	// the groups of Pattern. $node, $driver, $user and $owner are the node, the driver, the
	// other pod that has the volume there, and whoever may change the volume.
	Actor string
	// Permanent is true where the same attempt can never succeed: the pod, or the object that
	// it asks for, has to be changed first.
	Permanent bool
	// Wraps is true where the cause follows the text: an error that concerns the volume's
	// files, no matter who reads them.
	Wraps bool
	// Own is true where no table of drivers or mount programs may read the text. It is never part of a
	// driver's answer.
	Own bool
	// Means is the meaning of the text. Ends is what ends the wait. Do and Never are an advice, and
	// what must not be done; "" where the actor says enough.
	Means, Ends, Do, Never string
}

// The actors that are not objects.
const (
	WorkloadOwner = "the workload owner"
	// Nobody acts by itself: neither the pod nor its volume can be changed so that the wait ends.
	Nobody       = "a person, as no controller ends it"
	ClusterAdmin = "the cluster admin"
	NodeAdmin    = "the node admin"
)

// The actors of more than one row.
const (
	theController = "the attach/detach controller"
	theUser       = "$user"
	theOwner      = "$owner"
)

const (
	again       = "; the kubelet looks again after at most 2m2s"
	attachedIt  = "the controller has attached it again" + again
	otherGoes   = "that pod ends and the volume is unmounted from it" + again
	madeAgain   = "the pod is made again with a volume that its node can use"
	oldCall     = "an earlier call for the volume still runs: look for the first error, not for this one"
	noAnswer    = "the driver did not answer within 2 min: its node plugin hangs, or the storage cannot be reached from the node"
	notLetIn    = "the storage does not let the driver in: the node's identity, or the driver's Secret"
	noSuchOpt   = "the mount program of the node does not know a mount option that the volume asks for"
	noSuchMode  = "the driver does not know the access mode that the volume asks for"
	noSidecar   = "the pod lacks the sidecar that serves its volume: the driver's webhook put none in when the pod was made, as where an annotation is missing or the webhook did not answer"
	withSidecar = "the pod is made again, with the sidecar: a pod's containers cannot be changed"
	ownDisk     = "{check} look on $node at the disk of the kubelet's directory (df -h, df -i, dmesg, lsattr); {fix} free space there, or repair it"
	corrected   = "the volume asks for what its driver and the node know"
)

// MountWords are the texts of a failed mount. The first match counts: a gRPC code says less
// than the text beside it.
var MountWords = []Word{
	{Text: BeingDetached, Actor: theController, Ends: attachedIt, Means: "the controller is detaching it: the mount waits until it has been attached again"},
	{Text: AttachmentUnread, Pattern: AttachmentForbidden, Own: true, Actor: ClusterAdmin, Ends: "the API server lets the kubelet of $node read its VolumeAttachments" + again, Means: "the API server does not let the kubelet read the VolumeAttachment",
		Do: "{check} see that the kubelet of $node acts under the name of its own node, and is no newer than the API server: the node authorizer decides what a kubelet may do, and no ClusterRole"},
	{Text: AttachmentUnread, Actor: theController, Ends: attachedIt, Means: "the kubelet does not see the VolumeAttachment although volumesAttached lists the volume"},
	{Text: NotAttached, Actor: theController, Ends: attachedIt, Means: "volumesAttached lists it, but its VolumeAttachment says that it is not attached"},
	{Pattern: AttachmentMissing, Own: true, Actor: theController, Ends: attachedIt, Means: "the API server has no VolumeAttachment of the volume, although volumesAttached lists it"},
	{Text: OfAttachment, Actor: theController, Ends: attachedIt},
	{Text: OfAttacher, Actor: theController, Ends: attachedIt},
	{Text: AttachTimeout, Actor: theController, Ends: attachedIt},
	{Text: StageSecret, Pattern: MissingObject, Actor: "whoever is to create $1/$2", Ends: "$1/$2 is created" + again, Means: "the Secret that the PV names for the driver (nodeStageSecretRef) cannot be read"},
	{Text: PublishSecret, Pattern: MissingObject, Actor: "whoever is to create $1/$2", Ends: "$1/$2 is created" + again, Means: "the Secret that the PV names for the driver (nodePublishSecretRef) cannot be read"},
	{Pattern: Published, Actor: "the controller that publishes configmap/$1", Ends: "configmap/$1 is there" + again, Means: "a controller publishes this ConfigMap in each namespace, and has not here: nobody makes it by hand"},
	{Pattern: MissingObject, Actor: "whoever is to create $1/$2", Ends: "$1/$2 is created" + again},
	{Text: StageSecret, Means: "the Secret that the PV names for the driver (nodeStageSecretRef) cannot be read"},
	{Text: PublishSecret, Means: "the Secret that the PV names for the driver (nodePublishSecretRef) cannot be read"},
	{Pattern: MissingAccount, Actor: "whoever is to create serviceaccount/$1", Ends: "serviceaccount/$1 is there again" + again, Means: "the pod's ServiceAccount is gone, so that nobody gives the kubelet a token for it"},
	{Pattern: MissingBundle, Actor: "whoever is to create clustertrustbundle/$1", Ends: "clustertrustbundle/$1 is created" + again, Means: "the ClusterTrustBundle that the pod's volume names does not exist"},
	{Text: "signerName and labelSelector matched zero ClusterTrustBundles", Actor: "whoever is to create the ClusterTrustBundle", Ends: "a ClusterTrustBundle has the signer and the labels that the pod's volume names" + again, Means: "no ClusterTrustBundle has the signer and the labels that the pod's volume names"},
	{Text: "PodCertificateRequest was permanently", Actor: "whoever signs the pod's certificate", Permanent: true, Ends: "the signer grants such a certificate and the pod is made again: for this pod the kubelet asks no second time", Means: "the signer has denied the certificate of the pod for good",
		Do: "{check} read in the pod's PodCertificateRequests why the signer has denied the certificate; {fix} have it grant such a certificate"},
	{Text: "hugePages storage requested, but there is no resource request", Actor: WorkloadOwner, Permanent: true, Ends: "the pod is made again with a request for huge pages, or without the medium HugePages", Means: "the emptyDir has the medium HugePages, and no container requests huge pages",
		Do: "{change} correct the pod's template: request huge pages in a container, or leave out the medium HugePages"},
	{Text: "can't be used if container requests multiple huge page sizes", Actor: WorkloadOwner, Permanent: true, Ends: "the pod is made again with a medium that names one size, or with requests for one", Means: "the emptyDir has the medium HugePages without a size, and the containers request several sizes",
		Do: "{change} correct the pod's template: name the size in the medium, as in HugePages-2Mi, or request huge pages of one size"},
	{Pattern: NoContainer, Own: true, Actor: WorkloadOwner, Permanent: true, Ends: "the pod is made again with the name of one of its containers in the volume", Means: "the volume asks for resources of container $1, which the pod does not have",
		Do: "{change} correct containerName of the volume in the pod's template: the pod has no container $1"},
	{Pattern: KubeletsFile, Own: true, Actor: NodeAdmin, Ends: "the kubelet can write to its own directory on $node" + again, Means: "the kubelet cannot work with its own files on the node's disk; why stands at the end of the message",
		Do: ownDisk},
	{Pattern: HostPathUnmade, Own: true, Actor: NodeAdmin, Ends: "$1 can be made on $node, or is there" + again, Means: "the path of the volume is on the node itself, and the kubelet cannot make it there",
		Do: "{check} look on $node why $1 cannot be made: its rights, a file system that is read-only by design, or the disk; {change} make it there, or give the volume a path that can be made"},
	{Text: "cannot allocate memory", Own: true, Actor: NodeAdmin, Ends: "the node has memory for the mount" + again, Means: "the node has no memory for the mount, or no more for its mount program",
		Do: "{check} look on $node at its memory and its kernel log (free, dmesg), and find out what takes so much"},
	{Text: "fork/exec", Own: true, Actor: NodeAdmin, Ends: "the node can start the program" + again, Means: "the node does not start the program that mounts: it is missing, or the node may run no more processes",
		Do: "{check} see on $node whether the program in the message is there, and how many processes run"},
	{Text: NoCSIDriver, Actor: "whoever is to create csidriver/$driver", Ends: "the CSIDriver says that the driver takes such volumes" + again, Means: "the driver does not take volumes of this kind, as far as the kubelet knows: it has no CSIDriver object"},
	{Text: ModeNotSupported, Actor: Nobody, Permanent: true, Ends: "the pod is made again without the volume: the modes that a CSIDriver lists cannot be changed", Means: "the driver does not take volumes of this kind: its CSIDriver does not list the mode"},
	{Text: NotPermitted, Means: "the API server does not see yet that the pod needs the object, or the object does not exist"},
	{Pattern: TokenDenied, Own: true, Actor: ClusterAdmin, Ends: "$1 lets the kubelet of $node have the token" + again, Means: "what checks requests at the API server keeps the kubelet from getting the token of the pod's ServiceAccount",
		Do: "{fix} see to it that $1 answers, and lets the kubelet of $node have the token"},
	{Pattern: TokenRefused, Actor: ClusterAdmin, Ends: "the API server lets the kubelet of $node have the token" + again, Means: "the API server refuses the kubelet the token of the pod's ServiceAccount",
		Do: "{fix} see to it that the API server lets the kubelet of $node have the token: the message names the right or the audience that is missing"},
	{Text: NoToken, Means: "the kubelet could not get the token that the driver asks for (tokenRequests of its CSIDriver)"},
	{Text: "failed to fetch token", Means: "the kubelet gets no token of the pod's ServiceAccount from the API server"},
	{Text: OwnershipFailed, Wraps: true, Means: "it is mounted, but its files cannot be given to the pod's fsGroup"},
	{Text: GrowthReadOnly, Actor: WorkloadOwner, Permanent: true, Ends: "the pod mounts the volume for writing once, so that its file system can grow", Means: "the file system must grow, and the volume is mounted read-only"},
	{Text: NoMountOptions, Actor: theOwner, Permanent: true, Ends: "the volume asks for no mount options", Means: "volumes of this type take no mount options, and this one asks for some"},
	{Text: UsedByOtherPod, Actor: theUser, Ends: otherGoes, Means: "another pod on the node has the volume mounted, which only one pod may"},
	{Text: LabelMounted, Actor: theUser, Ends: otherGoes, Means: "a pod with another SELinux label has the volume mounted on the node; it must go first"},
	{Text: NodeNotAllowed, Actor: Nobody, Permanent: true, Ends: "the pod is made again on a node that suits the volume", Means: "the volume may not be used on this node"},
	{Text: DriverUnknown, Actor: "the node plugin of $driver on $node", Ends: "the node plugin registers with the kubelet" + again, Means: "the kubelet does not know the driver: its node plugin has not registered"},
	{Pattern: MissingKey, Actor: "whoever is to add the key $1", Ends: "the object that the pod names has the key $1" + again, Means: "the object is there but lacks the key that the pod names"},
	{Pattern: DeadPath, Own: true, Actor: NodeAdmin, Ends: "the node can read $1 again" + again, Means: "the path is there, and the node cannot read it: what is mounted there is dead, or its disk is damaged",
		Do: "{check} look on $node at what is mounted at $1 (findmnt, dmesg), and {fix} mount it again or repair its disk"},
	{Pattern: MissingPath, Actor: "whoever is to make $1 on $node", Own: true, Ends: "the path is there, and of the type that the pod names" + again, Means: "the path on the node is missing or not of the type that the pod names"},
	{Pattern: MissingLocal, Actor: NodeAdmin, Ends: "the volume's disk is mounted at $1 again" + again, Means: "the path of the local volume is missing on the node, as where its disk is gone or not mounted",
		Do:    "{check} see on $node whether the volume's disk is there (lsblk) and mounted at $1 (findmnt, /etc/fstab); {change} mount it there",
		Never: "make the directory $1 by hand: the pod would start with an empty one on the machine's own disk"},
	{Pattern: NoDevice, Actor: "CSI driver $driver on $node", Ends: "the driver makes the device" + again, Means: "the driver answered that it has published the volume, and made no device at the path that the kubelet gave it"},
	{Text: "only directory and block device are supported", Own: true, Actor: NodeAdmin, Ends: "a directory or a block device is at the path of the volume" + again, Means: "the path of the local volume is there, and is neither a directory nor a block device",
		Do: "{check} look on $node what is at the path that the PersistentVolume names, and {fix} put the volume's directory or disk there"},
	{Pattern: NoNodesDevice, Own: true, Actor: NodeAdmin, Ends: "the device $1 is there" + again, Means: "the node does not find the volume's device",
		Do: "{check} see on $node whether $1 has appeared (lsblk), and in the storage system whether the volume is attached to this machine"},
	{Text: "incorrect mount option was specified", Pattern: NodesOption, Own: true, Actor: NodeAdmin, Ends: "the mount program of $node knows the options that the node itself adds" + again, Means: "the mount program does not know an option, and the volume asked for none: the node itself adds it",
		Do: "{check} look on $node where its mount program takes options from (/etc/nfsmount.conf), and whether it and the kernel know them; {fix} correct that there"},
	{Text: "incorrect mount option was specified", Speaker: Program, Actor: theOwner, Permanent: true, Ends: corrected, Means: noSuchOpt},
	{Text: "unknown mount option", Speaker: Program, Actor: theOwner, Permanent: true, Ends: corrected, Means: noSuchOpt},
	{Text: "unrecognized mount option", Speaker: Program, Actor: theOwner, Permanent: true, Ends: corrected, Means: noSuchOpt},
	{Text: "invalid mount option", Speaker: Program, Actor: theOwner, Permanent: true, Ends: corrected, Means: noSuchOpt},
	{Text: "fuse: unknown option", Speaker: Program, Actor: theOwner, Permanent: true, Ends: corrected, Means: noSuchOpt},
	{Text: NotInjected, Speaker: Driver, Actor: WorkloadOwner, Permanent: true, Ends: withSidecar, Means: noSidecar},
	{Text: NoSidecar, Speaker: Driver, Actor: WorkloadOwner, Permanent: true, Ends: withSidecar, Means: noSidecar},
	{Text: "unsupported access mode", Speaker: Driver, Actor: theOwner, Permanent: true, Ends: corrected, Means: noSuchMode},
	{Text: "access mode is not supported", Speaker: Driver, Actor: theOwner, Permanent: true, Ends: corrected, Means: noSuchMode},
	{Text: "does not support access mode", Speaker: Driver, Actor: theOwner, Permanent: true, Ends: corrected, Means: noSuchMode},
	{Text: "volume capability not supported", Speaker: Driver, Actor: theOwner, Permanent: true, Ends: corrected, Means: noSuchMode},
	{Pattern: FileSystemUnknown, Speaker: Driver, Actor: theOwner, Permanent: true, Ends: corrected, Means: "the driver does not know the file system that the volume asks for (fsType)",
		Do: "{final} recreate the PersistentVolume, policy Retain, with an fsType that the driver knows; {change} correct it in the StorageClass for the volumes to come"},
	{Text: "reason given by server: no such file or directory", Speaker: Program, Means: "the server does not have the directory that the volume names"},
	{Text: "bad superblock on tmpfs", Speaker: Program, Own: true, Actor: NodeAdmin, Ends: "the node can mount such a tmpfs" + again, Means: "the node does not mount the tmpfs: its kernel or its mount program does not know one of the options",
		Do: "{check} read the kernel log of $node (dmesg) for tmpfs, and compare its release with the options in the message"},
	{Text: "already exists", Speaker: Driver, Means: oldCall},
	{Text: "code = aborted", Speaker: Driver, Means: oldCall},
	{Pattern: GaveUp, Speaker: Driver, Means: noAnswer},
	{Text: "connection refused", Pattern: DriversSocket, Speaker: Driver, Means: "the driver's node plugin does not answer on its socket, although it has registered"},
	{Text: "no such file or directory", Speaker: Driver, Means: "the driver's socket, or the device that it looks for, is not there"},
	{Text: NotRegistered, Means: "the kubelet has not begun with the pod, as when the node's network is not ready, and else it passes within seconds; nothing is written once it has"},
	{Text: CachesEmpty, Means: "the kubelet's caches are not filled yet: it passes within seconds, and nothing is written once it has, unless the kubelet cannot reach the API server"},
	{Pattern: ShareUnmountable, Speaker: Program, Actor: NodeAdmin, Ends: "the node has the mount program of $1" + again, Means: "the node has no mount program for such a share"},
	{Text: "wrong fs type", Speaker: Program, Means: "the file system is damaged, or not what the volume says"},
	{Text: PathCheckFailed, Own: true, Means: "the path on the node is missing or not of the type that the pod names"},
	{Text: "exit status 32", Speaker: Program, Means: "the mount command of the node failed; its own words say why"},
	{Text: "code = unavailable", Speaker: Driver, Means: "the driver's node plugin does not answer"},
	{Text: "code = notfound", Speaker: Driver, Means: "the driver does not find the volume, or its device on the node"},
	{Text: "code = invalidargument", Speaker: Driver, Means: "the driver does not take what the PV says: its attributes, its file system or its mount options"},
	{Text: "code = permissiondenied", Speaker: Driver, Means: notLetIn},
	{Text: "code = unauthenticated", Speaker: Driver, Means: notLetIn},
	{Text: "code = resourceexhausted", Speaker: Driver, Means: "the node, or the storage, has no room for another volume"},
}

// WaitWords are the texts about a volume that the kubelet cannot take up, or must not mount
// yet. They follow the lists of volumes of a failed wait. Kubelets write them from 1.26 on.
var WaitWords = []Word{
	{Text: ClaimTerminating, Means: "the claim is being deleted, and nothing protects it any more"},
	{Text: ClaimUnbound, Means: "the claim is not bound"},
	{Text: ClaimNamesNone, Means: "the claim names no volume"},
	{Text: VolumeUnclaimed, Means: "the PV has no claimRef"},
	{Text: VolumeOfAnother, Means: "the PV is bound to another claim, or to an earlier one of the same name"},
	{Text: NotPermitted, Means: "the API server does not see yet that the pod needs the object, or the object does not exist"},
	{Text: ClaimUnread, Means: "the kubelet cannot read the claim"},
	{Text: VolumeUnread, Means: "the kubelet cannot read the PV"},
	{Text: ClaimOfAnother, Means: "the claim has the name of the pod's own one and belongs to another"},
	{Text: BlockMounted, Actor: Nobody, Permanent: true, Ends: madeAgain, Means: "the volume is a block device, and a container mounts it"},
	{Text: FilesAsDevice, Actor: Nobody, Permanent: true, Ends: madeAgain, Means: "the volume has a file system, and a container wants a device"},
	{Text: NoPlugin, Actor: Nobody, Permanent: true, Ends: madeAgain, Means: "the kubelet has no plugin for this type of volume: it was removed from Kubernetes, or its driver's directory is missing"},
	{Text: LabelsInPod, Actor: Nobody, Permanent: true, Ends: "the pod is made again with one SELinux label", Means: "containers of the pod have different SELinux labels and use the same volume"},
	{Text: LabelsCollide, Actor: theUser, Ends: otherGoes, Means: "the volume is wanted with two SELinux labels on this node"},
	{Text: LabelMounted, Actor: theUser, Ends: otherGoes, Means: "a pod with another SELinux label has the volume mounted on the node; it must go first"},
}

// UnmountWords are the texts of a failed step of an unmount. The kubelet writes them only to
// its log.
var UnmountWords = []Word{
	{Text: DataLost, Ends: "the kubelet of $node is restarted: until then it looks for a file that is gone", Means: "the kubelet's own record of the mount is gone"},
	{Text: DataUnread, Ends: "the kubelet of $node is restarted: until then it looks for a file that is gone", Means: "the kubelet's own record of the mount is gone"},
	{Text: NotEmpty, Own: true, Actor: NodeAdmin, Ends: "the directory on $node is empty: the kubelet deletes no files in it" + again, Means: "files lie in the directory of a mount that is gone, as where a process wrote there after the unmount, and the kubelet deletes none",
		Do: "{check} see on $node that nothing is mounted at the directory in the message (findmnt), and what lies in it; {final} move the files away"},
	{Pattern: KubeletsFile, Own: true, Actor: NodeAdmin, Ends: "the kubelet can delete its own files on $node" + again, Means: "the kubelet cannot remove its own files from the node's disk; why stands at the end of the message",
		Do: ownDisk},
	{Pattern: OtherMounts, Actor: "whoever mounted it at $1 on $node", Ends: "nothing else on the node has it mounted", Means: "the volume is mounted at other places of the node as well, which the kubelet did not do"},
	{Text: MountBusy, Speaker: Program, Actor: NodeAdmin, Ends: "nothing on the node uses the mount any more", Means: "a process on the node still uses what is mounted, or something is mounted below it",
		Do: "{check} find on $node what uses the mount (fuser -vm, findmnt -R), and {fix} end it"},
	{Text: StillMapped, Actor: NodeAdmin, Ends: "no device of another pod is left there", Means: "the kubelet finds the device still mapped for another pod: what an earlier one left there keeps it",
		Do: "{check} look on $node at the devices that the message names (losetup, findmnt), and {fix} take away what an earlier pod left"},
	{Text: DeviceOpen, Actor: NodeAdmin, Ends: "nothing on the node holds the device open", Means: "it is unmounted, and something on the node still holds its device open",
		Do: "{check} find on $node what holds the device (lsof, losetup, dmsetup, multipath), and {fix} end it"},
	{Text: DriverUnknown, Actor: "the node plugin of $driver on $node", Ends: "the node plugin registers with the kubelet; then the unmount follows by itself", Means: "the kubelet does not know the driver: its node plugin has not registered"},
}

// Find returns the first of the words that the message contains, with the groups of its pattern
// filled in.
func Find(words []Word, message string) (Word, bool) {
	lower := strings.ToLower(message)
	for _, w := range words {
		if !strings.Contains(lower, strings.ToLower(w.Text)) || (w.Own || w.Speaker == Driver) && DriverAnswered(message) == w.Own {
			continue
		}
		if w.Pattern == nil {
			return w, true
		}
		if m := w.Pattern.FindStringSubmatch(message); m != nil {
			var names []string
			switch len(m) {
			case 2:
				names = []string{"$1", m[1]}
			case 3:
				names = []string{"$1", strings.ToLower(m[1]), "$2", m[2]}
			}
			named := strings.NewReplacer(names...)
			for _, text := range []*string{&w.Actor, &w.Ends, &w.Means, &w.Do, &w.Never} {
				*text = named.Replace(*text)
			}
			return w, true
		}
	}
	return Word{}, false
}

// firstCall is the first gRPC code of a message, with what stands behind it. ofClient is what the
// client of a call writes there that got no answer: rpc_util.go, picker_wrapper.go and
// internal/transport of grpc-go.
var (
	firstCall = regexp.MustCompile(`(?is)rpc error: code = (\w+)(?: desc = (.*))?`)
	ofClient  = regexp.MustCompile(`(?i)^"?(?:context (?:deadline exceeded|canceled)(?:["',].*)?$|received context error while |latest balancer error: |connection error: desc = |transport is closing|error reading from server: |stream terminated by RST_STREAM|(?:grpc: )?the client connection is closing)`)
)

// NoAnswer reports whether the words behind the message's first gRPC code are those of the
// client that made the call: the driver has said nothing.
func NoAnswer(message string) bool {
	call := firstCall.FindStringSubmatch(strings.TrimSpace(message))
	if call == nil {
		return false
	}
	gaveUp := strings.EqualFold(call[1], "DeadlineExceeded") || strings.EqualFold(call[1], "Canceled")
	return gaveUp && call[2] == "" || (gaveUp || strings.EqualFold(call[1], "Unavailable")) && ofClient.MatchString(call[2])
}

// DriverAnswered reports whether the message contains the end of a failed call to a CSI driver.
// Any other message comes from the kubelet itself, before or after its calls.
func DriverAnswered(message string) bool {
	lower := strings.ToLower(message)
	for _, text := range []string{CallFailed, CallCode, ContextDeadline, DeadlineExceeded} {
		if strings.Contains(lower, strings.ToLower(text)) {
			return true
		}
	}
	return false
}
