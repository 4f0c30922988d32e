package backend

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// MadeFor has the marks that a provisioner put on a volume when it made it.
type MadeFor struct {
	// PersistentVolume is the object's name; "" where the volume does not have it.
	PersistentVolume string `json:"persistentVolume,omitempty"`
	// Claim is namespace/name; "" where the volume does not have it.
	Claim string `json:"claim,omitempty"`
	// Cluster is the mark of the cluster; "" where the volume has none.
	Cluster string `json:"cluster,omitempty"`
}

// These are the keys under which provisioners record for which object they made a volume. The
// drivers of EBS, Google and Azure keep the keys of the former in-tree plugins; Cinder's uses
// those of external-provisioner, and Hetzner's has its own.
var (
	volumeKeys    = []string{"kubernetes.io/created-for/pv/name", "kubernetes.io-created-for-pv-name", "csi.storage.k8s.io/pv/name", "pv-name", "CSIVolumeName"}
	claimKeys     = []string{"kubernetes.io/created-for/pvc/name", "kubernetes.io-created-for-pvc-name", "csi.storage.k8s.io/pvc/name", "pvc-name"}
	namespaceKeys = []string{"kubernetes.io/created-for/pvc/namespace", "kubernetes.io-created-for-pvc-namespace", "csi.storage.k8s.io/pvc/namespace", "pvc-namespace"}
	clusterKeys   = []string{"KubernetesCluster", cinderCluster, "goog-k8s-cluster-name"}
)

const (
	// clusterPrefix is the start of the key of a tag; the rest of the key is the cluster.
	clusterPrefix = "kubernetes.io/cluster/"
	// cinderCluster is on each volume that Cinder's driver makes. Its value is cinderDefault
	// where nobody has named the cluster: then it does not identify the cluster.
	cinderCluster, cinderDefault = "cinder.csi.openstack.org/cluster", "kubernetes"
)

// madeFor reads the marks; nil where none says that the volume belongs to a PersistentVolume.
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

// marks are the labels or tags, which a tool prints as an object or as a list of keys and
// values; none for any other form.
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

// Inventory reports whether a list of the format has all volumes of the storage that was
// listed, also those that are attached to nothing. The other formats have only some: two
// columns are written by a person, and Trident's publications and LINSTOR's rows are only
// about volumes that are placed somewhere.
func (f Format) Inventory() bool {
	return slices.Contains([]Format{AWS, Azure, Google, OpenStack, Hetzner, CSI, Longhorn}, f)
}

// Place is where a volume of the handle must be for the list to have it: Azure's subscription
// and resource group, Google's project and zone, or AWS's zone, which no handle shows; the
// other formats have one place.
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

// Covers reports whether the list has volumes of the place.
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

// Before reports whether the volume was made at least d before the list was taken; it is true
// where the list has no time.
func (v Volume) Before(taken time.Time, d time.Duration) bool {
	return v.Created == nil || taken.Sub(*v.Created) >= d
}
