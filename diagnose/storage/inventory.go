package storage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// provisioned is the age from which a PersistentVolume has to name a disk of a list. It is a
// judgement: the provisioner makes the disk first, and then tries for minutes to write the
// object.
const provisioned = 15 * time.Minute

// Disk is a disk of a list that no PersistentVolume names.
type Disk struct {
	backend.Volume
	Driver string
	List   *backend.List
	// Ours is true where the disk bears the mark of this cluster, or is in a list of this
	// cluster's own objects. Otherwise it may be another cluster's.
	Ours bool
}

// inventory is a list, with the cluster's volumes that it has and those that it lacks.
type inventory struct {
	*backend.List
	found   []held
	missing []held
}

// held is a PersistentVolume and, where the list has it, its entry in the list.
type held struct {
	pv             *corev1.PersistentVolume
	name           corev1.UniqueVolumeName
	driver, handle string
	volume         backend.Volume
}

// inventories compares each usable list that has all volumes of its storage system with the
// PersistentVolumes.
func inventories(s *snapshot.Snapshot, world *reconcile.World) []inventory {
	var all []inventory
	for _, l := range s.Backends {
		if l.Format.Inventory() && Usable(s, l) == nil {
			all = append(all, inventory{List: l})
		}
	}
	if len(all) == 0 {
		return nil
	}
	for _, pv := range s.Volumes {
		name, err := world.VolumeName(pv)
		driver, handle, ok := reconcile.ParseCSI(name)
		if err != nil || !ok {
			continue
		}
		handle = InProject(s, handle)
		for i := range all {
			l, h := &all[i], held{pv: pv, name: name, driver: driver, handle: handle}
			var there bool
			if h.volume, there = l.Find(driver, handle); there {
				l.found = append(l.found, h)
			} else if l.Format.Of(driver) {
				l.missing = append(l.missing, h)
			}
		}
	}
	return all
}

// InProject puts the project of the cluster's nodes into a handle without one, as Google's driver does
// when it attaches a volume with an in-tree PersistentVolume (RepairVolumeHandle, csi-translation-lib).
func InProject(s *snapshot.Snapshot, handle string) string {
	rest, ok := strings.CutPrefix(handle, "projects/UNSPECIFIED/")
	if !ok {
		return handle
	}
	projects := sets.New[string]()
	for _, node := range s.Nodes {
		if path, ok := strings.CutPrefix(node.Spec.ProviderID, "gce://"); ok {
			project, _, _ := strings.Cut(path, "/")
			projects.Insert(project)
		}
	}
	if project := sets.List(projects); len(project) == 1 {
		return "projects/" + project[0] + "/" + rest
	}
	return handle
}

// Unclaimed returns the disks that a provisioner made for a PersistentVolume, that are attached
// to nothing, and that no PersistentVolume of the cluster names. A list without any disk of
// this cluster counts for nothing, because it may be of another account, and so does a disk
// with the mark of another cluster.
func Unclaimed(s *snapshot.Snapshot, world *reconcile.World) []Disk {
	var disks []Disk
	told := sets.New[string]()
	for _, l := range inventories(s, world) {
		if l.Format.AnyDriver() {
			continue // its disks do not show for whom they were made
		}
		named, marks := sets.New[string](), sets.New[string]()
		for _, h := range l.found {
			named.Insert(h.volume.ID)
			if m := h.volume.MadeFor; m != nil && m.Cluster != "" {
				marks.Insert(m.Cluster)
			}
		}
		own := l.Format == backend.Longhorn // its objects are those of this cluster
		for _, v := range l.Volumes {
			d := Disk{Volume: v, Driver: l.Format.Drivers()[0], List: l.List}
			if v.MadeFor == nil || named.Has(v.ID) || !own && len(l.found) == 0 || len(v.Attachments) > 0 || !v.Settled() ||
				strings.Contains(strings.ToLower(v.State), "delet") || !v.Before(l.Taken, provisioned) || told.Has(d.key()) {
				continue
			}
			if d.Ours = own || marks.Has(v.MadeFor.Cluster); d.Ours || v.MadeFor.Cluster == "" {
				told.Insert(d.key())
				disks = append(disks, d)
			}
		}
	}
	slices.SortFunc(disks, func(a, b Disk) int { return strings.Compare(a.key(), b.key()) })
	return disks
}

func (d Disk) key() string { return d.Driver + "^" + d.ID }

// Evidence is the disk's entry in the list.
func (d Disk) Evidence() finding.Evidence {
	value := d.State
	add := func(format string, args ...any) { value += fmt.Sprintf(format, args...) }
	if value == "" {
		value = "attached to nothing"
	}
	if d.GiB > 0 {
		add(", %d GiB", d.GiB)
	}
	if d.MadeFor.PersistentVolume != "" {
		add(", made for %s", d.MadeFor.PersistentVolume)
	}
	if d.MadeFor.Claim != "" {
		add(", claim %s", d.MadeFor.Claim)
	}
	if d.MadeFor.Cluster != "" {
		add(", cluster %s", d.MadeFor.Cluster)
	}
	if d.Created != nil {
		add(", made at %s", facts.Stamp(metav1.NewTime(*d.Created)))
	}
	return finding.Evidence{Object: listOf(d.List), Field: d.ID, Value: value}
}

// Lost is a PersistentVolume whose disk a list should have and lacks.
type Lost struct {
	PV           *corev1.PersistentVolume
	Name         corev1.UniqueVolumeName
	Handle       string
	List         *backend.List
	Place        string // where the disk would be; "" where the list does not distinguish places
	OtherVolumes int    // how many other volumes of this cluster the list has
}

// WithoutDisk returns the volumes whose disk no usable list has, although one should have it: a
// list that is not partial, covers the disk's place and has other disks of the driver in this
// cluster. A list that lacks a disk that some node uses proves nothing about that driver. A list in
// which all disks are attached, or none, proves nothing, because a filter may have left these.
func WithoutDisk(v *facts.View) []Lost {
	all := inventories(v.Snapshot, v.World)
	inUse := sets.New[corev1.UniqueVolumeName]()
	for _, node := range v.Snapshot.Nodes {
		inUse.Insert(node.Status.VolumesInUse...)
		for _, a := range node.Status.VolumesAttached {
			inUse.Insert(a.Name)
		}
	}
	somewhere, drivers := sets.New[corev1.UniqueVolumeName](), map[string]sets.Set[string]{}
	for _, l := range all {
		for _, h := range slices.Concat(l.found, l.missing) {
			if drivers[h.handle] == nil {
				drivers[h.handle] = sets.New[string]()
			}
			drivers[h.handle].Insert(h.driver)
		}
		for _, h := range l.found {
			somewhere.Insert(h.name)
		}
	}
	var lost []Lost
	for _, l := range all {
		others := map[string]int{}
		for _, h := range l.found {
			others[h.driver]++
		}
		isOff := sets.New[string]() // drivers for which the list lacks a disk that is in use
		var candidates []held
		for _, h := range l.missing {
			place := l.Place(h.handle, zones(h.pv))
			if l.Partial || l.mayBeFiltered() || others[h.driver] == 0 || somewhere.Has(h.name) || !l.covers(place) || l.Taken.Sub(h.pv.CreationTimestamp.Time) < snapshot.ClockTolerance {
				continue
			}
			if inUse.Has(h.name) {
				isOff.Insert(h.driver)
			}
			if !goes(h.pv) && (!l.Format.AnyDriver() || len(drivers[h.handle]) == 1) {
				candidates = append(candidates, h)
			}
		}
		for _, h := range candidates {
			if !isOff.Has(h.driver) {
				somewhere.Insert(h.name) // reported once
				lost = append(lost, Lost{PV: h.pv, Name: h.name, Handle: h.handle, List: l.List, Place: l.Place(h.handle, zones(h.pv)), OtherVolumes: others[h.driver]})
			}
		}
	}
	return lost
}

// mayBeFiltered reports whether the list may be a tool's answer to a question for attached or for
// unattached disks. CSI's ListVolumes and a driver's objects have no such filter.
func (l *inventory) mayBeFiltered() bool {
	return l.Format.OfTool() && l.Format != backend.CSI && !l.Mixed
}

// Gaps returns what the lists that somebody gave leave open.
func Gaps(v *facts.View) []snapshot.Gap {
	var gaps []snapshot.Gap
	lost := sets.New[string]()
	for _, l := range WithoutDisk(v) {
		lost.Insert(l.PV.Name)
	}
	for _, l := range v.Snapshot.Backends {
		if !l.IsGiven() {
			continue
		}
		reason, open := snapshot.ReasonTruncated, []string(nil)
		if err := Usable(v.Snapshot, l); err != nil {
			reason, open = snapshot.ReasonOtherTime, []string{err.Error()}
		} else {
			open = leavesOpen(v, l, lost)
		}
		if len(open) > 0 {
			gaps = append(gaps, snapshot.Gap{Kind: snapshot.StorageList, Reason: reason, Detail: l.File + ": " + strings.Join(open, "; ")})
		}
	}
	return gaps
}

// leavesOpen returns what a usable list leaves open: whether the disks of volumes exist that it lacks,
// and to which node volumes are attached that it has. lost has the PersistentVolumes whose disks are
// gone. The driver counts a disk that is gone as deleted, so that a deletion that failed leaves one.
func leavesOpen(v *facts.View, l *backend.List, lost sets.Set[string]) (open []string) {
	type volume struct{ driver, name string }
	all, found := 0, sets.New[string]() // drivers
	var lacking, silent []volume
	for _, pv := range v.Snapshot.Volumes {
		name, err := v.World.VolumeName(pv)
		driver, handle, ok := reconcile.ParseCSI(name)
		if err != nil || !ok || !l.Format.Of(driver) {
			continue
		}
		all++
		e := Of(v).Volume(name)
		if _, there := l.Find(driver, InProject(v.Snapshot, handle)); there {
			found.Insert(driver)
			if e != nil && e.List == l && e.silent() {
				silent = append(silent, volume{driver, pv.Name})
			}
		} else if partly := !l.Format.Inventory() && l.Format != backend.Text; e == nil && !partly && !lost.Has(pv.Name) && (!goes(pv) || pv.Status.Phase == corev1.VolumeFailed) && l.Taken.Sub(pv.CreationTimestamp.Time) >= snapshot.ClockTolerance {
			lacking = append(lacking, volume{driver, pv.Name})
		}
	}
	if l.Format.AnyDriver() && found.Len() > 0 { // it may be the list of one driver
		lacking = slices.DeleteFunc(lacking, func(o volume) bool { return !found.Has(o.driver) })
	}
	switch {
	case l.Partial:
		open = append(open, "it has further pages, which are missing")
	case all == 0:
		open = append(open, "no PersistentVolume of this cluster is of its storage system")
	case len(lacking) > 0:
		open = append(open, fmt.Sprintf("it lacks %d of %d volumes (such as %s) and does not show whether their disks exist: "+
			"it may be of another account, project or zone, or filtered", len(lacking), all, lacking[0].name))
	}
	if len(silent) > 0 {
		open = append(open, fmt.Sprintf("it does not show to which node %d of %d volumes are attached (such as %s)", len(silent), all, silent[0].name))
	}
	return open
}

// silent reports whether the list does not show to which node the volume is attached, if to any,
// although lists of its format can. Longhorn never shows which nodes have mounted a share.
func (e *Entry) silent() bool {
	isShare := e.List.Format == backend.Longhorn && e.Volume.Shared
	return e.Volume.Silent && len(e.Volume.Only) == 0 && !isShare || e.List.Format == backend.Text && slices.ContainsFunc(e.Holders, func(h Holder) bool { return !h.Known })
}

// covers reports whether the list has the volumes of the place. AWS's zones have the same names in
// every account, which no volume shows: there a disk of this cluster has to be in the zone, or the
// list may be one of several accounts.
func (l *inventory) covers(place string) bool {
	return l.Covers(place) && (l.Format != backend.AWS || slices.ContainsFunc(l.found, func(h held) bool { return h.volume.Zone == place }))
}

// goes reports whether the disk may be in deletion right now, so that it is gone before its
// PersistentVolume is.
func goes(pv *corev1.PersistentVolume) bool {
	return pv.DeletionTimestamp != nil ||
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && (pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed)
}

// zones returns the zones in the volume's node affinity.
func zones(pv *corev1.PersistentVolume) []string {
	names := sets.New[string]()
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, term := range a.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if strings.HasSuffix(e.Key, "/zone") {
					names.Insert(e.Values...)
				}
			}
		}
	}
	return sets.List(names)
}

// Evidence is how many other volumes of this cluster the list has, without this one.
func (l Lost) Evidence() finding.Evidence {
	in := ""
	if l.Place != "" {
		in = ", and volumes in " + l.Place
	}
	return finding.Evidence{Object: listOf(l.List), Field: l.Handle, Value: fmt.Sprintf("not in the list, which has %d of this cluster's volumes%s", l.OtherVolumes, in)}
}

func listOf(l *backend.List) string {
	return "the storage system's list of " + facts.Stamp(metav1.NewTime(l.Taken))
}
