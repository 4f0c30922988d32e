package main

// What the controller shows in no row of its first pass, and unit tests hold.
const (
	lookup = "The controller has no such question: the diagnoses ask it, and no row of a pass reads the answer."
	after  = "It is about what comes after the first pass, which is all that is compared; e2e/timing holds it against a running controller."
)

// lookupMutants are about what the diagnoses ask of a world.
var lookupMutants = []Mutant{
	{Name: "attachment-of-any", Branch: "(the VolumeAttachment shown for a pair)", Unseen: lookup,
		Old: `if name := attachmentName(pair); name != "" {`, New: `if name := attachmentName(pair); name == "*" {`},
	{Name: "live-pods-all", Branch: "(pods that may have a volume mounted)", Unseen: lookup,
		Old: `if (!PodTerminated(pod) || w.keepsTerminated(pair.Node)) && w.reaches(pod, pair.Volume) {`, New: `if w.reaches(pod, pair.Volume) {`},
	{Name: "live-pods-wanted", Branch: "(claims that their volume does not point back to)", Unseen: lookup,
		Old: `return claim != nil && claim.Spec.VolumeName == pvName`, New: `return false && claim.Spec.VolumeName == pvName`},
}

// untilMutants are about how decisions end.
var untilMutants = []Mutant{
	{Name: "operation-takes-1m", Branch: "csiTimeout", Unseen: after, Old: `operationTakes = 2 * time.Minute`, New: `operationTakes = time.Minute`},
	{Name: "verify-after-2m", Branch: "--attach-detach-reconcile-sync-period", Unseen: after,
		Old: `verifySyncAfter = time.Minute`, New: `verifySyncAfter = 2 * time.Minute`},
	{Name: "verify-missing-only", Branch: "csiAttacher.VolumesAreAttached: status.attached", Unseen: after,
		Old: `return !va.Status.Attached`, New: `return false`},
	{Name: "failed-detach-leaves", Branch: "DetachVolume: a detach that fails", Unseen: after,
		Old: `(took == 0 || !p.Behaviours.Has(FailedDetachIsUncertain))`, New: `(took == 0)`},
	{Name: "update-unmounts", Branch: "nodeUpdate: an assumed mount ends with any update", Unseen: after,
		Old: `case d.Reason != AssumedMounted:`, New: `case d.Reason != "":`},
	{Name: "backoff-for-ever", Branch: "exponentialbackoff: maxDurationBeforeRetry", Unseen: after,
		Old: `backoffLast  = 2*time.Minute + 2*time.Second`, New: `backoffLast  = 4 * time.Minute`},
}
