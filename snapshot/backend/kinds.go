package backend

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is one kind of a driver's own objects that are read from a cluster.
type Kind struct {
	// Driver is the CSI driver whose objects they are.
	Driver string
	Format Format
	// Group and Version are those of their API. Where Version is "" the cluster's preferred
	// one is used.
	Group, Version string
	Resource, Kind string
}

// Kinds are the kinds that are read from a cluster, by driver. Trident's volumes, which may
// hold passwords, are not among them: its publications are enough where all are known.
var Kinds = []Kind{
	{"driver.longhorn.io", Longhorn, "longhorn.io", "v1beta2", "volumes", "Volume"},
	{"driver.longhorn.io", Longhorn, "longhorn.io", "v1beta2", "volumeattachments", "VolumeAttachment"},
	{"csi.trident.netapp.io", Trident, "trident.netapp.io", "v1", "tridentvolumepublications", "TridentVolumePublication"},
	{"linstor.csi.linbit.com", LINSTOR, "internal.linstor.linbit.com", "", "resources", "Resources"},
	{"cstor.csi.openebs.io", CStor, "cstor.openebs.io", "v1", "cstorvolumeattachments", "CStorVolumeAttachment"},
	{"jiva.csi.openebs.io", Jiva, "openebs.io", "v1", "jivavolumes", "JivaVolume"},
}

// OfTool reports whether lists of the format are a tool's answer or written by hand, and not made
// from a driver's objects.
func (f Format) OfTool() bool {
	return f == Text || slices.ContainsFunc(readers, func(r reader) bool { return r.format == f })
}

// objectsFile names a list that was made from the objects of the cluster.
func (f Format) objectsFile() string { return string(f) + " (objects)" }

// IsGiven reports whether somebody gave the list, and not the cluster with its other objects.
func (l *List) IsGiven() bool { return l.File != l.Format.objectsFile() }

// ByDriver yields, for one driver after the other, its kinds.
func ByDriver(yield func([]Kind) bool) {
	for kinds := Kinds; len(kinds) > 0; {
		n := slices.IndexFunc(kinds, func(k Kind) bool { return k.Driver != kinds[0].Driver })
		if n < 0 {
			n = len(kinds)
		}
		if !yield(kinds[:n]) {
			return
		}
		kinds = kinds[n:]
	}
}

// Preferred is the preferred version in an API server's answer about a group.
func Preferred(text []byte) (string, error) {
	var answer struct {
		Preferred struct {
			Version string `json:"version"`
		} `json:"preferredVersion"`
	}
	strange := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	err := decode(text, &answer)
	if v := answer.Preferred.Version; err != nil || v == "" || len(v) > 64 || strings.ContainsFunc(v, strange) {
		return "", errors.New("the answer about an API group names no version")
	}
	return answer.Preferred.Version, nil
}

// IsDrivers reports whether the type is one of a driver's own objects that show where a
// volume is attached.
func IsDrivers(apiVersion, kind string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group == "trident.netapp.io" && kind == "TridentVolume" ||
		slices.ContainsFunc(Kinds, func(k Kind) bool { return k.Group == group && k.Kind == kind })
}

// AddPage adds a page of an API server's list of the kind. next is the token of the next
// page. An answer of any other type is an error, because a missing object would count as
// absent.
func (o *Objects) AddPage(k Kind, text []byte) (objects int, next string, err error) {
	var page struct {
		Metadata struct {
			Continue string `json:"continue"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := decode(text, &page); err != nil {
		return 0, "", err
	}
	if page.Items == nil {
		return 0, "", fmt.Errorf("the answer is no list of %s", k.Resource)
	}
	for _, raw := range page.Items {
		var head objectHead
		if err := decode(raw, &head); err != nil {
			return 0, "", err
		}
		if group, _, _ := strings.Cut(head.APIVersion, "/"); group != k.Group || head.Kind != k.Kind {
			return 0, "", fmt.Errorf("the list of %s has an object of kind %q", k.Resource, short(head.Kind))
		}
		if err := o.Add(raw); err != nil {
			return 0, "", err
		}
	}
	return len(page.Items), page.Metadata.Continue, nil
}

// Complete adds those handles of the list's driver that a complete list of Trident's
// publications lacks: their volumes are published nowhere.
func (l *List) Complete(handles []string) {
	if l.Format != Trident {
		return
	}
	var added []Volume
	for _, handle := range handles {
		if _, found := l.Find(drivers[Trident][0], handle); !found && IsName(handle) {
			added = append(added, Volume{ID: handle})
		}
	}
	l.Volumes = append(l.Volumes, added...)
	l.Sort()
}
