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
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// exempt reports whether an event is no write to anything that is repaired: a read, an
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
	sent := c.Sent[string(e.AuditID)]
	if !announced(sent.Journal, e) {
		c.violated(Journaled, "the %s was sent, and of %d entries of the journal none announced it", name(e), len(sent.Journal))
	}
	if sent.Reviewed != nil && !slices.ContainsFunc(sent.Reviewed, func(op repair.Operation) bool { return asReviewed(&op, e) }) {
		c.violated(Approved, "the %s was sent as %s, which is none of the %d reviewed", name(e), body(e), len(sent.Reviewed))
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

// conditional reports whether the write names the object and the state of it that it
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

// announced reports whether the journal has the intent for exactly this write, and no
// outcome of it yet.
func announced(journal []apply.Entry, e *auditv1.Event) bool {
	ended := map[int]bool{}
	for _, entry := range journal {
		ended[entry.Write] = ended[entry.Write] || entry.Type == apply.Ended
	}
	key := eventKey(e)
	return slices.ContainsFunc(journal, func(entry apply.Entry) bool {
		return entry.Type == apply.Intent && !ended[entry.Write] && entry.Operation != nil && opKey(entry.Operation) == key
	})
}

// asReviewed reports whether the write is the one that was reviewed. Only the
// resourceVersion may differ, because the object may have been written since.
func asReviewed(op *repair.Operation, e *auditv1.Event) bool {
	later := *op
	switch e.Verb {
	case repair.VerbDelete:
		var options metav1.DeleteOptions
		if json.Unmarshal(body(e), &options) != nil || options.Preconditions == nil || options.Preconditions.ResourceVersion == nil {
			return false
		}
		later.Target.ResourceVersion = *options.Preconditions.ResourceVersion
	case repair.VerbPatch:
		now := steps(e)
		var reviewed []step
		if json.Unmarshal(op.Patch, &reviewed) != nil || len(reviewed) != len(now) {
			return false
		}
		for i := range reviewed {
			if reviewed[i].Path == "/metadata/resourceVersion" && now[i].Path == reviewed[i].Path {
				reviewed[i].Value = now[i].Value
			}
		}
		sent, err := json.Marshal(now)
		if err != nil {
			return false
		}
		patch, err := json.Marshal(reviewed)
		if err != nil || string(sent) != string(patch) {
			return false
		}
		later.Patch = body(e)
	}
	return opKey(&later) == eventKey(e)
}

// opKey is the same for an operation and for the request that it was sent as
// (eventKey), and different for any other: the verb, the object and what is to
// become of it.
func opKey(op *repair.Operation) string {
	var content string
	switch op.Verb {
	case repair.VerbPatch:
		content = compacted(op.Patch)
	case repair.VerbDelete:
		content = string(op.Target.UID) + " " + op.Target.ResourceVersion
	case repair.VerbCreate:
		content = creationKey(op.Object)
	}
	return writeKey(op.Verb, repair.Resource(op.Target.Kind), op.Subresource, op.Target.Namespace, op.Target.Name, content)
}

func eventKey(e *auditv1.Event) string {
	ref, object := e.ObjectRef, e.ObjectRef.Name
	var content string
	switch e.Verb {
	case repair.VerbPatch:
		content = compacted(body(e))
	case repair.VerbDelete:
		var options metav1.DeleteOptions
		if p := &options.Preconditions; json.Unmarshal(body(e), &options) == nil && *p != nil && (*p).UID != nil && (*p).ResourceVersion != nil {
			content = string(*(*p).UID) + " " + *(*p).ResourceVersion
		}
	case repair.VerbCreate:
		content, object = creationKey(body(e)), nameIn(body(e))
	}
	return writeKey(e.Verb, ref.Resource, ref.Subresource, ref.Namespace, object, content)
}

func writeKey(verb, resource, subresource, namespace, name, content string) string {
	return verb + " " + target(resource, subresource, namespace, name) + " " + content
}

// target is two words.
func target(resource, subresource, namespace, name string) string {
	return resource + "/" + subresource + " " + namespace + "/" + name
}

func targetOf(e *auditv1.Event) string {
	name := e.ObjectRef.Name
	if e.Verb == repair.VerbCreate && name == "" {
		name = nameIn(body(e))
	}
	return target(e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Namespace, name)
}

// creationKey leaves out what the audit log has and nobody sent: the API server's
// defaults.
func creationKey(object []byte) string {
	var va storagev1.VolumeAttachment
	if json.Unmarshal(object, &va) != nil {
		return ""
	}
	return va.Spec.Attacher + " " + va.Spec.NodeName
}

func nameIn(object []byte) string {
	var meta metav1.PartialObjectMetadata
	_ = json.Unmarshal(object, &meta) // what is no object has no name
	return meta.Name
}

func compacted(text []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return ""
	}
	return b.String()
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
