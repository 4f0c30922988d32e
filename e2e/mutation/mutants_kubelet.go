package main

// Why a look at a kubelet cannot tell a mutant of its half.
const (
	namesMore       = "It names more volumes than it has to, and the one that waits is among them."
	severalWait     = "Several volumes wait, and the verdict may name any of them."
	staysNot        = "No pod that ends by itself and stays is drawn."
	takesInline     = "The drivers here take volumes that stand in a pod."
	unlisted        = "A kubelet that is started again without a driver has taken it off its CSINode by the time of the look."
	conditionSaysSo = "A pod whose containers run has the condition PodReadyToStartContainers as well."
	kubeletWorks    = "No mount fails here in the kubelet itself, but for what it misses."
	listedByThen    = "The kubelet lists a volume in use before the look."
	showsElsewhere  = "What keeps the kubelet from taking a volume up here shows in the claim, the volume or the pod as well."
	ownClaims       = "No claim of another owner is drawn."
	goesWithIt      = "The pod goes in the moment in which the volume is given back."
	hasReturned     = "Each driver has returned before the pods end."
	networkIsThere  = "The looks begin once the network is ready."
	noTime          = "A look tells what the kubelet does, not how long it waits between two tries."
)

// KubeletMutants are edits to the kubelet's half: where a volume stands on its node, who
// has to act and what the kubelet does next.
func KubeletMutants() []Mutant { return kubeletMutants }

var kubeletMutants = []Mutant{
	{Folder: "diagnose/kubelet", File: "next.go", Name: "claim-reported", Branch: `processPodVolumes: a claim without a volume`,
		Old: `case stage == trace.StageClaimBound, stage == trace.StageInVolumesInUse`, New: `case stage == trace.StageInVolumesInUse`},
	{Folder: "diagnose/kubelet", File: "next.go", Name: "refused-reported", Branch: `processPodVolumes: a volume that it cannot take up`,
		Old: `(len(s.Stage.Said) > 0 || s.Stage.On == "nobody")`, New: `len(s.Stage.Said) > 99`},
	{Folder: "diagnose/kubelet", File: "next.go", Name: "block-is-files", Branch: `GenerateMapVolumeFunc: a Block volume is mapped`,
		Old: "\t\tif block {", New: "\t\tif block && false {"},
	{Folder: "diagnose/kubelet", File: "next.go", Name: "unmount-is-unstage", Branch: `reconcile: UnmountVolume before UnmountDevice`,
		Old: `return of(UnmountVolume, UnmapVolume)`, New: `return of(UnmountDevice, UnmapDevice)`},
	{Folder: "diagnose/kubelet", File: "next.go", Name: "unattached-mounts", Branch: `reconcile: waitForVolumeAttach before mountAttachedVolumes`,
		Old: `case !attached:`, New: `case !attached && false:`},
	{Folder: "diagnose/kubelet", File: "next.go", Name: "driver-called-always", Branch: `MountVolume: what fails before the driver is called`,
		Old: `if !strings.HasPrefix(v.Actor, "CSI driver ") {`, New: `if strings.HasPrefix(v.Actor, "-") {`},
	{Folder: "diagnose/kubelet", File: "next.go", Name: "staged-by-publish", Branch: `csiAttacher.MountDevice: NodeStageVolume`,
		Old: `trace.StageStaged: NodeStage, trace.StageMounted: NodePublish`, New: `trace.StageStaged: NodePublish, trace.StageMounted: NodeStage`},
	{Folder: "diagnose/kubelet", File: "next.go", Name: "unpublish-unstages", Branch: `csiMountMgr.TearDownAt: NodeUnpublishVolume`,
		Old: `trace.StageUnmounted: NodeUnpublish`, New: `trace.StageUnmounted: NodeUnstage`},
	{Folder: "diagnose/kubelet", File: "next.go", Name: "no-pause", Branch: `exponentialbackoff: maxDurationBeforeRetry`, Unseen: noTime,
		Old: `return reconcile.BackoffLast`, New: `return 0`},
	{Folder: "diagnose/kubelet", File: "kubelet.go", Name: "no-leftovers", Branch: `GetVolumesInUse: what nobody wants any more`,
		Old: `n.addLeftovers(view, node, named, unresolved)`, New: `_ = unresolved`},
	{Folder: "diagnose/kubelet", File: "kubelet.go", Name: "unused-has-row", Branch: `processPodVolumes: what no container mounts`,
		Old: "\t\t\tif !ok {\n", New: "\t\t\tif !ok && false {\n"},
	{Folder: "diagnose/kubelet", File: "kubelet.go", Name: "waiting-is-attached", Branch: "waitForVolumeAttach: the node's volumesAttached",
		Old: `s.State != trace.StageDone && s.State != trace.StageNotNeeded`, New: `s.State == trace.StageBlocked && s.Stage == ""`},
	{Folder: "diagnose/kubelet", File: "kubelet.go", Name: "leftover-of-nobody", Branch: `GetVolumesInUse: the driver of what nobody wants`,
		Old: `v.Driver, _, _ = reconcile.ParseCSI(volume)`, New: `_, _, _ = reconcile.ParseCSI(volume)`},
	{Folder: "diagnose/trace", File: "standing.go", Name: "unmounted-stands", Branch: `processPodVolumes: what no container mounts`,
		Old: `if !v.Referenced || t.Node == ""`, New: `if t.Node == ""`},
	{Folder: "diagnose/trace", File: "standing.go", Name: "silence-is-mounted", Branch: `MarkVolumeAsMounted: nothing is written about it`,
		Old: `s.Stage.State = StageUnknown`, New: `s.Stage.State = StageDone`},
	{Folder: "diagnose/trace", File: "standing.go", Name: "registered-later", Branch: `FindAttachablePluginBySpec: without the driver nothing is called`,
		Old: `case registered.State == StageWaiting || registered.State == StageBlocked:`, New: `case registered.State == StageDone && false:`},
	{Folder: "diagnose/trace", File: "standing.go", Name: "silence-is-staged", Branch: `MarkDeviceAsMounted: nothing is written about it`,
		Old: `s.Possible = []StageName{StageStaged, StageMounted}`, New: `s.Possible = []StageName{StageMounted}`},
	{Folder: "diagnose/trace", File: "untold.go", Name: "first-of-many", Branch: `WaitForAttachAndMount: all volumes side by side`,
		Old: `case told == "" && len(candidates) == 1:`, New: `case told == "" && len(candidates) > 0:`},
	{Folder: "diagnose/trace", File: "untold.go", Name: "local-takes-time", Branch: `mountAttachedVolumes: what the kubelet makes by itself`, Unseen: namesMore,
		Old: `if len(remote) > 0 {`, New: `if len(remote) > 99 {`},
	{Folder: "diagnose/trace", File: "untold.go", Name: "gone-driver-unmounts", Branch: `PluginManager: what a driver that goes leaves mounted`,
		Old: ` || v.Broken == StageRegistered && s.unsaid()`, New: ``},
	{Folder: "diagnose/trace", File: "untold.go", Name: "silence-is-publish", Branch: `MountDevice: no object shows that it has succeeded`,
		Old: `return []StageName{StageStaged, StageMounted}`, New: `return nil`},
	{Folder: "diagnose/trace", File: "untold.go", Name: "silence-is-unstage", Branch: `UnmountVolume: no object shows that it has succeeded`, Unseen: staysNot,
		Old: `return []StageName{StageUnmounted, StageUnstaged}`, New: `return nil`},
	{Folder: "diagnose/trace", File: "untold.go", Name: "wrong-mode-comes", Branch: `createVolumeSpec: volumeMode against volumeMounts`,
		Old: `s.Detail = facts.WrongMode(t.pod, v.Name, v.pv); s.Detail == ""`, New: `s.Detail = ""; s.Detail == ""`},
	{Folder: "diagnose/trace", File: "untold.go", Name: "old-words-hold", Branch: `MountVolume: words that are not repeated`,
		Old: `case state == StageBlocked && v.stage(v.Broken).old:`, New: `case state == StageDone && v.stage(v.Broken).old:`},
	{Folder: "diagnose/trace", File: "untold.go", Name: "affinity-ignored", Branch: `GenerateMountVolumeFunc: CheckNodeAffinity`,
		Old: "\tif terms == \"\" {", New: "\tif terms != \"-\" {"},
	{Folder: "diagnose/trace", File: "untold.go", Name: "inline-anyway", Branch: `csiPlugin: supportsVolumeLifecycleMode`, Unseen: takesInline,
		Old: "\tif v.source.CSI == nil {", New: "\tif v.source.CSI == nil || len(v.Driver) > 0 {"},
	{Folder: "diagnose/trace", File: "mount.go", Name: "register-known-by-object", Branch: `CSI plugin: its own list of drivers`, Unseen: unlisted,
		Old: "kubeletwords.DriverUnknown) {\n\t\t\ts.State", New: "kubeletwords.DriverUnknown+\" at all\") {\n\t\t\ts.State"},
	{Folder: "diagnose/trace", File: "mount.go", Name: "any-node-registers", Branch: `nodeinfomanager: the driver in the CSINode`,
		Old: `case facts.Registers(csiNode, v.Driver):`, New: `case csiNode != nil:`},
	{Folder: "diagnose/trace", File: "mount.go", Name: "publish-words-of-staging", Branch: `MountVolume.SetUp: after MountDevice`,
		Old: `if !last.Stages() {`, New: `if !last.Stages() && false {`},
	{Folder: "diagnose/trace", File: "mount.go", Name: "silence-is-staging", Branch: `MountDevice: a call that hangs says nothing`,
		Old: `if s.State != StageUnknown && !s.follows {`, New: `if s.State == StageDone && !s.follows {`},
	{Folder: "diagnose/trace", File: "mount.go", Name: "publish-by-kubelet", Branch: `csiMountMgr.SetUpAt: NodePublishVolume`,
		Old: "\tif v.Driver != \"\" {\n\t\ts.On = \"CSI driver \" + v.Driver + \" on \" + t.pod.Spec.NodeName\n\t}\n\tif t.pod", New: "\tif v.Driver == \"-\" {\n\t\ts.On = \"CSI driver \" + v.Driver + \" on \" + t.pod.Spec.NodeName\n\t}\n\tif t.pod"},
	{Folder: "diagnose/trace", File: "mount.go", Name: "driver-blamed", Branch: `MountVolume: what the kubelet misses before it calls the driver`,
		Old: `never := t.blame(&s, last, v)`, New: `never := false`},
	{Folder: "diagnose/trace", File: "mount.go", Name: "running-waits", Branch: `SyncPod: containers start after WaitForAttachAndMount`, Unseen: conditionSaysSo,
		Old: "\t\tif c.State.Running != nil {\n\t\t\treturn proof", New: "\t\tif c.State.Running != nil && len(statuses) > 99 {\n\t\t\treturn proof"},
	{Folder: "diagnose/trace", File: "blame.go", Name: "secret-by-driver", Branch: `getCredentialsFromSecret`,
		Old: "\tcase kind != \"\":", New: "\tcase kind == \"-\":"},
	{Folder: "diagnose/trace", File: "blame.go", Name: "kubelet-fails-by-driver", Branch: `MountVolume: an error that is not of gRPC`, Unseen: kubeletWorks,
		Old: `case v.Driver != "" && !driverAnswered`, New: `case v.Driver == "-" && !driverAnswered`},
	{Folder: "diagnose/trace", File: "attach.go", Name: "listed-by-object", Branch: `updateNodeStatus: volumesAttached`,
		Old: "\tif facts.Lists(t.node, v.Volume) {\n\t\treturn done", New: "\tif t.attachmentOf(v) != nil {\n\t\treturn done"},
	{Folder: "diagnose/trace", File: "attach.go", Name: "refused-by-controller", Branch: `external-attacher: attachError`,
		Old: `StageBlocked, "CSI driver "+va.Spec.Attacher, "the driver fails`, New: `StageBlocked, theController, "the driver fails`},
	{Folder: "diagnose/trace", File: "asked.go", Name: "in-use-early", Branch: `GetVolumesInUse: a volume is listed once it is taken up`, Unseen: listedByThen,
		Old: "\tif facts.InUse(t.node, v.Volume) {\n\t\treturn done", New: "\tif facts.InUse(t.node, v.Volume) || true {\n\t\treturn done"},
	{Folder: "diagnose/trace", File: "asked.go", Name: "not-taken-mounts", Branch: `WaitForAttachAndMount: failed to process volumes`, Unseen: showsElsewhere,
		Old: `if !ok || !t.about(w, v) ||`, New: `if ok || !ok ||`},
	{Folder: "diagnose/trace", File: "asked.go", Name: "all-not-taken", Branch: `WaitForAttachAndMount: it lists all of them`,
		Old: "\t\treturn true\n\t}\n\treturn slices.Contains(w.unprocessed, v.Name) &&", New: "\t\treturn true\n\t}\n\treturn slices.Contains(w.unprocessed, v.Name) || true &&"},
	{Folder: "diagnose/trace", File: "claim.go", Name: "claim-of-another", Branch: `getPVCExtractPV: claimRef.UID`,
		Old: `case pv.Spec.ClaimRef.UID != claim.UID:`, New: `case pv.Spec.ClaimRef.UID == "":`},
	{Folder: "diagnose/trace", File: "claim.go", Name: "ephemeral-of-another", Branch: `ephemeral.VolumeIsForPod`, Unseen: ownClaims,
		Old: `case v.source.Ephemeral != nil && !metav1.IsControlledBy(claim, t.pod):`, New: `case v.source.Ephemeral != nil && claim.UID == "":`},
	{Folder: "diagnose/trace", File: "claim.go", Name: "missing-claim-by-binder", Branch: `getPVCExtractPV: the claim does not exist`,
		Old: `s.On, s.Detail, s.Ends = "whoever is to create the claim", name`, New: `s.On, s.Detail, s.Ends = "the persistent volume controller", name`},
	{Folder: "diagnose/trace", File: "down.go", Name: "local-unmounts-late", Branch: `UnmountVolume: what the kubelet made by itself`,
		Old: `case slices.Contains(nodeLocal, v.Type):`, New: `case v.Type == "":`},
	{Folder: "diagnose/trace", File: "down.go", Name: "given-back-ignored", Branch: `GetVolumesInUse: what is given back is not listed`, Unseen: goesWithIt,
		Old: `case v.attachable && t.node != nil && !facts.InUse(t.node, v.Volume):`, New: `case v.attachable && t.node == nil && !facts.InUse(t.node, v.Volume):`},
	{Folder: "diagnose/trace", File: "down.go", Name: "gone-driver-called", Branch: `UnmountVolume: a driver that is not registered`, Unseen: hasReturned,
		Old: `if v.Driver != "" && t.knows(snapshot.CSINodes, "") && !facts`, New: `if v.Driver == "-" && t.knows(snapshot.CSINodes, "") && !facts`},
	{Folder: "diagnose/trace", File: "down.go", Name: "unstarted-never-mounted", Branch: `SyncTerminatedPod: mounted before a container ran`,
		Old: `case !t.everMounted() && !t.mayBeMounted(v):`, New: `case !t.everMounted():`},
	{Folder: "diagnose/trace", File: "down.go", Name: "unmount-by-kubelet", Branch: `csiMountMgr.TearDownAt: NodeUnpublishVolume`,
		Old: "it writes no event about that\"\n\tif v.Driver != \"\" {", New: "it writes no event about that\"\n\tif v.Driver == \"-\" {"},
	{Folder: "diagnose/trace", File: "verdict.go", Name: "any-wait-explains", Branch: `WaitForAttachAndMount: what is blocked explains more`, Unseen: severalWait,
		Old: `facts.BoolToInt(y.State == StageBlocked)-facts.BoolToInt(x.State == StageBlocked)`, New: `facts.BoolToInt(x.State == StageBlocked)-facts.BoolToInt(y.State == StageBlocked)`},
	{Folder: "diagnose/trace", File: "verdict.go", Name: "network-ignored", Branch: `syncPod: the network before the volumes`, Unseen: networkIsThere,
		Old: `for _, w := range otherWaits {`, New: `for _, w := range otherWaits[:0] {`},
	{Folder: "diagnose/trace", File: "verdict.go", Name: "one-of-them", Branch: `WaitForAttachAndMount: all volumes side by side`,
		Old: `case len(list) > 0 && len(open) > 1:`, New: `case len(list) > 99:`},
	{Folder: "diagnose/trace", File: "verdict.go", Name: "never-stuck", Branch: `what can never come`,
		Old: "\tif s.Overdue {\n\t\tv.State, v.DueAt", New: "\tif s.Overdue && s.Stage == \"\" {\n\t\tv.State, v.DueAt"},
}
