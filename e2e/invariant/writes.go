package invariant

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// exempt says that an event is no write to anything that is repaired: a read, an
// access review, an event about a repair, a dry run.
func exempt(e *auditv1.Event) bool {
	if e.ObjectRef == nil || slices.Contains([]string{"get", "list", "watch"}, e.Verb) {
		return true
	}
	switch e.ObjectRef.Resource {
	case "events", "selfsubjectaccessreviews":
		return true
	}
	if uri, err := url.ParseRequestURI(e.RequestURI); err == nil && uri.Query().Has("dryRun") {
		return true
	}
	var options metav1.DeleteOptions
	return e.Verb == repair.VerbDelete && json.Unmarshal(body(e), &options) == nil && len(options.DryRun) > 0
}

func body(e *auditv1.Event) []byte {
	if e.RequestObject == nil {
		return nil
	}
	return e.RequestObject.Raw
}

func stored(e *auditv1.Event) bool { return e.ResponseStatus != nil && e.ResponseStatus.Code < 300 }

func name(e *auditv1.Event) string {
	text := e.Verb + " of " + e.ObjectRef.Resource + " " + e.ObjectRef.Name
	return text + " (" + string(e.AuditID) + ")"
}

// write looks at one write of a doctor, whatever became of it.
func (c *checker) write(e *auditv1.Event) {
	if !conditional(e) {
		c.violated(Conditional, "the %s was sent as %s", name(e), body(e))
	}
	if sent := c.Sent[string(e.AuditID)]; !announced(sent.Journal, e) {
		c.violated(Journaled, "the %s was sent, and of %d entries of the journal none announced it", name(e), len(sent.Journal))
	}
	if stored(e) {
		c.wanted(e)
		c.trueEntries(e)
	}
}

// step is one of a JSON patch.
type step struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

func steps(e *auditv1.Event) []step {
	var list []step
	if json.Unmarshal(body(e), &list) != nil {
		return nil // a merge patch, or no patch
	}
	return list
}

// conditional says that the write names the object and the state of it that it
// was worked out on.
func conditional(e *auditv1.Event) bool {
	switch e.Verb {
	case repair.VerbCreate:
		var object metav1.PartialObjectMetadata
		return json.Unmarshal(body(e), &object) == nil && object.Name != ""
	case repair.VerbDelete:
		var options metav1.DeleteOptions
		if json.Unmarshal(body(e), &options) != nil || options.Preconditions == nil {
			return false
		}
		uid, version := options.Preconditions.UID, options.Preconditions.ResourceVersion
		return uid != nil && *uid != "" && version != nil && *version != ""
	case repair.VerbPatch:
		var merge metav1.PartialObjectMetadata
		if json.Unmarshal(body(e), &merge) == nil {
			return merge.UID != "" && merge.ResourceVersion != ""
		}
		has := func(op, path string) bool {
			return slices.ContainsFunc(steps(e), func(s step) bool { return s.Op == op && s.Path == path && len(s.Value) > len(`""`) })
		}
		return has("test", "/metadata/uid") && has("replace", "/metadata/resourceVersion")
	}
	return false
}

// announced says that the journal has the intent for exactly this write, and no
// outcome of it yet.
func announced(journal []repair.Entry, e *auditv1.Event) bool {
	ended := map[int]bool{}
	for _, entry := range journal {
		ended[entry.Write] = ended[entry.Write] || entry.Type == repair.Ended
	}
	return slices.ContainsFunc(journal, func(entry repair.Entry) bool {
		op := entry.Operation
		return entry.Type == repair.Intent && !ended[entry.Write] && op != nil &&
			op.Verb == e.Verb && repair.Resource(op.Target.Kind) == e.ObjectRef.Resource && op.Target.Namespace == e.ObjectRef.Namespace &&
			op.Subresource == e.ObjectRef.Subresource && sameBody(op, e)
	})
}

func sameBody(op *repair.Operation, e *auditv1.Event) bool {
	switch op.Verb {
	case repair.VerbPatch:
		return op.Target.Name == e.ObjectRef.Name && sameJSON(op.Patch, body(e))
	case repair.VerbDelete:
		var options metav1.DeleteOptions
		return op.Target.Name == e.ObjectRef.Name && json.Unmarshal(body(e), &options) == nil && options.Preconditions != nil &&
			options.Preconditions.UID != nil && *options.Preconditions.UID == op.Target.UID &&
			options.Preconditions.ResourceVersion != nil && *options.Preconditions.ResourceVersion == op.Target.ResourceVersion
	}
	// The audit log has what is created with the API server's defaults.
	var object storagev1.VolumeAttachment
	var meant storagev1.VolumeAttachment
	return json.Unmarshal(body(e), &object) == nil && json.Unmarshal(op.Object, &meant) == nil &&
		object.Name == op.Target.Name && object.Name == meant.Name &&
		object.Spec.Attacher == meant.Spec.Attacher && object.Spec.NodeName == meant.Spec.NodeName
}

func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// wanted is about the deletion of a VolumeAttachment, and about taking the
// finalizer off that keeps one.
func (c *checker) wanted(e *auditv1.Event) {
	if e.ObjectRef.Resource != "volumeattachments" || e.ObjectRef.Subresource != "" {
		return
	}
	strips := e.Verb == repair.VerbPatch && bytes.Contains(body(e), []byte("finalizers"))
	if e.Verb != repair.VerbDelete && !strips {
		return
	}
	looked := c.Sent[string(e.AuditID)].Looked
	for _, w := range c.world.wants {
		if w.attachment == e.ObjectRef.Name && w.span.at(looked) && w.span.at(e.StageTimestamp.Time) {
			c.violated(Wanted, "the %s, when pod %s had wanted it since %s", name(e), w.pod, clock(w.span.from))
		}
	}
}

func (c *checker) trueEntries(e *auditv1.Event) {
	if e.ObjectRef.Resource != "nodes" || e.ObjectRef.Subresource != "status" {
		return
	}
	for _, s := range steps(e) {
		if s.Op != "add" || !strings.HasPrefix(s.Path, "/status/volumesAttached") {
			continue
		}
		var entries []corev1.AttachedVolume
		var entry corev1.AttachedVolume
		if json.Unmarshal(s.Value, &entries) != nil && json.Unmarshal(s.Value, &entry) == nil {
			entries = append(entries, entry)
		}
		for _, entry := range entries {
			_, handle, _ := reconcile.ParseCSI(entry.Name)
			there := slices.ContainsFunc(published(c.Calls)[handle], func(p place) bool {
				return p.machine == c.machine(e.ObjectRef.Name) && p.span.at(e.StageTimestamp.Time)
			})
			if !there {
				c.violated(TrueEntry, "the %s added %s, which was not attached to %s", name(e), entry.Name, c.machine(e.ObjectRef.Name))
			}
		}
	}
}

func explained(r Rerun) bool {
	return slices.ContainsFunc(r.Unless, func(words string) bool { return strings.Contains(r.Said, words) })
}
