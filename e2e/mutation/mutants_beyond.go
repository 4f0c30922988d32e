package main

// afterwards is what takes a running controller longer than the two passes that
// are compared.
const afterwards = "It is about minutes of a running controller, of which two passes are compared; e2e/timing holds it against one."

// lookupMutants are about what the diagnoses ask of a world.
var lookupMutants = []Mutant{
	{Name: "attachment-of-any", Branch: "(the VolumeAttachment shown for a pair)",
		Old: "if ok {\n\t\tfor _, va := range row.attachments", New: "if ok && false {\n\t\tfor _, va := range row.attachments"},
	{Name: "live-pods-all", Branch: "(pods that may have a volume mounted)",
		Old: `return PodTerminated(pod) && !keeps`, New: `return PodTerminated(pod) && !keeps && false`},
	{Name: "volumes-of-attachable", Branch: "(a migrated volume whose driver needs no attach)",
		Old: "if v.err == nil {\n\t\t\tw.volumes", New: "if _, err := w.VolumeName(pv); v.err == nil && err == nil {\n\t\t\tw.volumes"},
	{Name: "no-volumes", Branch: "(the PVs behind a name)",
		Old: `return pvs[0]`, New: `return nil`},
}

// resolvedMutants are about what is resolved once for all questions.
var resolvedMutants = []Mutant{
	{Name: "live-pods-wanted", Branch: "(claims that their volume does not point back to)",
		Old: `ClaimName(v.pod, v.volume))); claim != nil {`, New: `ClaimName(v.pod, v.volume))); claim != nil && false {`},
	{Name: "users-not-by-name", Branch: "(pods whose volume resolves)",
		Old: "if v.err == nil {\n\t\t\tuse(v.name)", New: "if v.err == nil {\n\t\t\tuse(v.name[:0])"},
	{Name: "pv-not-translated", Branch: "IsMigratable: a PV",
		Old: "s := &pv.Spec.PersistentVolumeSource\n\t\treturn s.AWSElasticBlockStore != nil ||", New: "s := &pv.Spec.PersistentVolumeSource\n\t\treturn"},
	{Name: "inline-not-translated", Branch: "IsInlineMigratable: an inline volume",
		Old: "s := &inline.VolumeSource\n\treturn s.AWSElasticBlockStore != nil ||", New: "s := &inline.VolumeSource\n\treturn"},
	{Name: "first-source-wins", Branch: "ProcessPodVolumes: a source that nothing attaches beside another",
		Old: `return s == corev1.VolumeSource{}`, New: `return true`,
		Unseen: "The API server refuses a volume with two sources, and takes one without for an emptyDir: of the sources that nothing attaches none has another beside it."},
}

// untilMutants are about how decisions end.
var untilMutants = []Mutant{
	{Name: "operation-takes-1m", Branch: "csiTimeout", Unseen: afterwards, Old: `CSITimeout = 2 * time.Minute`, New: `CSITimeout = time.Minute`},
	{Name: "verify-after-2m", Branch: "--attach-detach-reconcile-sync-period", Unseen: afterwards,
		Old: `VerifySyncPeriod = time.Minute`, New: `VerifySyncPeriod = 2 * time.Minute`},
	{Name: "verify-missing-only", Branch: "csiAttacher.VolumesAreAttached: status.attached", Unseen: afterwards,
		Old: `return !va.Status.Attached`, New: `return false`},
	{Name: "update-unmounts", Branch: "nodeUpdate: an assumed mount ends with any update",
		Old: `case d.Reason != AssumedMounted:`, New: `case d.Reason != "":`},
	{Name: "waited-not-at-all", Branch: "detachRequestedTime: counted before the snapshot", Unseen: afterwards,
		Old: `return min(p.options.MaxWaitForUnmount, max(0, p.snapshot.TakenAt.Sub(since)))`, New: `return 0 * since.Sub(since)`},
	{Name: "backoff-for-ever", Branch: "exponentialbackoff: maxDurationBeforeRetry", Unseen: afterwards,
		Old: `BackoffLast = 2*time.Minute + 2*time.Second`, New: `BackoffLast = 4 * time.Minute`},
}

// rivalMutants are about the nodes that have to wait for one another.
var rivalMutants = []Mutant{
	{Name: "failed-detach-leaves", Branch: "DetachVolume: a detach that fails", Releases: of1_26_9,
		Old: `len(nodes) > 0 && !p.Behaviours.Has(FailedDetachIsUncertain)`, New: `false`},
}
