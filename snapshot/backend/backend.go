// Package backend reads a storage system's own list of its volumes, from the output of its
// command line tool or from its driver's own objects: which volume is attached to which
// machine. It is a source beyond the API: what it lacks proves nothing.
package backend

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Format is the format of a list, which shows whose it is.
type Format string

// The formats that are read.
const (
	AWS       Format = "aws"       // aws ec2 describe-volumes
	Azure     Format = "azure"     // az disk list
	Google    Format = "google"    // gcloud compute disks list --format=json
	OpenStack Format = "openstack" // openstack volume list --long -f json
	Hetzner   Format = "hetzner"   // hcloud volume list -o json
	CSI       Format = "csi"       // a ListVolumesResponse of CSI, in JSON
	Longhorn  Format = "longhorn"  // Longhorn's volumes and volumeattachments, as objects
	Trident   Format = "trident"   // Trident's volumes and volumepublications, as objects
	LINSTOR   Format = "linstor"   // LINSTOR's own tables, as objects: where it has placed a volume
	CStor     Format = "cstor"     // cStor's volumeattachments of OpenEBS, as objects: where a volume is staged
	Jiva      Format = "jiva"      // Jiva's volumes of OpenEBS, as objects: where a volume is staged
	Text      Format = "text"      // two columns: volume handle, and machine or node
)

// drivers are the CSI drivers whose volumes a list of the format has. Lists in CSI and Text
// may have the volumes of any driver.
var drivers = map[Format][]string{
	AWS:       {"ebs.csi.aws.com", "ebs.csi.eks.amazonaws.com"},
	Azure:     {"disk.csi.azure.com"},
	Google:    {"pd.csi.storage.gke.io"},
	OpenStack: {"cinder.csi.openstack.org"},
	Hetzner:   {"csi.hetzner.cloud"},
	Longhorn:  {"driver.longhorn.io"},
	Trident:   {"csi.trident.netapp.io"},
	LINSTOR:   {"linstor.csi.linbit.com"},
	CStor:     {"cstor.csi.openebs.io"},
	Jiva:      {"jiva.csi.openebs.io"},
}

// AnyDriver reports whether lists of the format do not name their volumes' driver.
func (f Format) AnyDriver() bool { return f == CSI || f == Text }

// Of reports whether lists of the format can have the driver's volumes.
func (f Format) Of(driver string) bool { return f.AnyDriver() || slices.Contains(drivers[f], driver) }

// Drivers are the drivers whose volumes lists of the format have, the usual one first; none
// where such a list does not name its driver.
func (f Format) Drivers() []string { return drivers[f] }

// List is the content of one file.
type List struct {
	// File is the name under which it was given.
	File   string `json:"file"`
	Format Format `json:"format"`
	// Taken is the latest moment at which the storage system can have given the list: when
	// the file was written.
	Taken time.Time `json:"taken"`
	// Scope are the regions, zones or projects of its volumes, sorted; none where the
	// list does not name them.
	Scope []string `json:"scope,omitempty"`
	// Partial reports whether the list itself has further pages.
	Partial bool `json:"partial,omitempty"`
	// Mixed reports whether the list has a volume that is attached and one that is attached to
	// nothing: then no filter on the state has left any out.
	Mixed bool `json:"mixed,omitempty"`
	// Volumes are sorted by ID. Each ID stands once.
	Volumes []Volume `json:"volumes,omitempty"`
}

// Volume is a volume as the storage system has it.
type Volume struct {
	// ID is the handle that the driver gives the volume, as Handle writes it.
	ID string `json:"id"`
	// Zone is where it is, if the format is AWS and the list shows it: no handle does.
	Zone string `json:"zone,omitempty"`
	// State is the storage system's own word for its state; "" where the list has none.
	State string `json:"state,omitempty"`
	// Shared reports whether several machines may have it.
	Shared bool `json:"shared,omitempty"`
	// Silent reports whether the list does not show to what it is attached.
	Silent bool `json:"silent,omitempty"`
	// Only are the only machines to which the volume can be attached, sorted; none where the
	// list does not show them. LINSTOR's rows do not show to which of them it is attached: the
	// volume is Silent. Longhorn's show the one, but perhaps not what it is attached for.
	Only []string `json:"only,omitempty"`
	// Attachments are sorted by machine.
	Attachments []Attachment `json:"attachments,omitempty"`
	// MadeFor says for which object a provisioner made it; nil where the list does not show
	// that.
	MadeFor *MadeFor `json:"madeFor,omitempty"`
	// Created is when it was made; nil where the list does not show that.
	Created *time.Time `json:"created,omitempty"`
	// GiB is its size; 0 where the list does not have it.
	GiB int64 `json:"gib,omitempty"`
	// Detached is when a volume that is attached to nothing was detached; nil where the list
	// does not have it. Copying the list makes it no younger.
	Detached *time.Time `json:"detached,omitempty"`
}

// Attachment is a machine that has the volume, or is about to get or lose it.
type Attachment struct {
	// Machine is the storage system's name for it, as Machine writes it.
	Machine string `json:"machine"`
	// State is "" where the volume is attached, and else the storage system's word for the
	// change under way.
	State string `json:"state,omitempty"`
	// Since is when it was attached; nil where the list does not have it.
	Since *time.Time `json:"since,omitempty"`
}

// Settled reports whether the list shows to which machines the volume is attached, and no
// change is under way.
func (v Volume) Settled() bool {
	return !v.Silent && !slices.ContainsFunc(v.Attachments, func(a Attachment) bool { return a.State != "" })
}

// Find returns the volume with the driver's handle.
func (l *List) Find(driver, handle string) (Volume, bool) {
	if !l.Format.Of(driver) {
		return Volume{}, false
	}
	i, found := slices.BinarySearchFunc(l.Volumes, l.Format.Handle(handle), func(v Volume, id string) int { return cmp.Compare(v.ID, id) })
	if !found {
		return Volume{}, false
	}
	return l.Volumes[i], true
}

// Handle is the handle in a spelling that is the same for equal handles: Azure's and
// LINSTOR's do not differ by case.
func (f Format) Handle(handle string) string {
	if f == Azure || f == LINSTOR {
		return strings.ToLower(handle)
	}
	return handle
}

// Machines are the names under which the list may have a node's machine: by the id from its
// driver and the id of its provider, either of which may be "", and by its name, which only
// CSI and Text use. Without a name no machine in the list can be identified with the node's, or
// excluded.
func (f Format) Machines(node, driverID, providerID string) []string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	last := providerID[strings.LastIndex(providerID, "/")+1:]
	switch f {
	case AWS:
		for _, id := range []string{driverID, last} {
			if strings.HasPrefix(id, "i-") {
				add(id)
			}
		}
	case Azure:
		if path, ok := strings.CutPrefix(strings.ToLower(providerID), "azure://"); ok {
			add(azureMachine(path))
		}
	case Google:
		if strings.HasPrefix(driverID, "projects/") {
			add(driverID)
		}
		if path, ok := strings.CutPrefix(providerID, "gce://"); ok {
			if parts := strings.Split(path, "/"); len(parts) == 3 {
				add("projects/" + parts[0] + "/zones/" + parts[1] + "/instances/" + parts[2])
			}
		}
	case OpenStack, Hetzner:
		add(driverID)
		add(last)
	case CSI:
		add(driverID)
		add(node) // in place of its id, as in two columns of text
	case Longhorn, Trident, CStor, Jiva:
		add(driverID)
	case LINSTOR:
		add(strings.ToLower(driverID))
	case Text:
		add(driverID)
		add(providerID)
		add(last)
		add(node)
	}
	return names
}

// Sort puts the volumes into the order in which they are searched. A volume that occurs twice
// with different content becomes silent.
func (l *List) Sort() {
	for i := range l.Volumes {
		slices.SortFunc(l.Volumes[i].Attachments, func(a, b Attachment) int {
			return cmp.Or(cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.State, b.State))
		})
		slices.Sort(l.Volumes[i].Only)
	}
	slices.SortStableFunc(l.Volumes, func(a, b Volume) int { return cmp.Compare(a.ID, b.ID) })
	kept := l.Volumes[:0]
	for _, v := range l.Volumes {
		if last := len(kept) - 1; last >= 0 && kept[last].ID == v.ID {
			if !Same(kept[last], v) {
				kept[last] = Volume{ID: v.ID, Silent: true}
			}
			continue
		}
		kept = append(kept, v)
	}
	l.Volumes = kept
	slices.Sort(l.Scope)
	l.Scope = slices.Compact(l.Scope)
}

// Check returns an error for a list in a snapshot that Read would not have made.
func (l *List) Check() error {
	_, known := drivers[l.Format]
	if !known && !l.Format.AnyDriver() {
		return fmt.Errorf("format %q is not known", short(string(l.Format)))
	}
	if l.Taken.IsZero() || l.File != "-" && !IsName(strings.ReplaceAll(l.File, " ", "_")) {
		return errors.New("its time or its file is missing")
	}
	for _, v := range l.Volumes {
		if err := v.check(); err != nil {
			return err
		}
		placed := l.Format == LINSTOR && v.Silent && len(v.Attachments) == 0
		if len(v.Only) > 0 && !placed && (l.Format != Longhorn || len(v.Attachments) != 1) {
			return fmt.Errorf("volume %s does not say what a list of format %s says", v.ID, l.Format)
		}
	}
	return nil
}

// SameList reports whether the other is a further part of this list.
func (l *List) SameList(o *List) bool {
	return l.File == o.File && l.Format == o.Format && l.Taken.Equal(o.Taken) && l.Partial == o.Partial && l.Mixed == o.Mixed && slices.Equal(l.Scope, o.Scope)
}

// Same reports whether both have the volume attached in the same way.
func Same(a, b Volume) bool {
	a.MadeFor, a.Created, a.GiB = nil, nil, 0
	b.MadeFor, b.Created, b.GiB = nil, nil, 0
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
