package backend

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// MadeFor is what a provisioner wrote on a volume when it made it.
type MadeFor struct {
	// PersistentVolume is the object's name, "" where the volume does not tell.
	PersistentVolume string `json:"persistentVolume,omitempty"`
	// Claim is namespace/name, "" where the volume does not tell.
	Claim string `json:"claim,omitempty"`
	// Cluster is the mark of the cluster, "" where the volume bears none.
	Cluster string `json:"cluster,omitempty"`
}

// These are the keys under which provisioners say for whom they made a volume. EBS,
// Google's and Azure's drivers keep those of the plugins that were in the tree; Cinder's
// uses the keys of external-provisioner, and Hetzner's has its own.
var (
	volumeKeys    = []string{"kubernetes.io/created-for/pv/name", "kubernetes.io-created-for-pv-name", "csi.storage.k8s.io/pv/name", "pv-name", "CSIVolumeName"}
	claimKeys     = []string{"kubernetes.io/created-for/pvc/name", "kubernetes.io-created-for-pvc-name", "csi.storage.k8s.io/pvc/name", "pvc-name"}
	namespaceKeys = []string{"kubernetes.io/created-for/pvc/namespace", "kubernetes.io-created-for-pvc-namespace", "csi.storage.k8s.io/pvc/namespace", "pvc-namespace"}
	clusterKeys   = []string{"KubernetesCluster", cinderCluster, "goog-k8s-cluster-name"}
)

const (
	// clusterPrefix begins the key of a tag whose rest is the cluster.
	clusterPrefix = "kubernetes.io/cluster/"
	// cinderCluster stands on each volume that Cinder's driver makes, with cinderDefault where
	// nobody has named the cluster: then it tells no cluster from another.
	cinderCluster, cinderDefault = "cinder.csi.openstack.org/cluster", "kubernetes"
)

// madeFor reads the marks; nil where none says that the volume is a PersistentVolume's.
func madeFor(marks map[string]string) *MadeFor {
	first := func(keys []string) string {
		for _, key := range keys {
			if value := marks[key]; IsName(value) {
				return value
			}
		}
		return ""
	}
	m := MadeFor{PersistentVolume: first(volumeKeys), Cluster: first(clusterKeys)}
	if claim, namespace := first(claimKeys), first(namespaceKeys); claim != "" && namespace != "" {
		m.Claim = namespace + "/" + claim
	}
	if m.PersistentVolume == "" && m.Claim == "" && marks[cinderCluster] == "" {
		return nil
	}
	if m.Cluster == marks[cinderCluster] && m.Cluster == cinderDefault {
		m.Cluster = ""
	}
	for key := range marks {
		if cluster, ok := strings.CutPrefix(key, clusterPrefix); ok && IsName(cluster) && (m.Cluster == "" || cluster < m.Cluster) {
			m.Cluster = cluster
		}
	}
	return &m
}

// marks are the labels or tags that a tool prints as an object, or as a list of keys and
// values; none of any other form.
func marks(raw json.RawMessage) map[string]string {
	texts := map[string]string{}
	var pairs []struct{ Key, Value string }
	if json.Unmarshal(raw, &pairs) == nil {
		for _, pair := range pairs {
			texts[pair.Key] = pair.Value
		}
	}
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return texts
	}
	for key, value := range fields {
		if text, ok := value.(string); ok {
			texts[key] = text
		}
	}
	return texts
}

// Inventory reports whether the list has all volumes of its storage that it was asked for,
// also those that are attached to nothing. Others tell of some: two columns are a person's,
// and Trident's publications or LINSTOR's rows are of what is placed somewhere.
func (f Format) Inventory() bool {
	return slices.Contains([]Format{AWS, Azure, Google, OpenStack, Hetzner, CSI, Longhorn}, f)
}

// Place is where a volume of the handle must be for the list to have it: Azure's
// subscription and resource group, Google's project and zone. For AWS it is the zone, which
// no handle tells; the others have one place.
func (l *List) Place(handle string, zones []string) string {
	switch l.Format {
	case Azure:
		place, _, _ := strings.Cut(l.Format.Handle(handle), "/providers/")
		return place
	case Google:
		place, _, _ := strings.Cut(handle, "/disks/")
		return place
	case AWS:
		if len(zones) == 1 {
			return zones[0]
		}
		return "?"
	default:
		return ""
	}
}

// Covers reports whether the list has a volume in the place.
func (l *List) Covers(place string) bool {
	switch l.Format {
	case Azure, Google:
		return slices.ContainsFunc(l.Volumes, func(v Volume) bool { return l.Place(v.ID, nil) == place })
	case AWS:
		return slices.Contains(l.Scope, place)
	default:
		return len(l.Volumes) > 0
	}
}

// Before reports whether the volume was made at least so long before the list was taken,
// and true where the list does not tell.
func (v Volume) Before(taken time.Time, d time.Duration) bool {
	return v.Created == nil || taken.Sub(*v.Created) >= d
}
