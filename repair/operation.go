package repair

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What can become of a write. Cluster.Do wraps them, with what the API server
// said.
var (
	// ErrConflict: the object is not what the operation was worked out on. A
	// stale resourceVersion, a failed test of a patch and a wrong UID all say
	// this. Nothing was written.
	ErrConflict = errors.New("the object has changed meanwhile")
	// ErrNotFound: the object is gone. Nothing was written.
	ErrNotFound = errors.New("the object does not exist")
	// ErrForbidden: the user may not, or an admission plugin refused. Nothing
	// was written.
	ErrForbidden = errors.New("not allowed")
	// ErrUnknownOutcome: the request was sent and no answer says what became of
	// it. Only the object can tell.
	ErrUnknownOutcome = errors.New("the API server did not say whether the write was made")
)

// The verbs of an Operation, as RBAC has them.
const (
	VerbPatch  = "patch"
	VerbDelete = "delete"
)

// Operation is one write to the API server, as data.
type Operation struct {
	Verb string `json:"verb"`
	// Target is the object. Its UID and ResourceVersion are preconditions: a
	// write to another object or to a later state of it must fail. A patch
	// carries them itself as well.
	Target      corev1.ObjectReference `json:"target"`
	Subresource string                 `json:"subresource,omitempty"`
	// Patch is a JSON patch (RFC 6902).
	Patch json.RawMessage `json:"patch,omitempty"`
}

// Conditional says whether the operation names the object and the state of it
// that it was worked out on. Nothing else may be sent.
func (op Operation) Conditional() bool {
	return op.Target.UID != "" && op.Target.ResourceVersion != ""
}

// resourceVersionPath is where a JSON patch says what it was worked out on.
const resourceVersionPath = "/metadata/resourceVersion"

// patchOp is one step of a JSON patch.
type patchOp struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// patchOf begins a JSON patch with the preconditions. The UID is tested, so
// that another object of that name gives a 422. The resourceVersion is written,
// as an update would carry it: the API server then answers 409 if it is not the
// current one, while a tested one would be a 422 that says nothing.
func patchOf(meta metav1.ObjectMeta, ops ...patchOp) json.RawMessage {
	first := []patchOp{{"test", "/metadata/uid", compact(meta.UID)}}
	if meta.ResourceVersion != "" { // an empty one would ask for no check at all
		first = append(first, patchOp{"replace", resourceVersionPath, compact(meta.ResourceVersion)})
	}
	return compact(append(first, ops...))
}

// compact is json.Marshal without the escapes that only HTML needs: people read
// and paste these patches. What it is given can always be marshalled.
func compact(value any) json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("marshal %T: %v", value, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Kubectl is the operation for a shell. It has all of a patch's tests but not
// its resourceVersion: between reading a report and pasting a command the
// kubelet renews the node's status, and the tests name what must not change.
func (op Operation) Kubectl() string {
	words := []string{"kubectl", op.Verb}
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
	if op.Verb == VerbPatch {
		words = append(words, "--type=json", "-p", string(op.unversioned()))
	}
	for i, word := range words {
		words[i] = shellQuote(word)
	}
	return strings.Join(words, " ")
}

// unversioned is the patch without its resourceVersion.
func (op Operation) unversioned() json.RawMessage {
	var ops, kept []patchOp
	if err := json.Unmarshal(op.Patch, &ops); err != nil {
		return op.Patch // not this package's; shown as it is
	}
	for _, o := range ops {
		if o.Path != resourceVersionPath {
			kept = append(kept, o)
		}
	}
	return compact(kept)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// shellQuote makes one word of the text for a POSIX shell. Names come from
// files that anyone may have written.
func shellQuote(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
