package facts

import (
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var keptDriverNames Kept[[]string]

// InstalledDrivers are the names of all drivers that have a CSIDriver or are
// registered on a node, sorted.
func (p *View) InstalledDrivers() []string {
	return keptDriverNames.Of(p, func(p *View) []string {
		names := sets.New[string]()
		for _, d := range p.Snapshot.CSIDrivers {
			names.Insert(d.Name)
		}
		for _, n := range p.Snapshot.CSINodes {
			for _, d := range n.Spec.Drivers {
				names.Insert(d.Name)
			}
		}
		return sets.List(names)
	})
}

// Successor is the installed driver that replaced one that is not installed, by their names; ""
// where there is none.
func (p *View) Successor(driver string) string {
	return p.similar(driver, renamedTo)
}

// Meant is the installed driver whose name somebody seems to have mistyped; "" where the driver
// is installed itself, or no name is near enough.
func (p *View) Meant(driver string) string {
	return p.similar(driver, misspelt)
}

// Mistyped is Meant for a driver that was never seen here: no attacher has answered for it, and
// none of its volumes is attached.
func (p *View) Mistyped(driver string) string {
	meant := p.Meant(driver)
	// The name of a lease has a hyphen for each separator of the driver's name.
	lease := reconcile.AttacherLeaseName(driver) != reconcile.AttacherLeaseName(meant) && p.AttacherLease(driver) != nil
	answered := p.LastAnswer(driver)
	attached := func(va *storagev1.VolumeAttachment) bool { return va.Spec.Attacher == driver && Holds(va) }
	if meant == "" || lease || !answered.IsZero() || slices.ContainsFunc(p.Snapshot.VolumeAttachments, attached) {
		return ""
	}
	return meant
}

func (p *View) similar(driver string, test func(driver, name string) bool) string {
	if p.Installed(driver) {
		return ""
	}
	names := p.InstalledDrivers()
	if i := slices.IndexFunc(names, func(name string) bool { return test(driver, name) }); i >= 0 {
		return names[i]
	}
	return ""
}

// renames maps old names of drivers to new ones with which they have nothing in common.
var renames = map[string]string{
	"com.amazon.aws.csi.ebs": "ebs.csi.aws.com",
	"com.google.csi.gcepd":   "pd.csi.storage.gke.io",
	"csi-cephfsplugin":       "cephfs.csi.ceph.com",
	"csi-cinderplugin":       "cinder.csi.openstack.org",
	"csi-hostpath":           "hostpath.csi.k8s.io",
	"csi-rbdplugin":          "rbd.csi.ceph.com",
	"io.rancher.longhorn":    "driver.longhorn.io",
}

// commonLabels is the number of labels behind the first that two names must share for them to
// be one driver in two deployments. Fewer would confuse rbd.csi.ceph.com and
// cephfs.csi.ceph.com.
const commonLabels = 4

// renamedTo reports whether the two names are one driver's. The table of renames has them; one is
// the other with a prefix, such as an operator's namespace; both have the same parts in another
// order; or they differ in such a prefix.
func renamedTo(before, now string) bool {
	if known, ok := renames[before]; ok && (now == known || strings.HasSuffix(now, "."+known)) {
		return true
	}
	a, b := strings.Split(before, "."), strings.Split(now, ".")
	if len(a) < 3 || len(b) < 3 {
		return false
	}
	if prefixed(before, now) || prefixed(now, before) {
		return true
	}
	if len(a) == len(b) && len(a) > commonLabels && slices.Equal(a[1:], b[1:]) {
		return true
	}
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func prefixed(short, long string) bool {
	return strings.HasSuffix(long, "."+short) || strings.HasSuffix(long, "-"+short)
}

// misspelt reports whether one name is the other with other separators, with one letter more or
// less, without its last part, or with two neighbouring letters exchanged. A replaced letter is
// no proof: ebs.csi.aws.com and efs.csi.aws.com are two drivers. Neither is a letter of the first
// part (nfs.csi.k8s.io and fs.csi.k8s.io), nor a digit, by which operators number their drivers.
func misspelt(name, meant string) bool {
	a, b := letters(name), letters(meant)
	switch {
	case name == meant:
		return false
	case a == b || cutShort(name, meant) || cutShort(meant, name):
		return true
	case len(a) == len(b):
		return exchanged(a, b)
	case len(a) == len(b)+1:
		return oneMore(a, b, firstPart(name))
	case len(b) == len(a)+1:
		return oneMore(b, a, firstPart(meant))
	default:
		return false
	}
}

// cutShort reports whether the name is the other without its last part, and still has two.
func cutShort(name, whole string) bool {
	last := strings.LastIndexByte(whole, '.')
	return last > 0 && name == whole[:last] && strings.Contains(name, ".")
}

// letters is the name in lower case without its separators.
func letters(name string) string {
	return strings.ToLower(strings.NewReplacer(".", "", "-", "", "_", "").Replace(name))
}

// firstPart is the length of the name's part before its first separator.
func firstPart(name string) int {
	if i := strings.IndexAny(name, ".-_"); i >= 0 {
		return i
	}
	return len(name)
}

// exchanged reports whether two neighbouring letters of a stand in the other order in b.
func exchanged(a, b string) bool {
	for i := 0; i+1 < len(a); i++ {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}

// oneMore reports whether long is short with one letter more, which is not in the
// first part.
func oneMore(long, short string, first int) bool {
	i := 0
	for i < len(short) && long[i] == short[i] {
		i++
	}
	return i >= first && long[i] >= 'a' && long[i] <= 'z' && long[i+1:] == short[i:]
}
