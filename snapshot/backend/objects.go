package backend

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Objects are drivers' own objects. Several of them can describe one volume, so the volumes
// are made when all have been read.
type Objects struct {
	longhorn longhornObjects
	trident  tridentObjects
	linstor  linstorObjects
	cstor    cstorObjects
	jiva     jivaObjects
	count    int
	// bad reports whether an object could not be read: a driver's objects count as a whole or
	// not at all. late reports whether an object came too late to count.
	bad, late bool
	// bundled reports whether they were gathered beside the other objects, in an unknown
	// order.
	bundled bool
}

// objectHead identifies an object. Only the fields that the readers name are kept of a
// driver's objects: some hold passwords.
type objectHead struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Deleted   *string           `json:"deletionTimestamp"`
		Created   string            `json:"creationTimestamp"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
}

// key identifies the object among those of its kind.
func (h objectHead) key() objectKey { return objectKey{h.Metadata.Namespace, h.Metadata.Name} }

type objectKey struct{ namespace, name string }

// readObjects reads the items of a list of objects, after its "[". It skips objects that are
// no driver's.
func (l *List) readObjects(s stream, _ string) error {
	var all Objects
	for n := 1; s.More(); n++ {
		var raw json.RawMessage
		if err := s.Decode(&raw); err != nil {
			return s.errorf("object %d: %w", n, syntax(err))
		}
		if err := all.Add(raw); err != nil {
			return s.errorf("object %d: %w", n, err)
		}
	}
	if _, err := s.next(); err != nil {
		return err
	}
	for format, volumes := range all.volumes() {
		if l.Format != "" {
			return s.errorf("objects of two storage systems: give a list of each")
		}
		l.Format, l.Volumes = format, volumes
	}
	for _, v := range l.Volumes {
		if err := v.check(); err != nil {
			return s.errorf("%w", err)
		}
	}
	return nil
}

// volumes are the volumes that the objects describe, for each driver that has any.
func (o *Objects) volumes() map[Format][]Volume {
	all := map[Format][]Volume{
		Longhorn: o.longhorn.list(), Trident: o.trident.list(), LINSTOR: o.linstor.list(), CStor: o.cstor.list(), Jiva: o.jiva.list(),
	}
	maps.DeleteFunc(all, func(_ Format, volumes []Volume) bool { return len(volumes) == 0 })
	return all
}

// Take is Add for an object that was not asked for, in a text. The object counts only where
// early is true: before all objects with which it is compared, because a list is read in the
// order of its text. Take reports whether the object may still count.
func (o *Objects) Take(raw []byte, early bool) bool {
	o.late = o.late || !early
	o.bad = o.bad || early && o.Add(raw) != nil
	return early && !o.bad
}

// Merge notes that another text had late objects.
func (o *Objects) Merge(other *Objects) { o.late = o.late || other.late }

// Taken are the lists made from the objects of Take; none where one of them could not be
// read. note is called with the reason where objects are left out.
func (o *Objects) Taken(at time.Time, note func(string)) []*List {
	lists, err := o.Lists(at)
	if err != nil {
		note("objects of a storage driver are left out: " + err.Error())
	}
	if o.late {
		note("objects of a storage driver count only where they stand before all others in one text: give them with --backend")
	}
	if o.bad {
		return nil
	}
	if o.bundled {
		for _, l := range lists {
			l.sinceBefore(at)
		}
	}
	return lists
}

// Bundled notes that the objects were gathered beside those with which they are compared, in
// an unknown order. Then only an attachment counts that has lasted since before.
func (o *Objects) Bundled() { o.bundled = true }

// InBundle reports whether there are objects that were gathered in an unknown order.
func (o *Objects) InBundle() bool { return o.bundled && o.count > 0 }

// sinceBefore makes a volume silent unless the list shows that it has been attached where it
// is since before the time.
func (l *List) sinceBefore(began time.Time) {
	for i := range l.Volumes {
		v := &l.Volumes[i]
		if len(v.Attachments) == 0 || slices.ContainsFunc(v.Attachments, func(a Attachment) bool { return a.Since == nil || !a.Since.Before(began) }) {
			if l.Format == Longhorn {
				v.Only = nil
			}
			v.Attachments, v.Silent = nil, true
		}
	}
}

// Add adds the object if it is of a kind that is read.
func (o *Objects) Add(raw []byte) error {
	if o.count++; o.count > MaxVolumes {
		return fmt.Errorf("more than %d objects", MaxVolumes)
	}
	if len(raw) > maxVolume {
		return fmt.Errorf("more than %d KiB", maxVolume>>10)
	}
	var head objectHead
	if err := decode(raw, &head); err != nil {
		return err
	}
	group, version, _ := strings.Cut(head.APIVersion, "/")
	switch group + " " + head.Kind {
	case "longhorn.io Volume":
		return o.longhorn.addVolume(head, version == "v1beta2", raw)
	case "longhorn.io VolumeAttachment":
		return o.longhorn.addAttachment(head, version == "v1beta2", raw)
	case "trident.netapp.io TridentVolume":
		return o.trident.addVolume(head, version == "v1", raw)
	case "trident.netapp.io TridentVolumePublication":
		return o.trident.addPublication(head, version == "v1", raw)
	case "internal.linstor.linbit.com Resources":
		return o.linstor.add(version, raw)
	case "cstor.openebs.io CStorVolumeAttachment":
		return o.cstor.add(head, version == "v1", raw)
	case "openebs.io JivaVolume":
		return o.jiva.add(head, version == "v1")
	}
	return nil
}

// Lists are the lists made from the objects, taken at that time, in the order of their
// formats. Several drivers may have objects in one cluster.
func (o *Objects) Lists(taken time.Time) ([]*List, error) {
	var lists []*List
	all := o.volumes()
	for _, format := range slices.Sorted(maps.Keys(all)) {
		l := &List{File: format.objectsFile(), Format: format, Taken: taken.UTC(), Volumes: all[format]}
		for _, v := range l.Volumes {
			if err := v.check(); err != nil {
				return nil, fmt.Errorf("objects of %s: %w", format, err)
			}
		}
		l.Sort()
		lists = append(lists, l)
	}
	return lists, nil
}

// hasMore reports whether the metadata of a list name a next page.
func hasMore(raw []byte) bool {
	var metadata struct {
		Continue string `json:"continue"`
	}
	return decode(raw, &metadata) == nil && metadata.Continue != ""
}

// longhornObjects are Longhorn's objects. The attachments show who asked for the state of a
// volume: Longhorn attaches volumes for its own work, too.
type longhornObjects struct {
	volumes     []longhornVolume
	attachments map[objectKey]longhornAttachment
}

type longhornVolume struct {
	objectHead
	known bool // whether the fields of its version are known
	Spec  struct {
		Node       string `json:"nodeID"`
		Access     string `json:"accessMode"`
		Migratable bool   `json:"migratable"`
		Migration  string `json:"migrationNodeID"`
	} `json:"spec"`
	Status struct {
		State      string `json:"state"`
		Robustness string `json:"robustness"`
		Node       string `json:"currentNodeID"`
		Migration  string `json:"currentMigrationNodeID"`
		Kubernetes struct {
			Namespace string `json:"namespace"`
			Claim     string `json:"pvcName"`
			Volume    string `json:"pvName"`
		} `json:"kubernetesStatus"`
	} `json:"status"`
}

type longhornAttachment struct {
	Spec struct {
		Volume  string `json:"volume"`
		Tickets map[string]struct {
			Type       string `json:"type"`
			Node       string `json:"nodeID"`
			Generation int64  `json:"generation"`
		} `json:"attachmentTickets"`
	} `json:"spec"`
	Status struct {
		Tickets map[string]struct {
			Satisfied  bool  `json:"satisfied"`
			Generation int64 `json:"generation"`
			Conditions []struct {
				Type  string `json:"type"`
				Since string `json:"lastTransitionTime"`
			} `json:"conditions"`
		} `json:"attachmentTicketStatuses"`
	} `json:"status"`
}

func (o *longhornObjects) addVolume(head objectHead, known bool, raw []byte) error {
	v := longhornVolume{objectHead: head, known: known}
	if known {
		if err := decode(raw, &v); err != nil {
			return err
		}
	}
	o.volumes = append(o.volumes, v)
	return nil
}

func (o *longhornObjects) addAttachment(head objectHead, known bool, raw []byte) error {
	var a longhornAttachment
	if !known {
		return nil
	}
	if err := decode(raw, &a); err != nil {
		return err
	}
	if o.attachments == nil {
		o.attachments = map[objectKey]longhornAttachment{}
	}
	key := objectKey{head.Metadata.Namespace, a.Spec.Volume}
	if _, twice := o.attachments[key]; twice {
		a = longhornAttachment{} // nobody can tell which of the two counts
	}
	o.attachments[key] = a
	return nil
}

func (o *longhornObjects) list() []Volume {
	var volumes []Volume
	for _, v := range o.volumes {
		volumes = append(volumes, v.volume(o.attachments[v.key()]))
	}
	return volumes
}

// volume is the volume with its attachments. Longhorn's controller sets the state attached or
// detached once the volume has followed the node in its specification; every other state is a
// step on the way. For a ReadWriteMany volume that is shared over NFS the state shows where
// its server runs, and not which nodes have mounted it.
func (v longhornVolume) volume(a longhornAttachment) Volume {
	k := v.Status.Kubernetes
	out := Volume{ID: v.Metadata.Name, State: v.Status.State, Shared: v.Spec.Access == "rwx", Created: moment(v.Metadata.Created),
		MadeFor: madeFor(map[string]string{"pv-name": k.Volume, "pvc-name": k.Claim, "pvc-namespace": k.Namespace})}
	if !slices.Contains([]string{"rwo", "rwop", "rwx"}, v.Spec.Access) || out.Shared && !v.Spec.Migratable {
		out.Silent = true // also where the version is unknown, because then no field is read
		return out
	}
	// A volume that is faulted and detached attaches nowhere until it is salvaged.
	if v.Status.State == "detached" && v.Status.Robustness == "faulted" {
		out.State = "faulted"
	}
	machine := cmp.Or(v.Status.Node, v.Spec.Node)
	moves := v.Spec.Migration != "" || v.Status.Migration != ""
	switch state := v.Status.State; {
	case v.Metadata.Deleted != nil || moves:
		out.Silent = true
	case state == "detached" && machine == "":
	case state == "attached" && machine != "" && v.Spec.Node == v.Status.Node:
		if v.Status.Robustness == "unknown" { // Longhorn no longer sees the node
			out.Attachments = []Attachment{{Machine: machine, State: "unknown"}}
			break
		}
		reason, since := a.reason(machine)
		out.Attachments = []Attachment{{Machine: machine, State: reason, Since: since}}
		if reason != "" && !out.Shared && !a.wantedElsewhere(machine) {
			out.Only = []string{machine} // whatever it is attached for
		}
	case (state == "attaching" || state == "detaching") && machine != "":
		out.Attachments = []Attachment{{Machine: machine, State: state}}
	default:
		out.Silent = true
	}
	return out
}

// reason is "" where the volume is attached because the CSI driver or a person asked for it.
// Longhorn also attaches a volume for a backup or a clone, and releases it by itself when a
// pod wants it: that is "temporary". Without the attachment's object it is "unknown". since
// is when Longhorn saw it attached for the CSI driver.
func (a longhornAttachment) reason(node string) (reason string, since *time.Time) {
	reason = "unknown"
	for id, ticket := range a.Spec.Tickets {
		status, ok := a.Status.Tickets[id]
		if ticket.Node != node || !ok || !status.Satisfied || status.Generation != ticket.Generation {
			continue
		}
		if ticket.Type == "csi-attacher" || ticket.Type == "longhorn-api" {
			for _, c := range status.Conditions {
				if c.Type == "Satisfied" && ticket.Type == "csi-attacher" {
					since = moment(c.Since)
				}
			}
			return "", since
		}
		reason = "temporary"
	}
	return reason, nil
}

// wantedElsewhere reports whether the CSI driver asks for the volume on another node, to which
// Longhorn then moves it.
func (a longhornAttachment) wantedElsewhere(node string) bool {
	for _, ticket := range a.Spec.Tickets {
		if ticket.Type == "csi-attacher" && ticket.Node != node {
			return true
		}
	}
	return false
}

// published are the nodes of each volume by a driver's own records: one object for each
// volume and node.
type published struct {
	nodes map[string][]Attachment
	// gap reports whether a record has an unknown version.
	gap bool
}

// add adds a record. The driver deletes a record once the node no longer has the volume.
func (p *published) add(head objectHead, volume, node string) {
	if p.nodes == nil {
		p.nodes = map[string][]Attachment{}
	}
	a := Attachment{Machine: node}
	if head.Metadata.Deleted != nil {
		a.State, a.Since = "detaching", moment(*head.Metadata.Deleted)
	}
	if !slices.ContainsFunc(p.nodes[volume], func(b Attachment) bool { return b.Machine == a.Machine && b.State == a.State }) {
		p.nodes[volume] = append(p.nodes[volume], a)
	}
}

// tridentObjects are Trident's objects: its volumes, and a publication for each node to which
// a volume is published. Trident writes a publication before it publishes the volume, and
// removes it after it has unpublished it.
type tridentObjects struct {
	volumes []Volume
	published
}

func (o *tridentObjects) addVolume(head objectHead, known bool, raw []byte) error {
	if !known {
		return nil
	}
	var d struct {
		Config struct {
			Name   string `json:"name"`
			Access string `json:"accessMode"`
		} `json:"config"`
		State string `json:"state"`
	}
	if err := decode(raw, &d); err != nil {
		return err
	}
	if d.Config.Name == "" {
		return fmt.Errorf("TridentVolume %q has no config.name, which is its handle", short(head.Metadata.Name))
	}
	o.volumes = append(o.volumes, Volume{ID: d.Config.Name, State: d.State, Shared: d.Config.Access == "ReadWriteMany"})
	return nil
}

func (o *tridentObjects) addPublication(head objectHead, known bool, raw []byte) error {
	var d struct {
		Volume string `json:"volumeID"`
		Node   string `json:"nodeID"`
	}
	if !known {
		o.gap = true
		return nil
	}
	if err := decode(raw, &d); err != nil {
		return err
	}
	o.add(head, d.Volume, d.Node)
	return nil
}

// list are the volumes with their publications. A volume without any counts as attached to
// nothing only where the list has publications of others: otherwise they may not have been
// asked for.
func (o *tridentObjects) list() []Volume {
	nodes := maps.Clone(o.nodes)
	var volumes []Volume
	for _, v := range o.volumes {
		v.Attachments = slices.Clone(o.nodes[v.ID])
		v.Silent = o.gap || len(o.nodes) == 0
		volumes = append(volumes, v)
		delete(nodes, v.ID)
	}
	for id, attachments := range nodes { // the volumes may not have been asked for
		volumes = append(volumes, Volume{ID: id, Attachments: attachments, Silent: o.gap})
	}
	return volumes
}
