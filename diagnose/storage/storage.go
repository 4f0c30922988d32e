// Package storage compares what storage systems report about their volumes with the objects:
// which node really has a volume attached. A list that lacks a volume, that is old or that is
// about to change proves nothing.
package storage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// Fresh is the greatest age of a list that counts. It is a judgement: a person gets the list
// and then calls the command, and what has healed since must not be reported.
const Fresh = 15 * time.Minute

// Usable returns why the list must not be compared with the snapshot; nil where it may be.
func Usable(s *snapshot.Snapshot, l *backend.List) error {
	switch age := s.TakenAt.Sub(l.Taken); {
	case age < 0:
		return fmt.Errorf("it is %s younger than the objects", facts.Rounded(-age))
	case age > Fresh:
		return fmt.Errorf("it is %s older than the objects, and may be %s old at most", facts.Rounded(age), facts.Rounded(Fresh))
	}
	return nil
}

// Truth is what the usable lists report.
type Truth struct {
	lists    []*backend.List // the youngest first
	machines map[listed]machines
	// handles maps a handle to its drivers. Only a list that names no drivers needs it.
	handles map[string][]string
	// whole is the handle with the project that it may lack.
	whole func(handle string) string
	// oneNode reports whether the volume may be attached to only one node at a time.
	oneNode func(corev1.UniqueVolumeName) bool
}

// listed is a driver, and a format of list that has volumes of it.
type listed struct {
	format backend.Format
	driver string
}

// machines are the cluster's nodes, by the names that a list has for their machines.
type machines struct {
	nodes map[string][]*corev1.Node
	named map[types.NodeName]bool
	// every is true where all nodes are among them: then any other machine is no node of the
	// cluster.
	every bool
}

// Of is what the view's lists report; nil where there are none. A nil Truth knows no volume.
func Of(v *facts.View) *Truth {
	if len(v.Snapshot.Backends) == 0 {
		return nil
	}
	return keptTruth.Of(v, newTruth)
}

var keptTruth facts.Kept[*Truth]

func newTruth(v *facts.View) *Truth {
	t := &Truth{machines: map[listed]machines{}, handles: map[string][]string{}, oneNode: v.OneNode,
		whole: func(handle string) string { return InProject(v.Snapshot, handle) }}
	for _, l := range v.Snapshot.Backends {
		if Usable(v.Snapshot, l) == nil {
			t.lists = append(t.lists, l)
		}
	}
	slices.SortStableFunc(t.lists, func(a, b *backend.List) int { return b.Taken.Compare(a.Taken) })
	for _, pv := range v.Snapshot.Volumes {
		if name, err := v.World.VolumeName(pv); err == nil {
			if driver, handle, ok := reconcile.ParseCSI(name); ok && !slices.Contains(t.handles[handle], driver) {
				t.handles[handle] = append(t.handles[handle], driver)
			}
		}
	}
	for _, l := range t.lists {
		for _, driver := range v.InstalledDrivers() {
			key := listed{l.Format, driver}
			if _, known := t.machines[key]; !known && l.Format.Of(driver) {
				t.machines[key] = machinesOf(v, key)
			}
		}
	}
	return t
}

func machinesOf(v *facts.View, key listed) machines {
	m := machines{map[string][]*corev1.Node{}, map[types.NodeName]bool{}, v.Snapshot.Complete(snapshot.Nodes) && key.format != backend.Text}
	for _, node := range v.Snapshot.Nodes {
		id, _ := v.NodeID(facts.NodeName(node), key.driver)
		names := key.format.Machines(node.Name, id, node.Spec.ProviderID)
		for _, name := range names {
			m.nodes[name] = append(m.nodes[name], node)
		}
		m.named[facts.NodeName(node)] = len(names) > 0
		m.every = m.every && len(names) > 0
	}
	return m
}

// Entry is one volume in a storage system's list.
type Entry struct {
	List   *backend.List
	Volume backend.Volume
	// Settled is true where Holders is complete, and no holder is about to change.
	Settled bool
	Holders []Holder
	// Only are the only machines that can have the volume, where the list knows no more than
	// that; nil where it does not restrict them.
	Only []string
	of   machines
}

// Holder is a machine that has the volume, or is about to have or lose it.
type Holder struct {
	backend.Attachment
	// Node is the machine's node. It is nil where the machine is no node of the cluster, or
	// where its node is not Known.
	Node  *corev1.Node
	Known bool
}

// Volume is the volume's entry in the youngest list that has it; nil where no usable list has
// it.
func (t *Truth) Volume(name corev1.UniqueVolumeName) *Entry {
	driver, handle, ok := reconcile.ParseCSI(name)
	if t == nil || !ok {
		return nil
	}
	var e *Entry
	for _, l := range t.lists {
		if l.Format.AnyDriver() && len(t.handles[handle]) > 1 {
			continue // the driver cannot be told
		}
		v, found := l.Find(driver, t.whole(handle))
		switch {
		case !found:
		case e == nil:
			e = t.entry(l, v, driver)
			// LINSTOR gives several nodes a volume over NFS without placing it on them.
			if t.oneNode(name) {
				e.Only = v.Only
			}
		case l.Taken.Equal(e.List.Taken) && (l.Format != e.List.Format || !backend.Same(v, e.Volume)):
			e.Settled, e.Only = false, nil // two lists of the same moment differ
		}
	}
	return e
}

// Attachment is the entry of the volume of a VolumeAttachment whose PersistentVolume is gone;
// nil where no list has it. The controller makes the name of a VolumeAttachment from the
// handle, so each handle of a list can be compared with it.
func (t *Truth) Attachment(va *storagev1.VolumeAttachment) *Entry {
	if t == nil {
		return nil
	}
	for _, l := range t.lists {
		for _, v := range l.Volumes {
			if l.Format.Of(va.Spec.Attacher) && reconcile.IsVolumeAttachmentName(va.Name, v.ID, va.Spec.Attacher, types.NodeName(va.Spec.NodeName)) {
				return t.Volume(reconcile.CSIVolumeName(va.Spec.Attacher, v.ID))
			}
		}
	}
	return nil
}

func (t *Truth) entry(l *backend.List, v backend.Volume, driver string) *Entry {
	e := &Entry{List: l, Volume: v, Settled: v.Settled(), of: t.machines[listed{l.Format, driver}]}
	for _, a := range v.Attachments {
		h := Holder{Attachment: a}
		switch nodes := e.of.nodes[a.Machine]; {
		case len(nodes) == 1:
			h.Node, h.Known = nodes[0], true
		case len(nodes) == 0:
			h.Known = e.of.every
		}
		e.Holders = append(e.Holders, h)
	}
	return e
}

// On reports whether the node's machine has the volume, or certainly does not have it. Both
// results are false where neither is certain.
func (e *Entry) On(node types.NodeName) (attached, detached bool) {
	if e == nil {
		return false, false
	}
	detached = (e.Settled || e.lacks(node)) && e.of.named[node]
	for _, h := range e.Holders {
		isNode := func(n *corev1.Node) bool { return facts.NodeName(n) == node }
		switch {
		case h.Node != nil && isNode(h.Node):
			return e.Settled, false
		case !h.Known && (e.List.Format == backend.Text || slices.ContainsFunc(e.of.nodes[h.Machine], isNode)):
			detached = false // it may be the node's machine under another name
		}
	}
	return false, detached
}

// lacks reports whether only other machines can have the volume.
func (e *Entry) lacks(node types.NodeName) bool {
	return len(e.Only) > 0 && !slices.ContainsFunc(e.Only, func(machine string) bool {
		return slices.ContainsFunc(e.of.nodes[machine], func(n *corev1.Node) bool { return facts.NodeName(n) == node })
	})
}

// Saw reports whether something that began at since had lasted for at least d when the list was
// taken. It allows for a difference of the two clocks.
func (e *Entry) Saw(since metav1.Time, d time.Duration) bool {
	return !since.IsZero() && e.List.Taken.Sub(since.Time) >= d+snapshot.ClockTolerance
}

// Words is the list's name in a sentence.
func (e *Entry) Words() string { return listOf(e.List) }

// Evidence is the volume's entry in the list.
func (e *Entry) Evidence() finding.Evidence {
	value := "attached to nothing"
	if len(e.Holders) > 0 {
		value = "attached to"
		for i, h := range e.Holders {
			if i > 0 {
				value += ","
			}
			value += " " + h.Machine
			switch {
			case h.Node != nil:
				value += " (node " + h.Node.Name + ")"
			case h.Known:
				value += " (no node of this cluster)"
			}
			if h.State != "" {
				value += ", " + h.State
			}
		}
	}
	if len(e.Holders) == 0 && len(e.Only) > 0 {
		value = "placed on no machine but " + strings.Join(e.Only, ", ")
	}
	if e.Volume.State != "" {
		value = e.Volume.State + ", " + value
	}
	return finding.Evidence{Object: e.Words(), Field: e.Volume.ID, Value: value}
}
