package main

// Why no history contradicts a mutant.
const (
	// saysLess: what is not said cannot be wrong.
	saysLess = "The model then says less, a later moment or none, and what it does not say cannot be contradicted."
	// notDrawn is about volumes that no history has.
	notDrawn = "Histories have volumes of one CSI driver that attaches, and the first pass over others is compared by conformance."
	// underWay is about an operation that has begun, or waits for its turn.
	underWay = "Histories do not compare by when an attach or a detach that has begun, or waits for its turn, is over: how often a running controller has tried already no object shows."
	// madeToGo is about a row that goes before it comes true.
	madeToGo = "Before it comes true the controller takes the volume off the list of its node. The objects are then others, the model is asked again, and the row is gone."
	// askedAgain is about a latest moment.
	askedAgain = "A latest moment lasts as long as the objects stay as they are. What would break this one changes them, and the model, asked again, has none."
	// backOffs are not compared.
	backOffs = "Histories do not compare when the model says that a failing operation is tried again: what they compare is the controller's own back-off with its log."
)

// StoryMutants are the edits to how decisions end, which histories judge.
func StoryMutants() []Mutant {
	var all []Mutant
	for _, list := range []struct {
		file    string
		mutants []Mutant
	}{{"until.go", endMutants}, {"rivals.go", rivalryMutants}} {
		for _, m := range list.mutants {
			m.File = list.file
			all = append(all, m)
		}
	}
	return all
}

var endMutants = []Mutant{
	{Name: "waited-ignored", Branch: "detachRequestedTime: a controller at work has counted already",
		Old: `after = max(0, u.After-d.Waited)`, New: `after = max(0, u.After)`},
	{Name: "fresh-ignored", Branch: "what a controller at work may not have heard of",
		Old: "if u.Fresh {\n\t\treturn after, 0", New: "if u.Fresh && false {\n\t\treturn after, 0"},
	{Name: "csi-takes-1m", Branch: "csiTimeout", Old: `CSITimeout = 2 * time.Minute`, New: `CSITimeout = time.Minute`},
	{Name: "csi-takes-4m", Branch: "csiTimeout", Old: `CSITimeout = 2 * time.Minute`, New: `CSITimeout = 4 * time.Minute`, Unseen: saysLess},
	{Name: "kubelet-reports-sooner", Branch: "nodeStatusReportFrequency and its jitter",
		Old: `NodeReportTakes = NodeStatusReport + NodeStatusReport/2 + NodeStatusUpdate`, New: `NodeReportTakes = NodeStatusReport / 2`},
	{Name: "verify-30s", Branch: "--attach-detach-reconcile-sync-period", Old: `VerifySyncPeriod = time.Minute`, New: `VerifySyncPeriod = time.Minute / 2`},
	{Name: "verify-2m", Branch: "--attach-detach-reconcile-sync-period", Old: `VerifySyncPeriod = time.Minute`, New: `VerifySyncPeriod = 2 * time.Minute`},
	{Name: "backoff-5s", Branch: "exponentialbackoff: initialDurationBeforeRetry", Unseen: backOffs,
		Old: `BackoffFirst = 500 * time.Millisecond`, New: `BackoffFirst = 5 * time.Second`},
	{Name: "no-backoff", Branch: "csiAttacher: an error that stays", Unseen: backOffs,
		Old: "if !fails {\n\t\treturn nil", New: "if !fails || fails {\n\t\treturn nil"},
	{Name: "ended-containers-ignored", Branch: "detachRequestedTime: not before the last container ended", Unseen: saysLess,
		Old: `if c.State.Terminated != nil {`, New: `if c.State.Terminated != nil && false {`},
	{Name: "lease-ignored", Branch: "detachRequestedTime: not before the controller started",
		Old: `lease != nil && lease.Spec.AcquireTime != nil {`, New: `lease != nil && lease.Spec.AcquireTime != nil && false {`, Unseen: saysLess},
	{Name: "never-waited", Branch: "detachRequestedTime: counted before the snapshot",
		Old: `return min(p.options.MaxWaitForUnmount, max(0, p.snapshot.TakenAt.Sub(since)))`, New: `return 0 * since.Sub(since)`},
	{Name: "blocked-attaches", Branch: "IsMultiAttachAllowed: asked once the operation is over",
		Old: `if n.exclusive() && len(p.confirmed(d.Node)) > 0 {`, New: `if n.exclusive() && len(p.confirmed(d.Node)) > 99 {`},
	{Name: "blocked-alone", Branch: "attachDesiredVolumes: map order among those that were blocked",
		Old: "} else {\n\t\t\trow.Contenders = p.waiting(n)\n\t\t}\n\t\treturn []Until{row}", New: "}\n\t\treturn []Until{row}", Unseen: madeToGo},
	{Name: "blocked-heard", Branch: "a detach that a controller at work does not begin",
		Old: `Then: Attach, Fresh: slices.ContainsFunc(d.Holders, p.unheard)}`, New: `Then: Attach}`},
	{Name: "undetachable-ends", Branch: "GenerateDetachVolumeFunc: no plugin", Unseen: notDrawn,
		Old: "if d.Reason != OperationPending {\n\t\t\treturn nil", New: "if d.Reason == \"\" {\n\t\t\treturn nil"},
	{Name: "multi-attach-alone", Branch: "attachDesiredVolumes: map order among those that wait",
		Old: "row.Contenders = p.waiting(n)\n\t\treturn []Until{row}\n\tcase Blocked", New: "return []Until{row}\n\tcase Blocked"},
	{Name: "no-unmount", Branch: "nodeUpdate: volumesInUse",
		Old: `rows = append(rows, Until{Event: Unmount, Then: next})`, New: `_ = next`, Unseen: "The unmount is an update of the node, which changes the objects: the model is asked again, and says Detach."},
	{Name: "update-known", Branch: "processVolumeAttachments: once in a process's life",
		Old: `Bound: p.lookedAt(n, NodeReportTakes), Then: next, Fresh: true}`, New: `Bound: p.lookedAt(n, NodeReportTakes), Then: next}`},
	{Name: "update-without-rivals", Branch: "IsOperationSafeToRetry: before SetDetachRequestTime",
		Old: `Bound: p.lookedAt(n, NodeReportTakes), Then: next, Fresh: true}`, New: `Bound: NodeReportTakes, Then: next, Fresh: true}`},
	{Name: "no-update", Branch: "nodeUpdate: an assumed mount ends", Old: `case node != nil && NodeReady(node):`, New: `case node != nil && NodeReady(node) && false:`, Unseen: saysLess},
	{Name: "time-out-when-ready", Branch: "reconcile: nodeIsHealthy", Old: `if p.timesOut(d.Node) {`, New: `if !p.options.DisableForceDetachOnTimeout {`},
	{Name: "time-out-switch-ignored", Branch: "reconcile: disableForceDetachOnTimeout", Old: `if p.timesOut(d.Node) {`, New: `if !NodeReady(node) {`},
	{Name: "no-time-out", Branch: "reconcile: maxWaitForUnmountDuration", Old: `if p.timesOut(d.Node) {`, New: `if p.timesOut(d.Node) && false {`},
	{Name: "time-out-late", Branch: "reconcile: maxWaitForUnmountDuration", Old: `After: wait, Bound: p.lookedAt(n, wait), Then: forced`, New: `After: 2 * wait, Bound: 2 * wait, Then: forced`},
	{Name: "time-out-without-rivals", Branch: "IsOperationSafeToRetry: before SetDetachRequestTime",
		Old: `After: wait, Bound: p.lookedAt(n, wait), Then: forced`, New: `After: wait, Bound: wait, Then: forced`},
	{Name: "time-out-known", Branch: "processVolumeAttachments: once in a process's life",
		Old: `Then: forced, Fresh: d.Reason == AssumedMounted}`, New: `Then: forced}`},
	{Name: "time-out-alone", Branch: "nestedPendingOperations: one of several time-outs", Old: `row.Contenders = p.timingOut(n)`, New: `row.Contenders = nil`, Unseen: saysLess},
	{Name: "verify-known", Branch: "what a controller at work verifies", Old: `Bound: bound, Fresh: true}`, New: `Bound: bound}`},
	{Name: "verify-after-nothing", Branch: "reconciliationLoopFunc: time.Since(rc.timeOfLastSync)", Old: `After: p.options.VerifySync, Bound: bound`, New: `After: 0, Bound: bound`, Unseen: saysLess},
	{Name: "forgotten-attaches", Branch: "IsMultiAttachAllowed: after the sync", Old: `if n.exclusive() && slices.ContainsFunc(p.confirmed(n.Node), stays) {`, New: `if n.exclusive() && slices.ContainsFunc(p.confirmed(n.Node), stays) && false {`, Unseen: madeToGo},
	{Name: "all-holders-stay", Branch: "VerifyVolumesAreAttached: of all nodes at once", Old: `return p.verified(p.on(node)) == 0 }`, New: `return p.verified(p.on(node)) >= 0 }`},
	{Name: "uncertain-verified", Branch: "GetAttachedVolumesPerNode: confirmed ones", Old: `n.actual.State != Attached || period < 0`, New: `period < 0`},
	{Name: "spec-from-elsewhere-ignored", Branch: "AddVolumeNode: the spec that all nodes share",
		Old: `if other.decision.Verb == Attach && p.unverifiable(n, other.desired.Spec) {`, New: `if other.decision.Verb == Attach && p.unverifiable(n, other.desired.Spec) && false {`, Unseen: madeToGo},
	{Name: "spec-from-elsewhere-early", Branch: "AddVolumeNode: once the attach has ended", Old: `return (CSITimeout/period + 1) * period`, New: `return period`, Unseen: madeToGo},
	{Name: "false-is-attached", Branch: "csiAttacher.VolumesAreAttached: status.attached", Old: `return !va.Status.Attached`, New: `return false`},
	{Name: "missing-is-attached", Branch: "csiAttacher.VolumesAreAttached: not found",
		Old: `return p.snapshot.Complete(snapshot.VolumeAttachments) && p.snapshot.Complete(snapshot.CSIDrivers)`, New: `return p.snapshot.Complete(snapshot.CSIDrivers) && false`},
	{Name: "unattachable-verified", Branch: "csiAttacher.VolumesAreAttached: attachRequired", Unseen: notDrawn,
		Old: `if !ok || !p.plugins.attachRequired(driver) {`, New: `if !ok {`},
	{Name: "detaching-holds", Branch: "GetNodesForAttachedVolume: after the detaches", Old: `return node == but || verb == Detach || verb == ForceDetach`, New: `return node == but && verb != ""`},
	{Name: "last-holder-counts", Branch: "GetNodesForAttachedVolume: all of them", Old: `latest, all.Fresh = max(latest, first.Bound), all.Fresh || first.Fresh`, New: `latest, all.Fresh = first.Bound, all.Fresh || first.Fresh`},
	{Name: "holders-known", Branch: "what a controller at work may not have heard of", Old: `latest, all.Fresh = max(latest, first.Bound), all.Fresh || first.Fresh`, New: `latest, all.Fresh = max(latest, first.Bound), all.Fresh`},
	{Name: "holders-leave-instantly", Branch: "csiTimeout: the detach of a holder", Old: `all.Bound = latest + took`, New: `all.Bound = latest`, Unseen: madeToGo},
	{Name: "holders-always-leave", Branch: "a holder that may stay", Old: "if first.Bound == 0 {\n\t\t\treturn all\n", New: "if first.Bound == 0 {\n\t\t\tcontinue\n", Unseen: askedAgain},
	{Name: "forgotten-takes-time", Branch: "MarkVolumeAsDetached: no operation", Unseen: saysLess, Old: `if first.Event != VerifySync {`, New: `if first.Event != "" {`},
	{Name: "taking-turns", Branch: "nestedPendingOperations: a detach that fails may come first again", Old: `if len(detached) > 0 && took == 0 {`, New: `if len(detached) > 0 && took == 0 && false {`, Unseen: askedAgain},
	{Name: "any-holder-leaves", Branch: "a holder that cannot be detached", Unseen: notDrawn, Old: `if holder.decision.Verb != Wait && holder.decision.Verb != Keep {`, New: `if holder.decision.Verb == "" {`},
	{Name: "last-way-counts", Branch: "the first way in which a holder leaves", Unseen: saysLess, Old: `first.Bound == 0 || row.Bound < first.Bound`, New: `first.Bound == 0 || row.Bound > first.Bound`},
	{Name: "served-for-good", Branch: "nestedPendingOperations: whoever is not served", Old: `if len(d.Contenders) < 2 {`, New: `if len(d.Contenders) < 99 {`, Unseen: underWay},
	{Name: "turns-have-an-end", Branch: "nestedPendingOperations: a detach that fails may come first again", Old: `row.Bound = 0 // one that fails`, New: `row.Bound += 0 // one that fails`, Unseen: underWay},
	{Name: "served-beside", Branch: "IsMultiAttachAllowed: one attach of a volume for one node", Old: "case n.exclusive():\n\t\trow.Then = MultiAttach", New: "case false:\n\t\trow.Then = MultiAttach", Unseen: underWay},
	{Name: "failing-detach-looks", Branch: "reconcile: verifySafeToDetach is false after the time-out", Old: `if n.decision.Verb != Detach || p.options.DisableForceDetachOnTimeout || !p.mayFail(n) {`, New: `if n.decision.Verb != "" {`, Unseen: underWay},
}

var rivalryMutants = []Mutant{
	{Name: "no-failing-rivals", Branch: "IsOperationSafeToRetry: another node's detach that fails", Old: `case other.desired == nil && p.mayDetach(other) && p.mayFail(other):`, New: `case other.desired == nil && p.mayDetach(other) && p.mayFail(other) && false:`},
	{Name: "no-attaching-rivals", Branch: "IsOperationSafeToRetry: another node's attach", Old: `case other.desired != nil && p.mayAttach(other, n):`, New: `case other.desired != nil && p.mayAttach(other, n) && false:`},
	{Name: "rivals-take-no-time", Branch: "IsOperationSafeToRetry: while the attach runs", Old: `return wait + takes`, New: `return wait`},
	{Name: "rivals-of-shared", Branch: "nestedPendingOperations: a volume for many nodes", Unseen: saysLess, Old: `case other == n || n.spec().MultiAttach() && other.spec().MultiAttach():`, New: `case other == n:`},
	{Name: "waiting-rivals-stay", Branch: "a wait that ends in a detach", Old: "default:\n\t\treturn d.Reason == AssumedMounted && p.snapshot.Node(d.Node) != nil || d.After > 0", New: "default:\n\t\treturn false"},
	{Name: "assumed-rivals-stay", Branch: "a wait that ends with an update", Old: `return d.Reason == AssumedMounted && p.snapshot.Node(d.Node) != nil || d.After > 0`, New: `return d.After > 0`},
	{Name: "waiting-attaches-never", Branch: "an attach that waits for another node", Old: `return !slices.Contains(d.Holders, other.Node)`, New: `return false`, Unseen: askedAgain},
	{Name: "kept-attaches-never", Branch: "an attachment that is forgotten is attached again", Old: `return p.verified(n) > 0 && !holds`, New: `return p.verified(n) > 99*CSITimeout && !holds`},
	{Name: "detaches-work", Branch: "DetachVolume: it may fail", Old: `return name == "" || p.snapshot.VolumeAttachment(name) != nil || !p.snapshot.Complete(snapshot.VolumeAttachments)`, New: `return name == "" && p.snapshot.Complete(snapshot.VolumeAttachments)`},
	{Name: "detaches-of-nothing-fail", Branch: "csiAttacher.Detach: not found is done", Unseen: saysLess, Old: `return name == "" || p.snapshot.VolumeAttachment(name) != nil || !p.snapshot.Complete(snapshot.VolumeAttachments)`, New: `return name != "-" || p.snapshot.Complete(snapshot.VolumeAttachments)`},
	{Name: "others-do-not-wait", Branch: "attachDesiredVolumes: map order", Old: `case other.decision.Verb == MultiAttach:`, New: `case other.decision.Verb == MultiAttach && false:`},
	{Name: "blocked-do-not-wait", Branch: "attachDesiredVolumes: map order", Old: `case other.decision.Verb == Blocked && other.decision.Reason == OperationPending:`, New: `case other.decision.Verb == Blocked && other.decision.Reason == "":`, Unseen: madeToGo},
	{Name: "kept-do-not-wait", Branch: "attachDesiredVolumes: map order among those forgotten", Old: `case other.decision.Verb == Keep && p.verified(other) > 0:`, New: `case other.decision.Verb == Keep && p.verified(other) > 99*CSITimeout:`},
	{Name: "verified-time-out", Branch: "VerifyVolumesAreAttached: before the time-out", Unseen: saysLess, Old: `d.Verb == Wait && d.After > 0 && p.verified(&p.nodes[i]) == 0 {`, New: `d.Verb == Wait && d.After > 0 {`},
	{Name: "one-operation", Branch: "nestedPendingOperations: one after the other", Old: `return time.Duration(n) * CSITimeout`, New: `return min(1, time.Duration(n)) * CSITimeout`, Unseen: "Of two detaches that take turns either may fail, which leaves no bound; those that cannot fail take no time."},
	{Name: "old-detaches-leave", Branch: "DetachVolume: up to 1.28 one that fails stays attached", Old: `case len(nodes) > 0 && !p.Behaviours.Has(FailedDetachIsUncertain):`, New: `case len(nodes) > 0 && !p.Behaviours.Has(FailedDetachIsUncertain) && false:`, Unseen: madeToGo},
	{Name: "failing-takes-turns", Branch: "nestedPendingOperations: a detach that fails may come first again", Old: `case len(nodes) > 1 && slices.ContainsFunc(nodes, fail) && !p.on(nodes[0]).spec().MultiAttach():`, New: `case len(nodes) > 99 && slices.ContainsFunc(nodes, fail):`},
}
