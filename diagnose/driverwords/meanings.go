package driverwords

import (
	_ "embed" // for meanings.txt
	"strings"
)

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

// The meanings that code names. meanings.txt has all of them.
const (
	NodeUnknown        Meaning = "node-unknown"
	MachineGone        Meaning = "machine-gone"
	NodeGone           Meaning = "node-gone"
	AttachedElsewhere  Meaning = "attached-elsewhere"
	NotAttached        Meaning = "not-attached"
	BackendBusy        Meaning = "backend-busy"
	BackendStuck       Meaning = "backend-stuck"
	MachineBusy        Meaning = "machine-busy"
	VolumeNotFound     Meaning = "volume-not-found"
	ObjectNotFound     Meaning = "object-not-found"
	VolumeFailed       Meaning = "volume-failed"
	VolumeNotReady     Meaning = "volume-not-ready"
	AttachLimit        Meaning = "attach-limit"
	QuotaReached       Meaning = "quota-reached"
	PermissionDenied   Meaning = "permission-denied"
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
	BackedOff          Meaning = "backed-off"
	ObjectRejected     Meaning = "object-rejected"
	NameNotFound       Meaning = "name-not-found"
)

// About describes a meaning.
type About struct {
	// Says is the meaning as a sentence.
	Says string
	// Headline is it in short, with {by} for the speaker and {volume} for the volume's name.
	Headline string
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

//go:embed meanings.txt
var meaningsText string

var meanings = readMeanings()

func readMeanings() map[Meaning]About {
	all := map[Meaning]About{}
	var m Meaning
	for line := range strings.Lines(meaningsText) {
		line, indented := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "  ")
		key, value, _ := strings.Cut(line, " ")
		about := all[m]
		switch {
		case line == "" || key == "#":
			continue
		case !indented:
			m, about = Meaning(key), About{Says: value}
		case key == "headline":
			about.Headline = value
		case key == "actor":
			about.Actor = Actor(value)
		case key == "helps":
			about.Helps = value
		case key == "concerns":
			about.Concerns = Concern(value)
		default:
			panic("meanings.txt: no field " + key)
		}
		all[m] = about
	}
	return all
}
