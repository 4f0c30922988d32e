package facts

// Finalizer describes a finalizer of a claim whose program is known.
type Finalizer struct {
	// Program removes it, and For is what the claim is kept for.
	Program, For string
	// Look is the advice to look at the objects that it waits for, and Kind their kind.
	Look, Kind string
}

// The finalizers of claims that show what they wait for. snapshotSource waits for a
// VolumeSnapshot of the claim (external-snapshotter, pkg/common-controller), and cloneSource for
// the volume of a claim that is cloned from it (external-provisioner,
// pkg/controller/clone_controller.go).
const (
	snapshotSource = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
	cloneSource    = "provisioner.storage.kubernetes.io/cloning-protection"
)

var knownFinalizers = map[string]Finalizer{
	snapshotSource: {"snapshot controller", "a snapshot", "look for a VolumeSnapshot of the claim that is not ready (READYTOUSE), and at its error; once nobody needs that snapshot, {final} delete the VolumeSnapshot", "volumesnapshot"},
	cloneSource:    {"driver's provisioner", "a clone", "look for a Pending claim that is to be cloned from this one (spec.dataSource), and at its events", "persistentvolumeclaim"},
}

// KnownFinalizer describes the finalizer; false where its program is not known.
func KnownFinalizer(name string) (Finalizer, bool) {
	f, known := knownFinalizers[name]
	return f, known
}
