package snapshot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// clusters tells files of different clusters apart. If they were read as one, a pod would seem to
// lack a volume that the other cluster never had.
type clusters struct {
	kubeSystem namedIn // nobody can delete that namespace, so a cluster keeps its UID
	nodes      map[string]namedIn
	shared     map[filePair]*sharedNodes
	differ     error
}

// namedIn is the UID of an object, and the file that showed it first.
type namedIn struct {
	uid  types.UID
	file string
}

// filePair are two files, or the folders that they are in.
type filePair struct{ a, b string }

// sharedNodes are the nodes whose names two files have in common.
type sharedNodes struct {
	same bool      // the two have a node with the same UID
	made [2]string // two nodes with different UIDs
}

// namespace notes the UID of kube-system in the file, or in the folder of a bundle.
func (c *clusters) namespace(file string, uid types.UID) {
	switch first := c.kubeSystem; {
	case uid == "":
	case first.uid == "":
		c.kubeSystem = namedIn{uid, file}
	case first.uid != uid && first.file == file:
		c.differ = fmt.Errorf("%s is of two clusters (its namespaces kube-system have different UIDs): read one at a time", plain(file))
	case first.uid != uid:
		c.differ = fmt.Errorf("%s and %s are of two clusters (their namespaces kube-system have different UIDs): read one at a time", plain(first.file), plain(file))
	}
}

// object notes a namespace that is not kept.
func (c *clusters) object(file string, raw []byte) {
	var namespace struct{ Metadata namespaceMeta }
	if json.Unmarshal(raw, &namespace) == nil && namespace.Metadata.Name == metav1.NamespaceSystem {
		c.namespace(file, namespace.Metadata.UID)
	}
}

// namespaceMeta is what is read of a Namespace.
type namespaceMeta struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// node notes the UID of a node in the file.
func (c *clusters) node(file string, node apiObject) {
	name, uid := node.GetName(), node.GetUID()
	first, ok := c.nodes[name]
	switch {
	case uid == "" || ok && first.file == file:
		return
	case !ok:
		c.nodes[name] = namedIn{uid, file}
		return
	}
	c.share(filePair{first.file, file}, name, first.uid == uid)
	if of := (filePair{path.Dir(first.file), path.Dir(file)}); of.a != of.b { // they may have a file for each node
		c.share(of, name, first.uid == uid)
	}
}

func (c *clusters) share(of filePair, name string, same bool) {
	s := c.shared[of]
	if s == nil {
		s = &sharedNodes{}
		c.shared[of] = s
	}
	switch {
	case same:
		s.same = true
	case s.made[0] == "":
		s.made[0] = name
	case s.made[0] != name:
		s.made[1] = name
	}
}

// err returns an error if two files are of different clusters. A cluster may remake a node under
// its name, so one such node proves nothing, nor do several beside one that is the same.
func (c *clusters) err() error {
	if c.differ != nil {
		return c.differ
	}
	pairs := slices.SortedFunc(maps.Keys(c.shared), func(a, b filePair) int { return cmp.Or(cmp.Compare(a.a, b.a), cmp.Compare(a.b, b.b)) })
	for _, of := range pairs {
		if s := c.shared[of]; !s.same && s.made[1] != "" {
			return fmt.Errorf("%s and %s are of two clusters, or of one before and after all its nodes were recreated (no node has the same UID in both, nodes %s and %s among them): read one at a time",
				plain(of.a), plain(of.b), plain(s.made[0]), plain(s.made[1]))
		}
	}
	return nil
}
