// Package storage holds what storage systems say of their volumes against the objects:
// which node has a volume attached in fact. A list that lacks a volume, that is old or
// that is about to change proves nothing.
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

// Fresh is how old a list may be to say anything. A judgement: a person gets the list
// and then calls the command, and what was healed since must not be reported.
const Fresh = 15 * time.Minute

// Usable says why the list says nothing about the snapshot; nil where it does.
func Usable(s *snapshot.Snapshot, l *backend.List) error {
	switch age := s.TakenAt.Sub(l.Taken); {
	case age < 0:
		return fmt.Errorf("it is %s younger than the objects", facts.Rounded(-age))
	case age > Fresh:
		return fmt.Errorf("it is %s older than the objects, and may be %s old at most", facts.Rounded(age), facts.Rounded(Fresh))
	}
	return nil
}

// Truth is what the usable lists say.
type Truth struct {
	lists    []*backend.List // the youngest first
	machines map[listed]machines
	// handles has the drivers by handle, which only a list that names none needs.
	handles map[string][]string
	// oneNode says that the volume may be attached to one node at a time.
	oneNode func(corev1.UniqueVolumeName) bool
}

// listed is a driver in the lists of a format.
type listed struct {
	format backend.Format
	driver string
}

// machines are the nodes by what a list calls their machines.
type machines struct {
	nodes map[string][]*corev1.Node
	named map[types.NodeName]bool
	// every says that each node is among them, so that any other machine is no node.
	every bool
}

// Of is what the view's lists say; nil where there are none, and then nothing is said
// of any volume.
func Of(v *facts.View) *Truth {
	if len(v.Snapshot.Backends) == 0 {
		return nil
	}
	return facts.Once(v, newTruth)
}

func newTruth(v *facts.View) *Truth {
	t := &Truth{machines: map[listed]machines{}, handles: map[string][]string{}, oneNode: v.OneNode}
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
	// Settled says that Holders are all, and that none is about to change.
	Settled bool
	Holders []Holder
	// Only are the machines that alone can have it, where the list tells no more than
	// that; none where it says nothing of the kind.
	Only []string
	of   machines
}

// Holder is a machine that has the volume, or is about to have or lose it.
type Holder struct {
	backend.Attachment
	// Node is the machine's, nil where it is none, or where that is not Known.
	Node  *corev1.Node
	Known bool
}

// Volume is its entry in the youngest list; nil where no usable list has it.
func (t *Truth) Volume(name corev1.UniqueVolumeName) *Entry {
	driver, handle, ok := reconcile.ParseCSI(name)
	if t == nil || !ok {
		return nil
	}
	var e *Entry
	for _, l := range t.lists {
		if l.Format.AnyDriver() && len(t.handles[handle]) > 1 {
			continue // of which driver it is cannot be told
		}
		v, found := l.Find(driver, handle)
		switch {
		case !found:
		case e == nil:
			e = t.entry(l, v, driver)
			// LINSTOR gives several nodes a volume over NFS without placing it on them.
			if t.oneNode(name) {
				e.Only = v.Only
			}
		case l.Taken.Equal(e.List.Taken) && (l.Format != e.List.Format || !backend.Same(v, e.Volume)):
			e.Settled, e.Only = false, nil // two lists of one moment that differ
		}
	}
	return e
}

// Attachment is what the lists say of the volume that a VolumeAttachment is for whose
// PersistentVolume is gone: the name that the controller gives it is made of the handle.
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

// On reports whether the node's machine has the volume. Both are false where that is not
// certain.
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

// lacks reports whether the node's machine is none of those that alone can have the volume.
func (e *Entry) lacks(node types.NodeName) bool {
	return len(e.Only) > 0 && !slices.ContainsFunc(e.Only, func(machine string) bool {
		return slices.ContainsFunc(e.of.nodes[machine], func(n *corev1.Node) bool { return facts.NodeName(n) == node })
	})
}

// Saw reports whether what began at the time had lasted for d when the list was taken,
// whatever the two clocks differ by.
func (e *Entry) Saw(since metav1.Time, d time.Duration) bool {
	return !since.IsZero() && e.List.Taken.Sub(since.Time) >= d+snapshot.ClockTolerance
}

// Words name the list in a sentence.
func (e *Entry) Words() string { return listOf(e.List) }

// Evidence is the volume's entry in the list, as evidence.
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
