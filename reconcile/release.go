package reconcile

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
)

// Behaviour names something that the controller does in some releases and not
// in others.
type Behaviour string

// The behaviours that make a difference to the worlds or to the first pass, or
// to what a message means. Each holds for the releases that the table below
// gives it.
const (
	// ForceDetachSwitch: --disable-force-detach-on-timeout exists.
	ForceDetachSwitch Behaviour = "ForceDetachSwitch"
	// KeepsTerminatedPodVolumes: a pod that has ended goes on wanting its volumes
	// where the node's annotation says so.
	KeepsTerminatedPodVolumes Behaviour = "KeepsTerminatedPodVolumes"
	// MigrationAsksNode: a pod's in-tree volume is translated to CSI only where the node's
	// CSINode names its plugin as migrated. The volume of a VolumeAttachment is translated
	// all the same.
	MigrationAsksNode Behaviour = "MigrationAsksNode"
	// PortworxMigrates: Portworx volumes are translated to CSI.
	PortworxMigrates Behaviour = "PortworxMigrates"
	// PortworxAsksNode is MigrationAsksNode for Portworx, whose gates outlived
	// the others'.
	PortworxAsksNode Behaviour = "PortworxAsksNode"
	// The in-tree plugins that are registered beside CSI, FC and iSCSI, and take
	// the volumes that were not translated.
	InTreeAWSEBS    Behaviour = "InTreeAWSEBS"
	InTreeAzureDisk Behaviour = "InTreeAzureDisk"
	InTreeGCEPD     Behaviour = "InTreeGCEPD"
	InTreeVSphere   Behaviour = "InTreeVSphere"
	InTreeRBD       Behaviour = "InTreeRBD"
	// FailedDetachIsUncertain: a detach that fails leaves the attachment
	// Uncertain; before, it stayed Attached and was reported again. A controller
	// that has just started has no failed detach behind it.
	FailedDetachIsUncertain Behaviour = "FailedDetachIsUncertain"
	// OutOfServiceDetaches: the out-of-service taint makes the controller detach without
	// waiting for an unmount.
	OutOfServiceDetaches Behaviour = "OutOfServiceDetaches"
	// AzureFileMigrates and VSphereMigrates: these volumes are translated to CSI.
	AzureFileMigrates Behaviour = "AzureFileMigrates"
	VSphereMigrates   Behaviour = "VSphereMigrates"
	// WaitingForDetach: the multi-attach event begins with the words "Waiting for detach"; in
	// earlier releases it begins with "Multi-Attach error".
	WaitingForDetach Behaviour = "WaitingForDetach"
)

// The behaviours that no release has yet.
const (
	// MountsNotAssumed: an attachment that the controller knows only from its
	// VolumeAttachment counts as mounted only where volumesInUse lists it
	// (AddVolumeNode).
	MountsNotAssumed Behaviour = "MountsNotAssumed"
	// TimeoutReadsNode: before the time-out takes a mounted volume off a node that is
	// not Ready, the API server is asked for the Node, and one that is Ready is left alone.
	TimeoutReadsNode Behaviour = "TimeoutReadsNode"
	// TaintReadsNode: before the out-of-service taint spares a detach its last look at the
	// node, the API server is asked whether the Node still has the taint.
	TaintReadsNode Behaviour = "TaintReadsNode"
)

// behaviours has a row for each behaviour. It holds in the releases from since on, up to but
// not including until; "" is no bound. picked are the patch releases of older minors that
// have it too. source is where upstream decided it: a pull request, or the folder that went.
// about says in words what holds. ahead marks a behaviour that no release has yet. Where the
// controller sets gate otherwise than its release does, the gate decides, before gateUntil,
// the release that locked or dropped the gate.
//
// The table leaves out what changed before OldestModelled. It also leaves out what a first
// pass does not show: up to 1.29 populateActualStateOfWorld skips the nodes with nothing
// attached (121576), which the controller then learns from their first event, and up to 1.30
// volumesInUse is kept for each volume instead of each node (122411).
var behaviours = []struct {
	name         Behaviour
	since, until string
	picked       []string
	source       string
	about        string
	ahead        bool

	gate, gateUntil string
}{
	{name: ForceDetachSwitch, since: "1.30.0", source: "#120344",
		about: "--disable-force-detach-on-timeout exists, and with it nothing is detached by force"},
	{name: KeepsTerminatedPodVolumes, until: "1.31.0", source: "#122082",
		about: "a pod that has ended keeps its volumes attached where the node asks for it (keep-terminated-pod-volumes)"},
	{name: MigrationAsksNode, until: "1.31.0", source: "IsMigrationCompleteForPlugin",
		about: "an in-tree volume of a pod is attached by its CSI driver only where the node's CSINode says that the plugin has moved"},
	{name: PortworxMigrates, since: "1.31.0", source: "feature gate CSIMigrationPortworx",
		about: "Portworx volumes are attached by their CSI driver", gate: "CSIMigrationPortworx", gateUntil: "1.33.0"},
	{name: PortworxAsksNode, since: "1.31.0", until: "1.36.0", source: "feature gate InTreePluginPortworxUnregister",
		about: "a Portworx volume is attached by its CSI driver only where the node's CSINode says so"},
	{name: InTreeAWSEBS, until: "1.27.0", source: "pkg/volume/awsebs",
		about: "the in-tree plugin of AWS EBS is there"},
	{name: InTreeAzureDisk, until: "1.27.0", source: "pkg/volume/azuredd",
		about: "the in-tree plugin of Azure disk is there"},
	{name: InTreeGCEPD, until: "1.28.0", source: "pkg/volume/gcepd",
		about: "the in-tree plugin of GCE PD is there"},
	{name: InTreeVSphere, until: "1.30.0", source: "pkg/volume/vsphere_volume",
		about: "the in-tree plugin of vSphere is there"},
	{name: InTreeRBD, until: "1.31.0", source: "pkg/volume/rbd",
		about: "the in-tree plugin of Ceph RBD is there"},
	{name: FailedDetachIsUncertain, since: "1.29.0", picked: []string{"1.28.3", "1.27.7", "1.26.10"}, source: "#120595",
		about: "a volume whose detach has failed is not listed in volumesAttached again"},
	{name: WaitingForDetach, since: "1.37.0", source: "#138837",
		about: "the event of a volume that another node holds begins with \"Waiting for detach\", no longer with \"Multi-Attach error\""},
	{name: OutOfServiceDetaches, source: "#108486", gate: "NodeOutOfServiceVolumeDetach", gateUntil: "1.28.0",
		about: "the out-of-service taint makes the controller detach immediately"},
	{name: AzureFileMigrates, source: "feature gate CSIMigrationAzureFile", gate: "CSIMigrationAzureFile", gateUntil: "1.28.0",
		about: "Azure file volumes are attached by their CSI driver"},
	{name: VSphereMigrates, source: "feature gate CSIMigrationvSphere", gate: "CSIMigrationvSphere", gateUntil: "1.28.0",
		about: "vSphere volumes are attached by their CSI driver"},
	{name: MountsNotAssumed, ahead: true, source: "#141385",
		about: "an attachment that only its VolumeAttachment shows is detached immediately, unless its node lists it in volumesInUse"},
	{name: TimeoutReadsNode, ahead: true, source: "#139426",
		about: "no volume is detached by the time-out from a node that is Ready by now, although the controller has not heard of that"},
	{name: TaintReadsNode, ahead: true, source: "#141888",
		about: "no volume is detached unseen from a node that has lost its out-of-service taint, although the controller has not heard of that"},
}

// OldestModelled is the first minor release whose behaviours the table knows. The model takes
// an older controller for one of this release, though it decides differently in places.
const OldestModelled = "1.26"

// NewestModelled is the last minor release against which the model was checked.
const NewestModelled = "1.37"

// Behaviours are the behaviours of one release.
type Behaviours sets.Set[Behaviour]

// Has reports whether the behaviour is among them.
func (b Behaviours) Has(name Behaviour) bool { return sets.Set[Behaviour](b).Has(name) }

// BehavioursOf chooses the behaviours of a release, given as an API server
// reports it ("v1.28.15-eks-1"). A text that is no version has the behaviours of
// the newest release.
func BehavioursOf(release string) Behaviours {
	b := Behaviours{}
	v, err := version.ParseGeneric(release)
	for _, row := range behaviours {
		holds := err != nil && row.until == ""
		if err == nil {
			holds = (row.since == "" || v.AtLeast(version.MustParseGeneric(row.since))) &&
				(row.until == "" || v.LessThan(version.MustParseGeneric(row.until)))
			for _, patch := range row.picked {
				p := version.MustParseGeneric(patch)
				holds = holds || v.Major() == p.Major() && v.Minor() == p.Minor() && v.AtLeast(p)
			}
		}
		if holds && !row.ahead {
			b[row.name] = sets.Empty{}
		}
	}
	return b
}

// Ahead are the behaviours that no release has yet, in the order of the table.
func Ahead() []Change {
	var changes []Change
	for _, row := range behaviours {
		if row.ahead {
			changes = append(changes, Change{row.name, true, row.about, row.source})
		}
	}
	return changes
}

// Change is a behaviour that one of two releases has and the other has not.
type Change struct {
	Behaviour Behaviour `json:"behaviour"`
	// Comes reports whether the later of the two releases has it.
	Comes  bool   `json:"comes"`
	About  string `json:"about"`
	Source string `json:"source"`
}

// Changes are the behaviours by which two releases differ, in the order of the table.
func Changes(from, to string) []Change {
	before, after := BehavioursOf(from), BehavioursOf(to)
	changes := []Change{}
	for _, row := range behaviours {
		if before.Has(row.name) != after.Has(row.name) {
			changes = append(changes, Change{row.name, after.Has(row.name), row.about, row.source})
		}
	}
	return changes
}

// FixedAfter is the next release with a fix, or "" where the release has the fix, is older
// than since, or is no version. fixed has the first good release of each minor that got the
// fix, oldest first; in the last of them the fix was made.
func FixedAfter(release, since string, fixed []string) string {
	v, err := version.ParseGeneric(release)
	if err != nil || since != "" && v.LessThan(version.MustParseGeneric(since)) {
		return ""
	}
	for i, f := range fixed {
		first := version.MustParseGeneric(f)
		switch {
		case v.LessThan(first):
			return f
		case i == len(fixed)-1, v.Major() == first.Major() && v.Minor() == first.Minor():
			return ""
		}
	}
	return ""
}

// IsRelease reports whether the text is a release, as v1.28.15-eks-1 is.
func IsRelease(text string) bool {
	_, err := version.ParseGeneric(text)
	return err == nil
}

// TooOld reports whether a release is older than those that the table knows.
func TooOld(release string) bool {
	v, err := version.ParseGeneric(release)
	return err == nil && v.LessThan(version.MustParseGeneric(OldestModelled))
}

// TooNew reports whether a release is newer than NewestModelled.
func TooNew(release string) bool {
	v, err := version.ParseGeneric(release)
	newest := version.MustParseGeneric(NewestModelled)
	return err == nil && (v.Major() > newest.Major() || v.Major() == newest.Major() && v.Minor() > newest.Minor())
}

// MultiAttachMessage is the start of the event that a pod gets while another node holds its
// volume.
func (b Behaviours) MultiAttachMessage() string {
	if b.Has(WaitingForDetach) {
		return "Waiting for detach"
	}
	return "Multi-Attach error"
}

// migrates reports whether volumes of an in-tree plugin that moved to CSI are translated, and
// asksNode whether that depends on the pod's node.
func (b Behaviours) migrates(plugin string) bool {
	switch plugin {
	case PortworxPlugin:
		return b.Has(PortworxMigrates)
	case AzureFilePlugin:
		return b.Has(AzureFileMigrates)
	case VSpherePlugin:
		return b.Has(VSphereMigrates)
	default:
		return true
	}
}

func (b Behaviours) asksNode(plugin string) bool {
	return (b.Has(MigrationAsksNode) || plugin == PortworxPlugin && b.Has(PortworxAsksNode)) && !b.Has(unregistered(plugin))
}

// registers reports whether the controller registers the in-tree plugin of this name.
func (b Behaviours) registers(plugin string) bool {
	for _, p := range inTreePlugins {
		if p.name == plugin {
			return b.Has(p.behaviour) && !b.Has(unregistered(plugin))
		}
	}
	return false
}

// migratedPlugins are the in-tree plugins that are migrated on a node, as the annotation of
// its CSINode lists them.
func migratedPlugins(annotation string) sets.Set[string] {
	return sets.New(strings.Split(annotation, ",")...)
}
