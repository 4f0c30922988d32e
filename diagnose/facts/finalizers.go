package facts

// Finalizer describes a finalizer of a claim whose program is known.
type Finalizer struct {
	// Program takes it off, and For is what it keeps the claim for.
	Program, For string
	// Look is a look at what it waits for, and Kind the kind of these objects.
	Look, Kind string
}

// The finalizers of claims that say what they wait for: SnapshotSource while a VolumeSnapshot
// of the claim is not ready (external-snapshotter, pkg/common-controller), and CloneSource while
// a claim that is cloned from it has no volume (external-provisioner,
// pkg/controller/clone_controller.go).
const (
	SnapshotSource = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
	CloneSource    = "provisioner.storage.kubernetes.io/cloning-protection"
)

var knownFinalizers = map[string]Finalizer{
	SnapshotSource: {"snapshot controller", "a snapshot", "look for a VolumeSnapshot of the claim that is not ready (READYTOUSE), and at its error; once nobody needs that snapshot, delete the VolumeSnapshot", "volumesnapshot"},
	CloneSource:    {"driver's provisioner", "a clone", "look for a Pending claim that is to be cloned from this one (spec.dataSource), and at its events", "persistentvolumeclaim"},
}

// KnownFinalizer is what is known of the finalizer.
func KnownFinalizer(name string) (Finalizer, bool) {
	f, known := knownFinalizers[name]
	return f, known
}
