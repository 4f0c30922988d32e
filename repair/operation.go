package repair

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The possible failures of a write. Cluster.Do wraps them around the API server's message.
var (
	// ErrConflict: the object is not in the state on which the operation was worked out. A
	// stale resourceVersion, a failed test of a patch, a wrong UID and a name that is already
	// taken all lead to it. Nothing was written.
	ErrConflict = errors.New("the object has changed meanwhile")
	// ErrNotFound: the object is gone. Nothing was written.
	ErrNotFound = errors.New("the object does not exist")
	// ErrForbidden: the user has no right to the write, or an admission plugin refused it.
	// Nothing was written.
	ErrForbidden = errors.New("not allowed")
	// ErrUnknownOutcome: the request was sent and no answer tells whether the write was made.
	// Only the object can show it.
	ErrUnknownOutcome = errors.New("the API server did not say whether the write was made")
)

// The verbs of an Operation, as in RBAC.
const (
	VerbPatch  = "patch"
	VerbDelete = "delete"
	VerbCreate = "create"
)

// Operation is one write to the API server, as data.
type Operation struct {
	Verb string `json:"verb"`
	// Target is the object. Its UID and ResourceVersion are preconditions: a write to another
	// object, or to a later state, must fail. A patch also carries them itself. A created object
	// has neither: its name is the precondition, as no second object can have it.
	Target      corev1.ObjectReference `json:"target"`
	Subresource string                 `json:"subresource,omitempty"`
	// Patch is a JSON patch (RFC 6902), or a merge patch (RFC 7386) where Merge is true: a
	// merge patch can add to a map that is not known as a whole.
	Patch json.RawMessage `json:"patch,omitempty"`
	Merge bool            `json:"merge,omitempty"`
	// Object is the object that is created.
	Object json.RawMessage `json:"object,omitempty"`
}

// refTo names the object in the state on which a write is worked out.
func refTo(kind snapshot.Kind, object metav1.Object) corev1.ObjectReference {
	resource := snapshot.ResourceOf(kind)
	return corev1.ObjectReference{
		APIVersion: resource.Version, Kind: resource.Object,
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}
}

// Conditional reports whether the operation names the object and the state on which it was worked
// out. Nothing else may be sent.
func (op Operation) Conditional() bool {
	if op.Verb == VerbCreate {
		return op.Target.Name != "" && len(op.Object) > 0
	}
	return op.Target.UID != "" && op.Target.ResourceVersion != ""
}

// asMade reports whether this package would have made the operation. A JSON patch has no mark
// where the object seemed to have no annotations.
func (op Operation) asMade(made Operation) bool {
	if op.Verb != made.Verb || op.Target != made.Target || op.Subresource != made.Subresource || op.Merge != made.Merge || !sameJSON(op.Object, made.Object) {
		return false
	}
	return sameJSON(op.Patch, made.Patch) || !made.Merge && sameJSON(op.Patch, without(made.Patch, markPath))
}

// sameJSON reports whether two texts have the same meaning; an empty text equals only an
// empty one.
func sameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// answered turns a check of an object into a check of the API server's answer.
func answered[T any](check func(after *T) error) func(after json.RawMessage) error {
	return func(object json.RawMessage) error {
		var after T
		if err := json.Unmarshal(object, &after); err != nil {
			return fmt.Errorf("read the API server's answer: %w", err)
		}
		return check(&after)
	}
}

// appendTo adds the item to the list and tests the list as a whole: the item goes into
// exactly the list that the guards saw. An empty list is absent from the object; a JSON patch
// tests for that with null.
func appendTo[T any](path string, list []T, item T) []patchOp {
	if len(list) == 0 {
		return []patchOp{{"test", path, Compact(nil)}, {"add", path, Compact([]T{item})}}
	}
	return []patchOp{{"test", path, Compact(list)}, {"add", path + "/-", Compact(item)}}
}

// resourceVersionPath is the path at which a JSON patch carries the state on which it was
// worked out.
const resourceVersionPath = "/metadata/resourceVersion"

// patchOp is one step of a JSON patch.
type patchOp struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// patchOf begins a JSON patch with the preconditions. It tests the UID, so that another object of
// that name gives a 422. It writes the resourceVersion, as an update would: for an old one the
// API server then answers 409, while a test of it would give a 422 without a reason.
func patchOf(meta metav1.ObjectMeta, ops ...patchOp) json.RawMessage {
	first := []patchOp{{"test", "/metadata/uid", Compact(meta.UID)}}
	if meta.ResourceVersion != "" { // an empty one would ask for no check at all
		first = append(first, patchOp{"replace", resourceVersionPath, Compact(meta.ResourceVersion)})
	}
	return Compact(append(first, ops...))
}

// Compact is json.Marshal without the escapes that only HTML needs: people read and paste
// these patches. Its argument must be one that can always be marshalled.
func Compact(value any) json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("marshal %T: %v", value, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Kubectl is the operation as a shell command, with these flags before kubectl's own. It has the
// UID and all tests of a patch, but not the resourceVersion: the kubelet renews the node's status
// before a person has pasted the command, and the tests name what must not change.
func (op Operation) Kubectl(flags ...string) string {
	switch op.Verb {
	case VerbCreate:
		return safetext.KubectlWithInput(string(op.Object), slices.Concat(flags, []string{"create", "-f", "-"})...)
	case VerbDelete:
		// The plain delete command cannot name the UID of the object.
		return safetext.KubectlWithInput(string(Compact(metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{UID: &op.Target.UID},
		})), slices.Concat(flags, []string{"delete", "--raw", op.path(), "-f", "-"})...)
	}
	words := append(slices.Clone(flags), op.Verb)
	if name := op.Target.Name; strings.HasPrefix(name, "-") {
		words = append(words, strings.ToLower(op.Target.Kind)+"/"+name) // no option
	} else {
		words = append(words, strings.ToLower(op.Target.Kind), name)
	}
	if op.Target.Namespace != "" {
		words = append(words, "--namespace="+op.Target.Namespace)
	}
	if op.Subresource != "" {
		words = append(words, "--subresource="+op.Subresource)
	}
	patchType := "json"
	if op.Merge {
		patchType = "merge"
	}
	return safetext.Kubectl(append(words, "--type="+patchType, "-p", string(op.byHand()))...)
}

// path is the path of the object at the API server.
func (op Operation) path() string {
	parts := []string{"", "api", op.Target.APIVersion}
	if strings.Contains(op.Target.APIVersion, "/") {
		parts[1] = "apis"
	}
	if op.Target.Namespace != "" {
		parts = append(parts, "namespaces", url.PathEscape(op.Target.Namespace))
	}
	return strings.Join(append(parts, Resource(op.Target.Kind), url.PathEscape(op.Target.Name)), "/")
}

// Resource is the API's resource name of a kind that repairs write to, "" for any other kind.
func Resource(kind string) string {
	for _, k := range []snapshot.Kind{snapshot.Nodes, snapshot.Pods, snapshot.Volumes, snapshot.VolumeAttachments} {
		if snapshot.ResourceOf(k).Object == kind {
			return string(k)
		}
	}
	return ""
}

// Stored returns the current object of a kind that repairs write to; nil where it is gone.
func (v *View) Stored(target corev1.ObjectReference) metav1.Object {
	switch target.Kind {
	case "Node":
		return orNil(v.Snapshot.Node(types.NodeName(target.Name)))
	case "Pod":
		return orNil(v.Snapshot.Pod(types.NamespacedName{Namespace: target.Namespace, Name: target.Name}))
	case "PersistentVolume":
		return orNil(v.Snapshot.Volume(target.Name))
	case "VolumeAttachment":
		return orNil(v.Snapshot.VolumeAttachment(target.Name))
	}
	return nil
}

// goneOrGoing reports whether the object is gone, is replaced by another of its name, or is
// being deleted.
func (v *View) goneOrGoing(target corev1.ObjectReference) bool {
	now := v.Stored(target)
	return now == nil || now.GetUID() != target.UID || now.GetDeletionTimestamp() != nil
}

func orNil[T any, P interface {
	*T
	metav1.Object
}](o P) metav1.Object {
	if o == nil {
		return nil
	}
	return o
}

// byHand is the patch without its resourceVersion and without the mark of a JSON patch, which
// would claim that this tool had written it.
func (op Operation) byHand() json.RawMessage {
	if op.Merge {
		var patch map[string]map[string]any
		if err := json.Unmarshal(op.Patch, &patch); err != nil {
			return op.Patch // not this package's; shown as it is
		}
		delete(patch["metadata"], "resourceVersion")
		return Compact(patch)
	}
	return without(op.Patch, resourceVersionPath, markPath)
}

// without is a JSON patch without its steps at these paths.
func without(patch json.RawMessage, paths ...string) json.RawMessage {
	var ops, kept []patchOp
	if err := json.Unmarshal(patch, &ops); err != nil {
		return patch // not this package's; shown as it is
	}
	for _, o := range ops {
		if !slices.Contains(paths, o.Path) {
			kept = append(kept, o)
		}
	}
	return Compact(kept)
}
