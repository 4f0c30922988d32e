// Package conformance asks the attach/detach controllers of several Kubernetes releases what
// they do with a cluster, and compares the answer of package reconcile for the same release
// with each, row by row.
//
// Both sides read the same random objects: the controller, in the oracle of its release,
// through a fake clientset and its own informers; the model as a snapshot. Each side's answer
// becomes an Answer, and Compare lists where the two differ.
//
//	go test ./conformance -v -clusters 5000 -seed 1 -releases v1.30.14,v1.37.0
//
// prints the counts of the comparison. The first cluster that differs is shrunk and printed
// as a snapshot file, which can be kept as a case under testdata/cases. The controller is
// right by definition: a difference is corrected in package reconcile, or is something that
// upstream leaves to chance, and then must be a Tolerance for no more than its own rows.
package conformance

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// now is the time at which every cluster is read.
var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// Cluster is the input of both sides.
type Cluster struct {
	snapshot.Objects
	DisableForceDetachOnTimeout bool
	// FeatureGates are the gates of kube-controller-manager that are set.
	FeatureGates map[string]bool
	// Live are the nodes that the API server has, where the controller's cache, which is
	// Objects, is behind; nil where it is not.
	Live []*corev1.Node
	// Ahead are the behaviours that the controller has and its release does not.
	Ahead []reconcile.Behaviour
}

// Options are the model's options, with the oracle's settings.
func (c *Cluster) Options() reconcile.Options {
	options := reconcile.Options{
		DisableForceDetachOnTimeout: c.DisableForceDetachOnTimeout,
		FlexAttachable:              flexAttachable(),
		FeatureGates:                c.FeatureGates,
		Ahead:                       c.Ahead,
	}
	for _, node := range c.Live {
		if options.LiveNodes == nil {
			options.LiveNodes = map[types.NodeName]*corev1.Node{}
		}
		options.LiveNodes[types.NodeName(node.Name)] = node
	}
	return options
}

// flexAttachable are the flexvolume drivers that attach, by name.
func flexAttachable() []string {
	var names []string
	for dir, attach := range wire.FlexCapabilities {
		if attach {
			names = append(names, strings.Replace(dir, "~", "/", 1))
		}
	}
	slices.Sort(names)
	return names
}

// In is the cluster as an API server of the release stores it: up to 1.30 it drops an image
// volume as unknown, and takes a volume without a source for an emptyDir.
func (c *Cluster) In(release Release) *Cluster {
	if release.Minor() > 30 {
		return c
	}
	in := *c
	in.Pods = slices.Clone(c.Pods)
	for i, pod := range in.Pods {
		for j := range pod.Spec.Volumes {
			if pod.Spec.Volumes[j].Image == nil {
				continue
			}
			in.Pods[i] = in.Pods[i].DeepCopy()
			in.Pods[i].Spec.Volumes[j].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
	}
	return &in
}

func (c *Cluster) node(name types.NodeName) *corev1.Node {
	return named(c.Nodes, func(n *corev1.Node) bool { return n.Name == string(name) })
}

func (c *Cluster) volume(name string) *corev1.PersistentVolume {
	return named(c.Volumes, func(pv *corev1.PersistentVolume) bool { return pv.Name == name })
}

func (c *Cluster) claim(namespace, name string) *corev1.PersistentVolumeClaim {
	return named(c.Claims, func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Namespace == namespace && claim.Name == name
	})
}

// named is the first item that is reports; nil where there is none.
func named[T any](list []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}

// Snapshot is a copy of the objects for the model.
func (c *Cluster) Snapshot(release Release) *snapshot.Snapshot {
	objects := snapshot.Objects{}
	from, to := reflect.ValueOf(c.Objects), reflect.ValueOf(&objects).Elem()
	for i := range from.NumField() {
		list := from.Field(i)
		for j := range list.Len() {
			object := list.Index(j).Interface().(runtime.Object)
			to.Field(i).Set(reflect.Append(to.Field(i), reflect.ValueOf(object.DeepCopyObject())))
		}
	}
	return snapshot.New(now, snapshot.Source{ServerVersion: string(release)}, objects, nil)
}

// All returns a copy of every object.
func (c *Cluster) All() []runtime.Object {
	var all []runtime.Object
	lists := reflect.ValueOf(c.Objects)
	for i := range lists.NumField() {
		for j := range lists.Field(i).Len() {
			all = append(all, lists.Field(i).Index(j).Interface().(runtime.Object).DeepCopyObject())
		}
	}
	return all
}

// YAML is the cluster as a snapshot file.
func (c *Cluster) YAML(release Release) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: volume-doctor/v1\nkind: Snapshot\ntakenAt: %q\nserverVersion: %s\ncomplete: [%s]\n",
		now.Format(time.RFC3339), release, joinKinds(snapshot.Kinds()))
	for _, object := range c.All() {
		if kinds, _, err := scheme.Scheme.ObjectKinds(object); err == nil {
			object.GetObjectKind().SetGroupVersionKind(kinds[0])
		}
		out, err := yaml.Marshal(object)
		if err != nil {
			out = []byte("# " + err.Error() + "\n")
		}
		fmt.Fprintf(&b, "---\n%s", out)
	}
	return b.String()
}

func joinKinds(kinds []snapshot.Kind) string {
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = string(kind)
	}
	return strings.Join(names, ", ")
}

// Shrink removes objects, and then parts of nodes and pods, for as long as the rest still
// fails.
func Shrink(c *Cluster, fails func(*Cluster) bool) *Cluster {
	for {
		smaller := shrinkOnce(c, fails)
		if smaller == nil {
			return c
		}
		c = smaller
	}
}

// shrinkOnce removes one thing; nil where nothing can be removed.
func shrinkOnce(c *Cluster, fails func(*Cluster) bool) *Cluster {
	lists := reflect.TypeFor[snapshot.Objects]()
	for i := range lists.NumField() {
		for j := reflect.ValueOf(c.Objects).Field(i).Len() - 1; j >= 0; j-- {
			candidate := *c
			list := reflect.ValueOf(&candidate.Objects).Elem().Field(i)
			rest := reflect.MakeSlice(list.Type(), 0, list.Len())
			rest = reflect.AppendSlice(rest, list.Slice(0, j))
			list.Set(reflect.AppendSlice(rest, list.Slice(j+1, list.Len())))
			if fails(&candidate) {
				return &candidate
			}
		}
	}
	for i := range c.Nodes {
		for _, cut := range nodeCuts(c.Nodes[i]) {
			candidate := *c
			candidate.Nodes = slices.Clone(c.Nodes)
			candidate.Nodes[i] = cut
			if fails(&candidate) {
				return &candidate
			}
		}
	}
	for i := range c.Pods {
		for v := range c.Pods[i].Spec.Volumes {
			candidate := *c
			candidate.Pods = slices.Clone(c.Pods)
			candidate.Pods[i] = c.Pods[i].DeepCopy()
			candidate.Pods[i].Spec.Volumes = slices.Delete(candidate.Pods[i].Spec.Volumes, v, v+1)
			if fails(&candidate) {
				return &candidate
			}
		}
	}
	return nil
}

// nodeCuts are the node with one list entry less.
func nodeCuts(node *corev1.Node) []*corev1.Node {
	var cuts []*corev1.Node
	cut := func(f func(*corev1.Node)) {
		c := node.DeepCopy()
		f(c)
		cuts = append(cuts, c)
	}
	for i := range node.Status.VolumesAttached {
		cut(func(n *corev1.Node) { n.Status.VolumesAttached = slices.Delete(n.Status.VolumesAttached, i, i+1) })
	}
	for i := range node.Status.VolumesInUse {
		cut(func(n *corev1.Node) { n.Status.VolumesInUse = slices.Delete(n.Status.VolumesInUse, i, i+1) })
	}
	for i := range node.Spec.Taints {
		cut(func(n *corev1.Node) { n.Spec.Taints = slices.Delete(n.Spec.Taints, i, i+1) })
	}
	return cuts
}
