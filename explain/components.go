package explain

import (
	"regexp"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// The components that write the messages that people paste.
const (
	kubelet     = "the kubelet of the pod's node"
	controller  = "the attach/detach controller"
	binder      = "the persistent volume controller"
	scheduler   = "the scheduler"
	attacher    = "the driver's external-attacher"
	provisioner = "the driver's external-provisioner"
	resizer     = "the driver's external-resizer"
	snapshotter = "the driver's csi-snapshotter"
	apiServer   = "the API server"
	driver      = "the CSI driver"
	nodeTool    = "a program on the node, which the CSI driver runs, or the kubelet where the volume has no driver"
	anybody     = "any component that waits"
	either      = "the attach/detach controller, or the kubelet of the pod's node"
	kernel      = "the kernel of the node"
	runtime     = "the container runtime of the pod's node"
	sidecar     = "a sidecar in a pod of the driver (its attacher, provisioner, resizer or registrar)"
	caller      = "whoever called the CSI driver: its attacher, a kubelet or its provisioner"
)

// sentence is a message of a component of Kubernetes itself. Where acts is "" the words do
// not show the cause, and so not who has to act.
type sentence struct {
	// words must all be in the text, in lower case.
	words []string
	by    string
	means string
	acts  string
	codes []string
}

const (
	notInWords    = "; the cause is not in these words"
	notListening  = "the driver's container of the same pod does not answer on the socket that the two share: it has ended, is starting, or hangs"
	squashed      = "the storage does not let it give the volume's files to the pod's group: an NFS server that squashes root, or a driver whose CSIDriver should have the fsGroupPolicy None"
	heldElsewhere = "another node still has the volume, and it may be attached to one node only" + notInWords
)

// sentences are the known messages, the most specific first.
var sentences = []sentence{
	{[]string{"error mounting", "to rootfs"}, runtime, "it cannot give the container a directory or file of a volume: what the message names on the node does not answer, is not there, or is of another kind" + notInWords, "",
		[]string{"VD416", "VD411"}},
	{[]string{"oci runtime create failed"}, runtime, "it cannot start the container, for the reason behind these words", "", []string{"VD416", "VD417"}},
	{[]string{"still connecting to unix:"}, sidecar, notListening, "cluster admin", []string{"VD604", "VD615", "VD602"}},
	{[]string{"pluginproxy/csi.sock"}, sidecar, notListening, "cluster admin", []string{"VD604", "VD615", "VD602"}},
	{[]string{"no available volume zone"}, scheduler, "the volume cannot be reached from these nodes: it is in another zone", "cluster admin", []string{"VD506"}},
	{[]string{"multi-attach error for volume"}, controller, heldElsewhere, "",
		[]string{"VD203", "VD202", "VD102", "VD104"}},
	{[]string{"is already used by pod(s)"}, controller, heldElsewhere, "",
		[]string{"VD203", "VD202", "VD102", "VD104"}},
	{[]string{"is already exclusively attached to one node"}, controller, heldElsewhere, "",
		[]string{"VD203", "VD202", "VD102", "VD104"}},
	{[]string{"timed out waiting for external-attacher"}, controller, "the driver's attacher did not answer within 2 minutes: it does not run, hangs, or its storage system is slow" + notInWords, "",
		[]string{"VD604", "VD406", "VD405", "VD610"}},
	{[]string{"error processing pvc", "pvc is being deleted"}, kubelet, "the pod's claim is being deleted", "workload owner", []string{"VD513", "VD514"}},
	{[]string{"error processing pvc"}, kubelet, "the pod's claim cannot be used", "", []string{"VD514", "VD504", "VD512"}},
	{[]string{"unmounted volumes="}, kubelet, "it waited in vain for the volumes in the first brackets" + notInWords, "", []string{"VD409"}},
	{[]string{"volume attachment is being deleted"}, either, "the volume is still being detached, after an earlier use on the same node" + notInWords, "", []string{"VD401", "VD103", "VD502"}},
	{[]string{"not found in the list of registered csi drivers"}, kubelet, "the driver is not registered on the node: its node plugin there does not run, or its registrar has failed", "cluster admin", []string{"VD602", "VD616"}},
	{[]string{"volume not attached according to node status"}, kubelet, "the node's status.volumesAttached does not have the volume", "", []string{"VD301"}},
	{[]string{"has not been added to the list of volumesinuse"}, kubelet, "the kubelet has not reported the volume in use yet", "", []string{"VD305"}},
	{[]string{`volume mode "ephemeral" not supported by driver`}, kubelet, "the driver is not installed, or its CSIDriver does not allow inline volumes", "cluster admin", []string{"VD621"}},
	{[]string{"no matching nodeselectorterms"}, kubelet, "the volume cannot be reached from this node: its nodeAffinity names others", "workload owner", []string{"VD412", "VD506"}},
	{[]string{"has volumemode block"}, kubelet, "the pod uses a block volume as a file system", "workload owner", []string{"VD412"}},
	{[]string{"has volumemode filesystem"}, kubelet, "the pod uses a file system as a block volume", "workload owner", []string{"VD412"}},
	{[]string{"podsandbox"}, kubelet, "the container runtime cannot make or end the pod's sandbox, mostly for its network: no volume is meant", "node admin", []string{"VD417"}},
	{[]string{"orphaned pod", "found, but"}, kubelet, "a pod that is gone has left directories of volumes on the node, which the kubelet does not take off: data may be in them", "node admin", []string{"VD104"}},
	{[]string{"volume attachment limit"}, kubelet, "the node has as many volumes as its driver allows", "cluster admin", []string{"VD608"}},
	{[]string{"volumeattachmentlimitexceeded"}, kubelet, "the node has as many volumes as its driver allows", "cluster admin", []string{"VD608"}},
	{[]string{"csinode is not yet initialized"}, kubelet, "the kubelet has not written its CSINode", "", []string{"VD617"}},
	{[]string{`csinode.storage.k8s.io "`, "not found"}, caller, "the node has no CSINode: no driver is registered there", "cluster admin", []string{"VD602", "VD617"}},
	{[]string{"could not add persistentvolume finalizer"}, attacher, "it could not put its finalizer on the PersistentVolume, which it does before the attach" + notInWords, "", []string{"VD410"}},
	{[]string{"is being deleted, cannot attach"}, attacher, "the volume is being deleted: nothing is attached any more", "workload owner", []string{"VD502"}},
	{[]string{"is marked for deletion"}, attacher, "the PersistentVolume is being deleted: nothing is attached any more", "cluster admin", []string{"VD410", "VD502"}},
	{[]string{"findattachablepluginbyspec"}, controller, "the controller has no plugin for such a volume", "cluster admin", []string{"VD510"}},
	{[]string{"failed to get attachableplugin"}, controller, "the controller has no plugin for such a volume", "cluster admin", []string{"VD510"}},
	{[]string{"csinode", "does not contain driver"}, attacher, "the driver is not registered on the node", "cluster admin", []string{"VD602"}},
	{[]string{"is forbidden: exceeded quota"}, apiServer, "it refuses the write: a ResourceQuota of the namespace is used up", "cluster admin", []string{"VD512", "VD511"}},
	{[]string{"is forbidden: maximum storage usage per persistentvolumeclaim"}, apiServer, "it refuses the write: a LimitRange of the namespace allows no claim of this size", "cluster admin", []string{"VD512", "VD511"}},
	{[]string{"is forbidden: minimum storage usage per persistentvolumeclaim"}, apiServer, "it refuses the write: a LimitRange of the namespace allows no claim of this size", "cluster admin", []string{"VD512", "VD511"}},
	{[]string{"is forbidden: violates podsecurity"}, apiServer, "it refuses the pod: the Pod Security level of the namespace forbids what stands behind these words. No volume has failed", "cluster admin", []string{"VD415"}},
	{[]string{"only dynamically provisioned pvc can be resized"}, apiServer, "it refuses a larger size: the claim's StorageClass has no allowVolumeExpansion: true, or no class has made the claim's volume. No rights are missing", "cluster admin", []string{"VD511"}},
	{[]string{"admission webhook", "denied the request"}, apiServer, "a webhook that is asked before the write refuses it; what stands behind \"denied the request\" says why", "cluster admin", []string{"VD415", "VD512"}},
	{[]string{"persistentvolume ", " is still attached to node "}, provisioner, "it deletes no disk of a volume of which there is a VolumeAttachment: look which one names the volume, and why it stays" + notInWords, "", []string{"VD515", "VD103"}},
	{[]string{"volume node affinity conflict"}, scheduler, "the volume cannot be reached from these nodes", "cluster admin", []string{"VD506"}},
	{[]string{"did not have enough free storage"}, scheduler, "by what the driver has reported, no storage that these nodes reach has room for the claim's volume" + notInWords, "", []string{"VD512"}},
	{[]string{"find available persistent volumes to bind"}, scheduler, "no free PersistentVolume that these nodes reach suits the claim, and none is made for it there" + notInWords, "", []string{"VD512"}},
	{[]string{"exceed max volume count"}, scheduler, "these nodes have as many volumes as the driver allows", "cluster admin", []string{"VD608"}},
	{[]string{"readwriteoncepod access mode already in-use"}, scheduler, "another pod uses the claim, which one pod at a time may use", "workload owner", []string{"VD204"}},
	{[]string{"bound to non-existent p"}, scheduler, "the PersistentVolume that the claim is bound to is not in the cluster. Its disk may well be in the storage system: look there before anything is restored or deleted", "cluster admin", []string{"VD504"}},
	{[]string{"unbound immediate persistentvolumeclaims"}, scheduler, "a claim of the pod has no volume" + notInWords, "", []string{"VD512"}},
	{[]string{"persistentvolumeclaim", "not found", "nodes are available"}, scheduler, "the pod names a claim that does not exist", "workload owner", []string{"VD514", "VD512"}},
	{[]string{"persistentvolumeclaim", "is being deleted", "nodes are available"}, scheduler, "the pod's claim is being deleted", "workload owner", []string{"VD513", "VD514"}},
	{[]string{`persistentvolumeclaim "`, "not found"}, scheduler, "the pod names a claim that does not exist", "workload owner", []string{"VD514", "VD512"}},
	{[]string{`prebind plugin "volumebinding"`}, scheduler, "the pod's claims were not bound in the time that it waits for them" + notInWords, "", []string{"VD512"}},
	{[]string{"storageclass.storage.k8s.io", "not found"}, binder, "the claim names a storage class that does not exist", "workload owner", []string{"VD512"}},
	{[]string{"waiting for a volume to be created"}, binder, "it waits for the driver's provisioner" + notInWords, "", []string{"VD512"}},
	{[]string{"waiting for first consumer"}, binder, "nothing is wrong yet: the claim gets its volume when a pod that uses it is scheduled", "", []string{"VD512"}},
	{[]string{"no persistent volumes available for this claim"}, binder, "no volume fits the claim, and none is made for it", "cluster admin", []string{"VD512"}},
	{[]string{"different selinux label"}, kubelet, "a pod with another SELinux label still has the volume on the node", "workload owner", []string{"VD407"}},
	{[]string{"conflicting selinux labels"}, reconcile.ControllerManager, "pods with two SELinux labels use the volume", "workload owner", []string{"VD407"}},
	{[]string{"setting volume ownership for"}, kubelet, "it changes the owner of each file of the volume, which takes time", "", []string{"VD413"}},
	{[]string{"applyfsgroup failed", "operation not permitted"}, kubelet, squashed, "cluster admin", []string{"VD411"}},
	{[]string{"applyfsgroup failed", "permission denied"}, kubelet, squashed, "cluster admin", []string{"VD411"}},
	{[]string{"applyfsgroup failed"}, kubelet, "it cannot give the volume's files to the pod's group", "", []string{"VD411"}},
	{[]string{"failed calling webhook"}, apiServer, "a webhook that is asked before the write does not answer", "cluster admin", []string{"VD415"}},
	{[]string{"validatingadmissionpolicy"}, apiServer, "a policy of the cluster forbids the write", "cluster admin", []string{"VD415"}},
	{[]string{"is invalid", "spec is immutable after creation"}, apiServer, "it refuses the change that somebody makes: of a bound claim, only the size that it requests and its VolumeAttributesClass can be changed", "workload owner", []string{"VD511"}},
	{[]string{"waiting for an external controller to process this pvc"}, reconcile.ControllerManager, "it leaves the claim to the driver's external-resizer, which makes the volume larger" + notInWords, "", []string{"VD511"}},
	{[]string{"finish file system resize of volume on node"}, resizer, "the volume has grown; its file system grows when a pod mounts it", "workload owner", []string{"VD511"}},
	{[]string{"nodeexpandvolume"}, kubelet, "the file system of the volume does not grow", "", []string{"VD511"}},
	{[]string{"while expanding volume"}, kubelet, "the file system of the volume does not grow", "", []string{"VD511"}},
	{[]string{"another driver with the same name is already registered"}, kubelet, "two node plugins register one driver", "cluster admin", []string{"VD619"}},
	{[]string{"/plugins/", "csi.sock", "connection refused"}, kubelet, "nobody listens on the socket of the driver's node plugin", "cluster admin", []string{"VD615", "VD602"}},
	{[]string{"/plugins/", "csi.sock", "no such file or directory"}, kubelet, "the socket of the driver's node plugin is gone", "cluster admin", []string{"VD616", "VD602"}},
	{[]string{"/csi/csi.sock"}, sidecar, notListening, "cluster admin", []string{"VD604", "VD615", "VD602"}},
	{[]string{"dial unix", "csi.sock"}, caller, "the driver's plugin does not answer on its socket", "cluster admin", []string{"VD615", "VD602", "VD604"}},
	{[]string{"failed to prepare subpath for volumemount"}, kubelet, "it cannot open the directory of the pod's subPath in the volume; its log has the reason" + notInWords, "", []string{"VD416"}},
	{[]string{"failed to create subpath directory for volumemount"}, kubelet, "it cannot make the directory of the pod's subPath in the volume; its log has the reason" + notInWords, "", []string{"VD416"}},
	{[]string{"has no accessible csistoragecapacity with enough capacity"}, scheduler, "by what the driver has reported, no storage that this node reaches has room for the claim's volume" + notInWords, "", []string{"VD512"}},
	{[]string{"rpc error: code = canceled"}, caller, "the driver's call was taken back: whoever made it was stopped, or had waited for long enough" + notInWords, "", []string{"VD610"}},
	{[]string{"rpc error: code = deadlineexceeded"}, caller, "the driver's call had no answer in time, and whoever made it gave up" + notInWords, "", []string{"VD610"}},
	{[]string{"getdevicemountrefs check failed"}, kubelet, "something else on the node still has the volume's device mounted", "node admin", []string{"VD104"}},
	{[]string{"cannot detach volume because it is still mounted"}, controller, "the kubelet of the node still reports the volume in use" + notInWords, "", []string{"VD104", "VD102"}},
	{[]string{"does not appear staged"}, driver, "the driver has lost what it did before the mount, as after a restart of the node or of its pod" + notInWords, "", []string{"VD411"}},
	{[]string{"timed out waiting for the condition"}, anybody, "something did not come about in time" + notInWords, "", []string{"VD409"}},
	{[]string{"context canceled"}, anybody, "whoever waited was stopped, or had waited for long enough" + notInWords, "", []string{"VD409", "VD610"}},
	{[]string{"context deadline exceeded"}, anybody, "something did not come about in time" + notInWords, "", []string{"VD409", "VD610"}},
}

// reasons are the reasons of events, in lower case, for who pastes nothing else: the cause is in
// the event's message.
var reasons = map[string]sentence{
	"failedattachvolume": {[]string{"FailedAttachVolume"}, controller, "an attach has failed or has to wait" + inMessage, "", []string{"VD409", "VD410", "VD203"}},
	"failedmount":        {[]string{"FailedMount"}, kubelet, "a volume could not be mounted" + inMessage, "", []string{"VD409", "VD411"}},
	"failedmapvolume":    {[]string{"FailedMapVolume"}, kubelet, "a block device could not be given to the pod" + inMessage, "", []string{"VD409", "VD411"}},
	"failedscheduling":   {[]string{"FailedScheduling"}, scheduler, "no node suits the pod, for its volumes or for something else" + inMessage, "", []string{"VD409", "VD506", "VD512"}},
	"provisioningfailed": {[]string{"ProvisioningFailed"}, provisioner, "no volume could be made for the claim" + inMessage, "", []string{"VD512"}},
	"volumefaileddelete": {[]string{"VolumeFailedDelete"}, provisioner, "the disk of a volume could not be deleted" + inMessage, "", []string{"VD515"}},
	"volumeresizefailed": {[]string{"VolumeResizeFailed"}, resizer, "the volume does not grow" + inMessage, "", []string{"VD511"}},
}

const inMessage = "; the cause is in the event's message, not in its reason"

// spoken is the sentence in the text; nil where it is no component's known message.
func spoken(message string) *sentence {
	text := strings.ToLower(message)
	byDriver := driverSays(message)
	i := slices.IndexFunc(sentences, func(s sentence) bool {
		return (!byDriver || s.by != caller) && !slices.ContainsFunc(s.words, func(w string) bool { return !strings.Contains(text, w) })
	})
	if i < 0 {
		if s, alone := reasons[strings.TrimSpace(text)]; alone {
			return &s
		}
		return ownOfKubelet(text)
	}
	s := sentences[i]
	if s.by == anybody && saysMore(message) {
		return nil
	}
	switch by := frame(message); {
	case s.by == anybody && (by != anybody || byDriver): // the beginning of the message says more than its end
		s.by = by
		if byDriver {
			s.by = saidBy(message, driversOf(slices.DeleteFunc(whatItMeans(message), func(e driverwords.Entry) bool { return len(e.Drivers) == 0 })))
		}
		if code := stage(message); code != "" && !slices.Contains(s.codes, code) {
			s.codes = append([]string{code}, s.codes...)
		}
	case s.by == "" || s.by == either && by != anybody:
		s.by = by
	case s.by == caller:
		s.by = callerBehind(by)
	}
	return &s
}

// driverSays reports whether the words behind the message's first gRPC code are a CSI driver's:
// the runtime of containers and the client of a call without an answer write such codes as well.
func driverSays(message string) bool {
	return strings.Contains(strings.ToLower(message), "rpc error") && frame(message) != runtime && !kubeletwords.NoAnswer(message)
}

// callerBehind is who called the driver, where the component writes of the call.
func callerBehind(by string) string {
	switch by {
	case anybody:
		return caller
	case controller:
		return attacher
	}
	return by
}

// saysMore reports whether the text has words that tell more than that something took too long.
func saysMore(text string) bool {
	return slices.ContainsFunc(whatItMeans(text), func(e driverwords.Entry) bool { return !e.Wrapper && e.Meaning != driverwords.TimedOut })
}

// alsoSpoken are the other sentences of the scheduler in a text that begins with one: it says of
// each group of nodes why the pod cannot run there.
func alsoSpoken(text string, first *sentence) []sentence {
	if first == nil || first.by != scheduler {
		return nil
	}
	text = strings.ToLower(text)
	var others []sentence
	for _, s := range sentences {
		if s.by == scheduler && s.means != first.means && !slices.ContainsFunc(s.words, func(w string) bool { return !strings.Contains(text, w) }) {
			others = append(others, s)
		}
	}
	return others
}

// ownOfKubelet is the meaning of the kubelet's own words in the text; nil where the driver
// tables know the words, or where they are a driver's answer.
func ownOfKubelet(text string) *sentence {
	if e, ok := driverwords.Read("", text); ok && e.Layer.Sure() || kubeletwords.DriverAnswered(text) {
		return nil
	}
	for i, table := range [][]kubeletwords.Word{kubeletwords.MountWords, kubeletwords.WaitWords, kubeletwords.UnmountWords} {
		w, found := kubeletwords.Find(table, text)
		if !found || w.Speaker != kubeletwords.Kubelet || w.Means == "" {
			continue
		}
		s := sentence{words: []string{strings.ToLower(w.Text)}, by: kubelet, means: w.Means, codes: []string{[]string{"VD409", "VD409", "VD104"}[i]}}
		if w.Pattern != nil {
			s.words = []string{strings.ToLower(w.Pattern.FindString(text))}
		}
		if w.Permanent {
			s.codes = []string{"VD412"}
		}
		if acts, admin := strings.CutPrefix(w.Actor, "the "); admin && !strings.Contains(acts, "controller") {
			s.acts = acts
		}
		return &s
	}
	return nil
}

// beganContainer is how the kubelet begins the event of a container that could not be made or
// started, whose reason is mostly the runtime's (recordContainerEvent).
const beganContainer = `^(?:Warning\s.*\s)?Error: `

// frames are the beginnings of messages, with the component that writes them and the page
// about the failing step.
var frames = []struct {
	words *regexp.Regexp
	by    string
	code  string
}{
	{regexp.MustCompile(beganContainer + `(?:secrets? "|configmaps? "|couldn't find key )`), kubelet, ""},
	{regexp.MustCompile(`(?i)\bOCI runtime\b|\bcontainerd task\b|\bfailed to generate (?:container|spec)\b|\bto rootfs\b|\bError response from daemon\b|(?-i:` + beganContainer + `)`), runtime, "VD416"},
	{regexp.MustCompile(`(?i)\bhas GET error for volume attachment\b.* no relationship found\b`), kubelet, "VD302"},
	{regexp.MustCompile(`(?i)\bDetachVolume\.|\bDetach ?Error`), controller, "VD103"},
	{regexp.MustCompile(`(?i)\bAttachVolume\.|Multi-Attach error|\bWaiting for detach for volume`), controller, "VD410"},
	{regexp.MustCompile(`(?i)\bUnm(?:ount|ap)(?:Volume|Device)\b`), kubelet, "VD104"},
	{regexp.MustCompile(`(?i)\bM(?:ount|ap)Volume\.|\bFailedMount\b|\bNodeExpandVolume|unmounted volumes=|^kubelet\b`), kubelet, "VD411"},
	{regexp.MustCompile(`(?i)nodes are available`), scheduler, ""},
	{regexp.MustCompile(`(?i)failed to provision volume`), provisioner, "VD512"},
	{regexp.MustCompile(`VolumeFailedDelete`), provisioner, "VD515"},
	{regexp.MustCompile(`(?i)\bresize volume\b.* by resizer\b|\bVolume(?:Resize|Modify)Failed\b`), resizer, "VD511"},
	{regexp.MustCompile(`(?i)\bfailed to (?:check and update|create) snapshot content\b|\bfailed to take snapshot of the volume\b`), snapshotter, "VD512"},
	{regexp.MustCompile(`(?i)\bUser \\?"system:node:`), kubelet, ""}, // the API server refuses a kubelet
}

// stage is the page about the failing step of such a message; "" where the text does not
// begin like one.
func stage(text string) string {
	for _, f := range frames {
		if f.words.MatchString(text) {
			return f.code
		}
	}
	return ""
}

// frame is the component that writes a message with this beginning.
func frame(text string) string {
	for _, f := range frames {
		if f.words.MatchString(text) {
			return f.by
		}
	}
	return anybody
}

// ofNodeTool are words of the programs that drivers and kubelets alike run on a node.
var ofNodeTool = regexp.MustCompile(`(?i)\bmount(?:\.\w+| error| failed)?(?:\(\d+\))?:|\bfsck\b|\bmkfs\b|\bwrong fs type\b`)

// ofKernel are the beginnings of the kernel's lines, behind a time or the name of the machine.
var ofKernel = regexp.MustCompile(`(?i)(?:^|\bkernel: |\] )(?:(?:xfs|ext[234]-fs|btrfs)\b[^:]*:|ext4-fs error|(?:libceph|ceph|nfs|cifs|nvme \S+|connection\d+:\d+|session\d+|device-mapper|blk_update_request|print_req_error|sd \S+|jbd2|md\S*):? |buffer i/o error|i/o error, dev|aborting journal|info: task |ext4: |xfs: )`)

// saidBy names the speaker of a driver's or tool's words, and the component that passes them
// on.
func saidBy(text string, drivers []string) string {
	says := driver
	switch len(drivers) {
	case 0:
	case 1:
		says = "the CSI driver " + drivers[0]
	default: // the words do not tell which
		says = "one of the CSI drivers " + strings.Join(drivers, ", ")
	}
	by := frame(text)
	switch {
	case by == runtime:
		return runtime
	case kubeletwords.NoAnswer(text):
		return callerBehind(by)
	case by == anybody && len(drivers) == 0 && ofKernel.MatchString(text):
		return kernel
	case by == anybody && len(drivers) == 0 && ofNodeTool.MatchString(text) && !driverSays(text):
		return nodeTool
	case by == anybody:
		return says
	case len(drivers) == 0 && !driverSays(text):
		if by != controller {
			return by
		}
		says = attacher
	}
	return says + "; " + by + " passes it on"
}
