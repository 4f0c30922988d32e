package reconcile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plugins stands for the controller's VolumePluginMgr.
type plugins struct {
	csiDriver  func(name string) *storagev1.CSIDriver
	flex       []string
	behaviours Behaviours
}

// bySpec mirrors FindPluginBySpec: "" where no plugin or more than one takes
// the source.
func (p *plugins) bySpec(spec *VolumeSpec) (string, error) {
	var matches []string
	add := func(matched bool, name string) {
		if matched {
			matches = append(matches, name)
		}
	}
	var flexDriver string
	if spec.PV != nil {
		src := spec.PV.Spec.PersistentVolumeSource
		add(src.CSI != nil, CSIPlugin)
		add(src.FC != nil, FCPlugin)
		add(src.ISCSI != nil, ISCSIPlugin)
		if src.FlexVolume != nil {
			flexDriver = src.FlexVolume.Driver
		}
	} else {
		src := spec.Inline.VolumeSource
		add(src.CSI != nil, CSIPlugin)
		add(src.FC != nil, FCPlugin)
		add(src.ISCSI != nil, ISCSIPlugin)
		if src.FlexVolume != nil {
			flexDriver = src.FlexVolume.Driver
		}
	}
	inTree, _ := spec.inTree()
	add(p.behaviours.registers(inTree), inTree)
	add(flexDriver != "" && slices.Contains(p.flex, flexDriver), flexDriver)
	switch len(matches) {
	case 0:
		if flexDriver != "" {
			return "", skipf(NotAttachable, "flexvolume driver %q is not known to the controller", flexDriver)
		}
		return "", skipf(NotAttachable, "no attachable volume plugin takes this source")
	case 1:
		return matches[0], nil
	default:
		return "", skipf(AmbiguousPlugin, "several volume plugins take this source: %s", strings.Join(matches, ", "))
	}
}

// attachable mirrors FindAttachablePluginBySpec: bySpec, then the plugin's CanAttach.
func (p *plugins) attachable(spec *VolumeSpec) (string, error) {
	name, err := p.bySpec(spec)
	if err != nil {
		return "", err
	}
	if name != CSIPlugin {
		return name, nil
	}
	driver, _, ok := spec.CSI()
	if !ok {
		return "", skipf(NotAttachable, "an inline CSI volume is never attached")
	}
	if !p.attachRequired(driver) {
		return "", skipf(NotAttachable, "CSIDriver %q has attachRequired: false", driver)
	}
	return name, nil
}

// attachRequired mirrors csiPlugin.skipAttach: a driver without a CSIDriver
// object has its volumes attached.
func (p *plugins) attachRequired(driver string) bool {
	d := p.csiDriver(driver)
	return d == nil || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
}

// detachable reports whether a detach can be started, with the reason where it cannot. It
// mirrors the first half of GenerateDetachVolumeFunc. A volume with a spec is in the actual
// state of the world because its plugin took it, so only names can be wrong.
func (p *plugins) detachable(name corev1.UniqueVolumeName, spec *VolumeSpec) (Reason, bool) {
	if spec != nil {
		return "", true
	}
	plugin, _, ok := splitUniqueName(name)
	if !ok {
		return InvalidVolumeName, false
	}
	if plugin != CSIPlugin && plugin != FCPlugin && plugin != ISCSIPlugin && !slices.Contains(p.flex, plugin) && !p.behaviours.registers(plugin) {
		return NoPlugin, false
	}
	return "", true
}

// uniqueName mirrors GetUniqueVolumeNameFromSpec.
func uniqueName(plugin string, spec *VolumeSpec) (corev1.UniqueVolumeName, error) {
	var name string
	switch plugin {
	case CSIPlugin:
		driver, handle, _ := spec.CSI()
		return CSIVolumeName(driver, handle), nil
	case FCPlugin:
		src := fcSource(spec)
		// The order and the bracketed lists are FCPlugin.GetVolumeName's.
		switch {
		case len(src.TargetWWNs) != 0 && src.Lun != nil:
			name = fmt.Sprintf("%v:%d", src.TargetWWNs, *src.Lun)
		case len(src.WWIDs) != 0:
			name = fmt.Sprintf("%v", src.WWIDs)
		}
	case ISCSIPlugin:
		name = iscsiName(spec)
	case AWSEBSPlugin, AzureDiskPlugin, GCEPDPlugin, VSpherePlugin, RBDPlugin:
		_, name = spec.inTree()
	default:
		// A flexvolume's plugin is its driver; see pluginDefaults.GetVolumeName.
		if spec.PV != nil {
			name = spec.PV.Name
		} else {
			name = spec.Inline.Name
		}
	}
	if name == "" {
		return "", skipf(NoVolumeName, "the source does not say which device it means")
	}
	return corev1.UniqueVolumeName(plugin + "/" + name), nil
}

func fcSource(spec *VolumeSpec) *corev1.FCVolumeSource {
	if spec.PV != nil {
		return spec.PV.Spec.FC
	}
	return spec.Inline.FC
}

func iscsiName(spec *VolumeSpec) string {
	if spec.PV != nil {
		src := spec.PV.Spec.ISCSI
		return fmt.Sprintf("%s:%s:%d", src.TargetPortal, src.IQN, src.Lun)
	}
	src := spec.Inline.ISCSI
	return fmt.Sprintf("%s:%s:%d", src.TargetPortal, src.IQN, src.Lun)
}

// splitUniqueName mirrors SplitUniqueName: plugin names have exactly one slash.
func splitUniqueName(name corev1.UniqueVolumeName) (plugin, volume string, ok bool) {
	vendor, rest, _ := strings.Cut(string(name), "/")
	kind, volume, ok := strings.Cut(rest, "/")
	if !ok {
		return "", "", false
	}
	return string(name)[:len(vendor)+1+len(kind)], volume, true
}

// ParseCSI splits the unique name of a CSI volume as csiAttacher.Detach does. It fails on a
// handle that contains "^"; such a volume can never be detached.
func ParseCSI(name corev1.UniqueVolumeName) (driver, handle string, ok bool) {
	plugin, volume, ok := splitUniqueName(name)
	if !ok || plugin != CSIPlugin {
		return "", "", false
	}
	driver, handle, ok = strings.Cut(volume, "^")
	if !ok || strings.Contains(handle, "^") {
		return "", "", false
	}
	return driver, handle, true
}

// DriverOfPlugin returns the CSI driver of a plugin, given as the metrics name it
// (GetFullQualifiedPluginNameForVolume, pkg/volume/util/metrics.go).
func DriverOfPlugin(plugin string) (driver string, ok bool) {
	return strings.CutPrefix(plugin, CSIPlugin+":")
}

// VolumeAttachmentName is the only name under which the controller makes and
// deletes the VolumeAttachment of a volume on a node (getAttachmentName).
func VolumeAttachmentName(handle, driver string, node types.NodeName) string {
	name := SumOf(handle, driver, node).name()
	return string(name[:])
}

// IsVolumeAttachmentName reports whether the name is the VolumeAttachmentName of these. It
// allocates nothing, because some callers ask about one volume and many names.
func IsVolumeAttachmentName(name, handle, driver string, node types.NodeName) bool {
	if len(name) != attachmentNameLength || name[:len(attachmentPrefix)] != attachmentPrefix {
		return false
	}
	computed := SumOf(handle, driver, node).name()
	return name == string(computed[:])
}

const (
	attachmentPrefix     = "csi-"
	attachmentNameLength = len(attachmentPrefix) + 2*sha256.Size
)

// Sum is the hash in a VolumeAttachmentName. Sums are compared in less time than names.
type Sum [sha256.Size]byte

// SumOf returns the Sum of the volume on the node.
func SumOf(handle, driver string, node types.NodeName) Sum {
	text := make([]byte, 0, 256) // stays on the stack
	return sha256.Sum256(append(append(append(text, handle...), driver...), node...))
}

// SumOfName returns the Sum in the name; false where the name is no VolumeAttachmentName.
func SumOfName(name string) (sum Sum, ok bool) {
	if len(name) != attachmentNameLength {
		return sum, false
	}
	if _, err := hex.Decode(sum[:], []byte(name[len(attachmentPrefix):])); err != nil {
		return sum, false
	}
	written := sum.name()
	return sum, name == string(written[:])
}

func (s Sum) name() (name [attachmentNameLength]byte) {
	copy(name[:], attachmentPrefix)
	hex.Encode(name[len(attachmentPrefix):], s[:])
	return name
}

// attachmentName is the VolumeAttachmentName of the pair, or "" where the volume is not
// attached through a VolumeAttachment.
func attachmentName(pair VolumeNode) string {
	driver, handle, ok := ParseCSI(pair.Volume)
	if !ok {
		return ""
	}
	return VolumeAttachmentName(handle, driver, pair.Node)
}
