package facts

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// The timers of the kubelet, the control plane and the CSI sidecars. Those of the attach/detach
// controller are in package reconcile. Every threshold is derived from one of them, with its
// margin in the same line; where nothing upstream bounds a threshold, its comment calls it a
// judgement.
const (
	// MountWait is the kubelet's wait for a pod's mounts, and for its unmounts
	// (podAttachAndMountTimeout, pkg/kubelet/volumemanager/volume_manager.go).
	MountWait = 2*time.Minute + 3*time.Second
	// PodResync is the longest pause between two syncs of a pod: --sync-frequency
	// and half of it as jitter (workerResyncIntervalJitterFactor,
	// pkg/kubelet/pod_workers.go).
	PodResync = 90 * time.Second
	// PodRetry is the longest pause after a sync of a pod that failed: backOffPeriod and
	// half of it as jitter (pkg/kubelet/kubelet.go, pkg/kubelet/pod_workers.go).
	PodRetry = 15 * time.Second
	// PodStatusSync is the tick on which the kubelet writes the status of pods
	// (syncPeriod, pkg/kubelet/status/status_manager.go).
	PodStatusSync = 10 * time.Second
	// maxCrashLoopBackOff is the longest pause before a container that crashes is
	// started again (pkg/kubelet/kubelet.go).
	maxCrashLoopBackOff = 5 * time.Minute
	// ownershipReport is the pause between two events of a long change of ownership
	// (progressReportDuration, pkg/volume/volume_linux.go).
	ownershipReport = time.Minute
	// NodeLeaseRenew is the pause between two renewals of a node's lease: a quarter
	// (nodeLeaseRenewIntervalFraction, pkg/kubelet/kubelet.go) of
	// nodeLeaseDurationSeconds.
	NodeLeaseRenew = 10 * time.Second

	// NodeMonitorGrace is --node-monitor-grace-period: a node that is silent for so
	// long is no longer Ready (pkg/controller/nodelifecycle/config/v1alpha1/defaults.go).
	NodeMonitorGrace = 50 * time.Second
	// NodeMonitorGraceBefore132 is NodeMonitorGrace up to 1.31.
	NodeMonitorGraceBefore132 = 40 * time.Second
	// DefaultToleration is how long a pod that says nothing else stays on a node
	// that is not Ready (plugin/pkg/admission/defaulttolerationseconds/admission.go).
	DefaultToleration = 5 * time.Minute
	// DefaultTerminationGrace is the grace period of a pod that sets none.
	DefaultTerminationGrace = corev1.DefaultTerminationGracePeriodSeconds * time.Second
	// SchedulerMaxBackoff is the longest pause between two tries to place a pod
	// (DefaultPodMaxBackoffDuration, pkg/scheduler/backend/queue/scheduling_queue.go).
	SchedulerMaxBackoff = 10 * time.Second
	// claimBinderSync is --pvclaimbinder-sync-period
	// (pkg/controller/volume/persistentvolume/config/v1alpha1/defaults.go).
	claimBinderSync = 15 * time.Second
	// eventRefill is the pause after which a recorder that has sent a burst about an
	// object sends one more event (defaultSpamQPS, client-go tools/record/events_cache.go).
	eventRefill = 5 * time.Minute
	// RequestTimeout is --request-timeout of the API server (apiserver pkg/server/config.go).
	RequestTimeout = time.Minute

	// sidecarCall is --timeout of the CSI sidecars: one call to the driver.
	sidecarCall = 15 * time.Second
	// LongSidecarCall and LongestSidecarCall are values of --timeout in the manifests of
	// drivers: of several drivers, and of the slowest.
	LongSidecarCall    = 5 * time.Minute
	LongestSidecarCall = 20 * time.Minute
	// attacherFirstBackoff and AttacherMaxBackoff bound the pause between two tries,
	// which doubles each time (--retry-interval-start, --retry-interval-max of the
	// external-attacher, cmd/csi-attacher/main.go).
	attacherFirstBackoff = time.Second
	AttacherMaxBackoff   = 5 * time.Minute
	// attacherLease is --leader-election-lease-duration of the external-attacher.
	attacherLease = 15 * time.Second
	// AttacherResync is --resync of the external-attacher: it looks at every object again.
	AttacherResync = 10 * time.Minute
	// attacherReconcileSync is --reconcile-sync of the external-attacher: it compares its
	// objects with the volumes that the driver lists as attached.
	attacherReconcileSync = time.Minute
	// ResizerMaxBackoff is --retry-interval-max of the external-resizer.
	ResizerMaxBackoff = 5 * time.Minute
)

// The thresholds that several checks, the trace or a repair share.
const (
	// ListsGrace is how old a fact must be before another list may contradict it. Lists are read
	// one after the other: a change in between can be in one and not yet in the other. A
	// judgement: it depends on the size of the cluster.
	ListsGrace = time.Minute

	// ProvisionTakes is how long it may take to make a volume: the provisioner repeats calls
	// that time out, and clouds are slow.
	ProvisionTakes = sidecarCall + 105*time.Second
	// ProvisionSilence is how long a provisioner may report nothing: a volume with the data of
	// a snapshot or of another volume takes longer.
	ProvisionSilence = LongSidecarCall + AttacherMaxBackoff + 5*time.Minute
	// copiedPerSecond is how many bytes of a snapshot or of another volume a storage system copies
	// into a new volume at least. A judgement: slow disks over a network do twice as much.
	copiedPerSecond = 32 << 20
	// LongestCopy is how much longer a volume of any size may take because data is copied into it: after
	// an hour somebody should look. A judgement.
	LongestCopy = time.Hour - ProvisionSilence
	// ClaimBinds is how long the PV controller may take to bind a claim to a volume
	// that is there.
	ClaimBinds = claimBinderSync + 15*time.Second

	// KubeletReports is how long a working kubelet may pause between two writes of its node's
	// status; the margin is for a slow or repeated write.
	KubeletReports = reconcile.NodeReportTakes + 140*time.Second
	// PodsReported is how long a kubelet that has just started may take until it has written
	// the statuses of all its pods: it writes each within seconds, one after the other.
	PodsReported = time.Minute
	// DanglingGrace is how long the controller may take to process an attachment that is in
	// neither list. It counts one that it knows only from the VolumeAttachment as mounted until
	// the node's next update.
	DanglingGrace = KubeletReports
	// KubeletRetries is the longest pause between two outcomes of an operation that
	// the kubelet repeats: one call to the driver, and the back-off after it.
	KubeletRetries = reconcile.CSITimeout + reconcile.BackoffLast + 58*time.Second
	// MountTakes is how long a mount may take without an event: one call to the
	// driver, and one wait of the kubelet.
	MountTakes = MountWait + 27*time.Second
	// MountFails is how long a mount may fail before it counts as stuck: some errors occur only
	// in the first seconds, while caches fill and a driver registers. By then the kubelet has
	// tried seven times.
	MountFails = (1<<6-1)*reconcile.BackoffFirst + 28500*time.Millisecond
	// cachesFill is how long the kubelet may report that it does not yet know what a new pod
	// needs. A judgement: it has tried five times by then, and a watch begins within a second.
	cachesFill = (1<<4-1)*reconcile.BackoffFirst + 2500*time.Millisecond
	// StartRounded is how much later than its process_start_time_seconds a process may have
	// started: that counts from the machine's boot, which the kernel reports in whole seconds.
	StartRounded = time.Second
	// RetrySaid is how long a mount that fails without a hanging call may take, with its event.
	// A judgement: the kubelet looks ten times a second.
	RetrySaid = 5 * time.Second
	// EventRepeats is the longest pause between two events about an operation that
	// goes on failing.
	EventRepeats = eventRefill + time.Minute
	// AttachEventPause is the longest pause between two events of the controller
	// about an attach that goes on failing: its wait for the attacher, and its
	// back-off.
	AttachEventPause = reconcile.CSITimeout + reconcile.BackoffLast
	// OwnershipSilent is how old the last report of a change of ownership may be
	// while the change goes on.
	OwnershipSilent = 2 * ownershipReport
	// LongFileChange is how long a change of the owner or the label of a volume's files may take
	// before it is worth a finding. It is a judgement: nothing has gone wrong, and with many files
	// the change takes long.
	LongFileChange = 10 * time.Minute
	// UnusedGrace is how long a volume must have been without a user before it counts as kept:
	// the kubelet unmounts immediately, retries after a failure, and writes its list.
	UnusedGrace = 2*(reconcile.BackoffLast+reconcile.NodeStatusUpdate) + 36*time.Second
	// UnusedGraceUnseen is UnusedGrace where nothing shows when the last user left. A pod that
	// waits elsewhere may have been created as the old one was deleted: the margin covers usual
	// grace periods, and the hand-over after them.
	UnusedGraceUnseen = UnusedGrace + 25*time.Minute

	// ControllerGrace is how long after a change of its leader the controller may
	// still be rebuilding its worlds from the objects: it reads them, and finishes
	// one operation for each volume.
	ControllerGrace = reconcile.CSITimeout + time.Minute
	// DetachTakes is one detach, granted on top of the controller's own time-out.
	DetachTakes = reconcile.CSITimeout
	// LostPodWarns is how long a pod may be Terminating on a lost node before that is a warning,
	// and lostPodFails before it is an error: nothing under way ends it. A judgement: the node
	// was not Ready for five minutes before its pods were evicted.
	LostPodWarns = time.Minute
	lostPodFails = LostPodWarns + 2*time.Minute
	// RebootTakes is how long a node may be silent. A judgement: a machine that restarts is back by
	// then, and its kubelet ends the pod.
	RebootTakes = 5 * time.Minute
	// TaintTakes is how long after the out-of-service taint a Terminating pod of the node and
	// its attachment may stay: the garbage collector of pods comes by every 20 s, then a detach
	// is called.
	TaintTakes = 20*time.Second + reconcile.CSITimeout
	// CollectorTakes is how long the pods of a node that does not exist may stay: the garbage
	// collector of pods comes by every 20 s, and gives such a node 40 s to appear.
	CollectorTakes = 40*time.Second + 2*20*time.Second
	// KillTakes is how long past its grace period a container may run on a node that is
	// Ready: one call of the kubelet to the container runtime (runtimeRequestTimeout).
	KillTakes = 2 * time.Minute
	// KillFails is when that is an error, where another pod waits for the volume.
	KillFails = KillTakes + 2*time.Minute
	// EvictionGrace is how long a pod on a lost node may stay Terminating before it
	// counts as stuck: as long as a forced detach takes altogether.
	EvictionGrace = reconcile.DefaultMaxWaitForUnmount + DetachTakes
	// ReuseGrace is how long the controller may take to report a volume whose
	// VolumeAttachment was there before the pod came: it looks, writes the status
	// within the pass, and the kubelet reports.
	ReuseGrace = reconcile.AttachPoll + reconcile.NodeStatusUpdate + 43*time.Second
	// AttachGrace is the same for a volume that was attached for the pod: after an
	// operation that timed out the controller backs off before it looks again.
	AttachGrace = reconcile.BackoffLast + 58*time.Second
	// AttachGraceUnseen is AttachGrace where nothing shows that operations keep
	// timing out.
	AttachGraceUnseen = 2*(reconcile.CSITimeout+reconcile.BackoffLast) + 116*time.Second
	// HandOverTakes is how long a pod may wait for a volume that another pod releases: that pod
	// ends within its grace period, and its volume is detached.
	HandOverTakes = DefaultTerminationGrace + reconcile.CSITimeout + 30*time.Second
	// ConflictGrace is how long a pod must have waited to count as a rival of the running pod
	// that holds the volume: nothing under way ends the wait. A judgement: within one workload
	// the old pod is deleted no later than the new one is created, and is then no rival, however
	// long it takes to end.
	ConflictGrace = time.Minute
	// ConflictFails is when that is an error. Where the holder ends by itself, as a Job's pod
	// does, the wait is not reported before.
	ConflictFails = ConflictGrace + 2*time.Minute
	// NodeComes is how long an autoscaler may take to bring a node for a pod. A judgement:
	// machines come in one to three minutes, and register within one more.
	NodeComes = 5 * time.Minute
	// PVDeletionGrace is how long a persistent volume may be Terminating: its disk
	// is detached, and the driver deletes it.
	PVDeletionGrace = reconcile.CSITimeout + 3*time.Minute

	// RefusalGrace is how long a driver may answer with a refusal. A detachError is written
	// only when a detach has failed, and goes only with the object: it proves that the last
	// attempt failed. By the sixth attempt a slow start is no longer an explanation.
	RefusalGrace = (1<<5-1)*attacherFirstBackoff + 29*time.Second
	// NoAnswerGrace is the same where nothing was refused: calls end without an answer while
	// the storage system may still be at work, or nobody calls.
	NoAnswerGrace = reconcile.CSITimeout + time.Minute
	// AttacherLeaseGrace is how old the renewal of an attacher's lease may be before
	// its holder counts as gone.
	AttacherLeaseGrace = attacherLease + 45*time.Second
	// AttacherAway is how long an attacher may be gone while an attachment waits for it: a
	// Deployment of one replica is rolled over, its image is pulled, and the lease of the old
	// pod runs out.
	AttacherAway = attacherLease + 165*time.Second
	// attacherIdle is how long an attacher that holds its lease may leave an attachment
	// untouched: the longest calls and back-offs may keep all its workers busy.
	attacherIdle = LongestSidecarCall + AttacherMaxBackoff + 5*time.Minute
	// AttacherSilent is the same for an attachment that it has looked at: two such calls.
	AttacherSilent = 2 * attacherIdle
	// AttacherRetries is the longest time between two attempts of a living external-attacher:
	// the calls themselves take time too. An older detachError comes from an attacher that no
	// longer tries, which is another failure.
	AttacherRetries = 2 * AttacherMaxBackoff
	// StuckDeleting is how long a detach may fail before it counts as stuck: by
	// then the attacher has tried twice at its longest back-off.
	StuckDeleting = 2 * AttacherMaxBackoff
	// OutageGrace is StuckDeleting for a driver that does not answer: its pods may be
	// restarting, or its storage system may have a long queue.
	OutageGrace = StuckDeleting + 20*time.Minute
	// DeviceGrace is how long a pod may wait for an attached volume before the device counts as
	// missing: an attacher that compares with the driver's list attaches it again.
	DeviceGrace = attacherReconcileSync + reconcile.CSITimeout + 2*time.Minute

	// MountRetries is the longest time between two events of a mount that keeps
	// failing.
	MountRetries = eventRefill + KubeletRetries

	// RegistrationGrace is how long a node plugin may take to register its driver
	// after the node or the plugin has started: the kubelet's retries back off.
	RegistrationGrace = reconcile.BackoffLast + 58*time.Second
	// RolloutGrace is how long the replacement of a DaemonSet's pod may take: the old one is
	// deleted, the new one pulls its images and registers. In between the driver is missing
	// from its node. A judgement: nothing bounds a pull.
	RolloutGrace = 10 * time.Minute
	// PluginDown is how long a node plugin may be not Ready.
	PluginDown = maxCrashLoopBackOff
)
