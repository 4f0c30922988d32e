package snapshot

import (
	"cmp"
	"iter"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// Resource describes a kind of objects. Code that needs the list of all kinds uses Resources.
type Resource struct {
	Kind Kind
	// Version and Object are the apiVersion and kind of an object, such as "storage.k8s.io/v1" and
	// "VolumeAttachment".
	Version, Object string
	Namespaced      bool
	// Optional reports whether the resource only adds evidence: if it cannot be read, there is no
	// Gap.
	Optional bool
	// Names are the names that a command accepts for the kind, the usual one first. The plural is
	// also accepted.
	Names []string
}

// GroupVersion returns Version as a GroupVersion.
func (r Resource) GroupVersion() schema.GroupVersion {
	return schema.FromAPIVersionAndKind(r.Version, r.Object).GroupVersion()
}

// Group returns the API group; "" is the core group.
func (r Resource) Group() string {
	return r.GroupVersion().Group
}

// row is a Resource and the functions for its objects.
type row struct {
	Resource
	// decode returns the object and, in strict, its duplicate fields.
	decode func(raw []byte) (object apiObject, strict []error, err error)
	// quick decodes an object in the usual form, and returns nil for any other. It is nil if the
	// kind has no usual form.
	quick func(raw []byte) apiObject
	add   func(*Objects, apiObject)
	all   func(*Objects) iter.Seq[apiObject]
	count func(*Objects) int
	// drop removes the objects for which out is true.
	drop func(o *Objects, out func(apiObject) bool)
	// newest keeps only the last state of each object.
	newest func(*Objects)
	sort   func(*Objects)
}

// resources are the kinds that a snapshot holds, in the order in which they are read and written.
// Pods come after the objects that they use. The lists are not one transaction, so a pod may be
// created between two of them; in this order it can hide a dangling attachment but not invent one.
//
// The version matters: longhorn.io also has VolumeAttachments, and nobody wants to find out during
// an outage what changed between storage.k8s.io/v1beta1 and v1.
var resources = []*row{
	newResource[storagev1.VolumeAttachment](Resource{Kind: VolumeAttachments, Version: "storage.k8s.io/v1", Names: []string{"volumeattachment", "va"}}),
	newResource[corev1.Node](Resource{Kind: Nodes, Version: "v1", Names: []string{"node", "no"}}),
	newResource[storagev1.CSINode](Resource{Kind: CSINodes, Version: "storage.k8s.io/v1"}),
	newResource[storagev1.CSIDriver](Resource{Kind: CSIDrivers, Version: "storage.k8s.io/v1"}),
	newResource[storagev1.StorageClass](Resource{Kind: StorageClasses, Version: "storage.k8s.io/v1"}),
	newResource[corev1.PersistentVolume](Resource{Kind: Volumes, Version: "v1", Names: []string{"pv", "persistentvolume"}}),
	newResource[corev1.PersistentVolumeClaim](Resource{Kind: Claims, Version: "v1", Namespaced: true, Names: []string{"pvc", "persistentvolumeclaim"}}),
	newResource[coordinationv1.Lease](Resource{Kind: Leases, Version: "coordination.k8s.io/v1", Namespaced: true}),
	newResource[corev1.Event](Resource{Kind: Events, Version: "v1", Namespaced: true}),
	newResource[corev1.Pod](Resource{Kind: Pods, Version: "v1", Namespaced: true, Names: []string{"pod", "po"}}),
	newResource[appsv1.Deployment](Resource{Kind: Deployments, Version: "apps/v1", Namespaced: true, Optional: true}),
}

// Resources returns all kinds that a snapshot holds.
func Resources() []Resource {
	list := make([]Resource, 0, len(resources))
	for _, r := range resources {
		list = append(list, r.Resource)
	}
	return list
}

// Kinds returns the kinds whose absence is a Gap, in the order of Resources.
func Kinds() []Kind {
	var kinds []Kind
	for _, r := range resources {
		if !r.Optional {
			kinds = append(kinds, r.Kind)
		}
	}
	return kinds
}

// ResourceOf returns the description of the kind, which must be one of Resources.
func ResourceOf(kind Kind) Resource { return resourceOf(kind).Resource }

// TargetNames maps the names that a command accepts, in lower case, to their kinds.
func TargetNames() map[string]Kind {
	names := map[string]Kind{}
	for _, r := range resources {
		for _, name := range r.Names {
			names[name], names[string(r.Kind)] = r.Kind, r.Kind
		}
	}
	return names
}

func resourceOf(kind Kind) *row {
	return resources[slices.IndexFunc(resources, func(r *row) bool { return r.Kind == kind })]
}

// rowNamed returns the row of a kind by its plural, its singular or another name that a command accepts, in
// lower case; nil if there is none.
func rowNamed(name string) *row {
	for _, r := range resources {
		if string(r.Kind) == name || strings.ToLower(r.Object) == name || slices.Contains(r.Names, name) {
			return r
		}
	}
	return nil
}

// ListOf returns the list of Objects whose items have type P, a pointer type.
func ListOf[P any](o *Objects) *[]P {
	lists := reflect.ValueOf(o).Elem()
	for i := range lists.NumField() {
		if list, ok := lists.Field(i).Addr().Interface().(*[]P); ok {
			return list
		}
	}
	panic("a snapshot holds no " + reflect.TypeFor[P]().String())
}

// apiObject is any object that a snapshot holds.
type apiObject interface {
	runtime.Object
	metav1.Object
}

func newResource[T any, P interface {
	*T
	apiObject
}](r Resource) *row {
	r.Object = reflect.TypeFor[T]().Name()
	return &row{
		Resource: r,
		decode: func(raw []byte) (apiObject, []error, error) {
			object := P(new(T))
			strict, err := kjson.UnmarshalStrict(raw, object, kjson.DisallowDuplicateFields)
			return object, strict, err
		},
		quick: func(raw []byte) apiObject {
			object := P(new(T))
			if jsonv2.Unmarshal(raw, object, unmarshalers) != nil {
				return nil
			}
			return object
		},
		add: func(o *Objects, object apiObject) {
			list := ListOf[P](o)
			*list = append(*list, object.(P))
		},
		all: func(o *Objects) iter.Seq[apiObject] {
			return func(yield func(apiObject) bool) {
				for _, object := range *ListOf[P](o) {
					if !yield(object) {
						return
					}
				}
			}
		},
		count: func(o *Objects) int { return len(*ListOf[P](o)) },
		drop: func(o *Objects, out func(apiObject) bool) {
			list := ListOf[P](o)
			*list = slices.DeleteFunc(*list, func(object P) bool { return out(object) })
		},
		newest: func(o *Objects) {
			list, at := ListOf[P](o), map[types.NamespacedName]int{}
			kept := (*list)[:0]
			for _, object := range *list {
				name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
				if i, ok := at[name]; ok {
					kept[i] = object
					continue
				}
				at[name] = len(kept)
				kept = append(kept, object)
			}
			clear((*list)[len(kept):])
			*list = kept
		},
		sort: func(o *Objects) {
			slices.SortStableFunc(*ListOf[P](o), func(a, b P) int {
				return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
			})
		},
	}
}
