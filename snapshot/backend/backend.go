// Package backend reads what a storage system itself says about its volumes, from the
// list that its own command line tool prints, or from its driver's own objects: which
// volume is attached to which machine. It is a source beyond the API: what it lacks proves nothing.
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

// Format is whose list it is.
type Format string

// The lists that are read.
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

// drivers are the CSI drivers whose volumes a list has. The volumes of CSI and Text may
// be any driver's.
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

// AnyDriver reports whether the list does not name the driver of its volumes.
func (f Format) AnyDriver() bool { return f == CSI || f == Text }

// Of reports whether the list can have the driver's volumes.
func (f Format) Of(driver string) bool { return f.AnyDriver() || slices.Contains(drivers[f], driver) }

// Drivers are those whose volumes the list has, the usual one first; none where it does not
// name them.
func (f Format) Drivers() []string { return drivers[f] }

// List is what one file says.
type List struct {
	// File is the name under which it was given.
	File   string `json:"file"`
	Format Format `json:"format"`
	// Taken is the latest moment at which the storage system can have said it: when
	// the file was written.
	Taken time.Time `json:"taken"`
	// Scope are the regions, zones or projects of its volumes, sorted; none where the
	// list does not name them.
	Scope []string `json:"scope,omitempty"`
	// Partial says that the list itself has further pages.
	Partial bool `json:"partial,omitempty"`
	// Volumes are sorted by ID. Each ID stands once.
	Volumes []Volume `json:"volumes,omitempty"`
}

// Volume is a volume as the storage system has it.
type Volume struct {
	// ID is the handle that the driver gives the volume, as Handle writes it.
	ID string `json:"id"`
	// State is the storage system's own word for it, "" where the list has none.
	State string `json:"state,omitempty"`
	// Shared says that several machines may have it.
	Shared bool `json:"shared,omitempty"`
	// Silent says that the list does not tell to what it is attached.
	Silent bool `json:"silent,omitempty"`
	// Only are the machines that alone can have the volume attached, sorted; none where
	// the list does not tell. To which of them it is attached such a list does not tell:
	// the volume is Silent.
	Only []string `json:"only,omitempty"`
	// Attachments are sorted by machine.
	Attachments []Attachment `json:"attachments,omitempty"`
	// MadeFor is for whom a provisioner made it, nil where the list does not say.
	MadeFor *MadeFor `json:"madeFor,omitempty"`
	// Created is when it was made, nil where the list does not say.
	Created *time.Time `json:"created,omitempty"`
	// GiB is its size, 0 where the list does not say.
	GiB int64 `json:"gib,omitempty"`
	// Detached is when a volume that is attached to nothing was detached, nil where the
	// list does not say. What was copied is no younger for it.
	Detached *time.Time `json:"detached,omitempty"`
}

// Attachment is a machine that has the volume, or is about to have or lose it.
type Attachment struct {
	// Machine is the storage system's name for it, as Machine writes it.
	Machine string `json:"machine"`
	// State is "" where the volume is attached, and else the storage system's word
	// for what is under way.
	State string `json:"state,omitempty"`
	// Since is when it was attached, nil where the list does not say.
	Since *time.Time `json:"since,omitempty"`
}

// Settled reports whether the list tells to which machines the volume is attached, and that
// it is not about to change.
func (v Volume) Settled() bool {
	return !v.Silent && !slices.ContainsFunc(v.Attachments, func(a Attachment) bool { return a.State != "" })
}

// Find is the volume that the driver calls by the handle.
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

// Handle is a volume handle in the spelling in which equal ones are the same: Azure's
// and LINSTOR's are alike in whatever case.
func (f Format) Handle(handle string) string {
	if f == Azure || f == LINSTOR {
		return strings.ToLower(handle)
	}
	return handle
}

// Machines are the names under which the list may have the machine of a node: by the
// id that its driver gave it and by its provider's id, either may be "", and by its
// name, which only Text uses. Without any, nothing in the list can be told to be that
// machine, or not to be.
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
			add(path)
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
	case CSI, Longhorn, Trident, CStor, Jiva:
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

// Sort puts the volumes into the order in which they are searched. One that stands
// twice with different words says nothing.
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

// Check says what is wrong with a list that a snapshot has kept.
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
		if len(v.Only) > 0 && (l.Format != LINSTOR || !v.Silent || len(v.Attachments) > 0) {
			return fmt.Errorf("volume %s does not say what a list of format %s says", v.ID, l.Format)
		}
	}
	return nil
}

// SameList reports whether the other is a further part of the list.
func (l *List) SameList(o *List) bool {
	return l.File == o.File && l.Format == o.Format && l.Taken.Equal(o.Taken) && l.Partial == o.Partial && slices.Equal(l.Scope, o.Scope)
}

// Same reports whether the two say the same of where a volume is attached.
func Same(a, b Volume) bool {
	a.MadeFor, a.Created, a.GiB = nil, nil, 0
	b.MadeFor, b.Created, b.GiB = nil, nil, 0
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
