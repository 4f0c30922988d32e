package invariant

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

const (
	driver = "disk.test"
	handle = "vol-1"
	patch  = `[{"op":"test","path":"/metadata/uid","value":"u-a"},{"op":"replace","path":"/metadata/resourceVersion","value":"7"},` +
		`{"op":"test","path":"/status/volumesAttached","value":null},{"op":"add","path":"/status/volumesAttached","value":[{"name":"kubernetes.io/csi/disk.test^vol-1","devicePath":""}]}]`
)

// at is the time, in seconds from an arbitrary one.
func at(second int) time.Time { return time.Unix(1_800_000_000+int64(second), 0) }

// event is one of the audit log.
func event(second int, user, verb, resource, name, body string) auditv1.Event {
	ref := auditv1.ObjectReference{Resource: resource, Name: name}
	ref.Resource, ref.Subresource, _ = strings.Cut(resource, "/")
	if ref.Resource == "pods" || ref.Resource == "persistentvolumeclaims" {
		ref.Namespace = "shop"
	}
	e := auditv1.Event{
		AuditID: types.UID(fmt.Sprintf("%s.%d", user, second)), Verb: verb, ObjectRef: &ref, RequestURI: "/" + ref.Resource + "/" + name,
		ResponseStatus: &metav1.Status{Code: 200}, RequestReceivedTimestamp: metav1.NewMicroTime(at(second)), StageTimestamp: metav1.NewMicroTime(at(second)),
	}
	e.User.Username = user
	if body != "" {
		e.RequestObject = &runtime.Unknown{Raw: []byte(body)}
	}
	return e
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func attachmentName(node string) string { return csidriver.AttachmentName(driver, handle, node) }

// deletion is the body of a delete with its preconditions.
const deletion = `{"kind":"DeleteOptions","preconditions":{"uid":"u-va","resourceVersion":"9"}}`

// healthy is a history in which a pod wants the volume on node a from second 10
// to 60, a doctor adds the entry at second 30, the kubelet mounts, and another
// doctor deletes what is left on node b at second 5.
func healthy(t *testing.T) *History {
	t.Helper()
	pv := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}, Spec: corev1.PodSpec{NodeName: "a", Volumes: []corev1.Volume{{
		Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
	}}}}
	add := &repair.Operation{Verb: "patch", Target: corev1.ObjectReference{Kind: "Node", Name: "a", UID: "u-a", ResourceVersion: "7"}, Subresource: "status", Patch: []byte(patch)}
	remove := &repair.Operation{Verb: "delete", Target: corev1.ObjectReference{Kind: "VolumeAttachment", Name: attachmentName("b"), UID: "u-va", ResourceVersion: "9"}}
	earlier := []apply.Entry{
		{Type: apply.Intent, Write: 1, Written: repair.Written{Operation: remove}, Time: metav1.NewTime(at(4))},
		{Type: apply.Ended, Write: 1, Outcome: apply.Repaired, Time: metav1.NewTime(at(9))},
	}
	return &History{
		Doctor: "admin",
		Audit: []auditv1.Event{
			event(1, "harness", "create", "persistentvolumes", "pv-1", text(t, pv)),
			event(2, "harness", "create", "persistentvolumeclaims", "data", text(t, claim)),
			event(5, "admin", "delete", "volumeattachments", attachmentName("b"), deletion),
			event(10, "harness", "create", "pods", "web-0", text(t, pod)),
			event(29, "admin", "create", "selfsubjectaccessreviews", "", "{}"),
			event(30, "admin", "patch", "nodes/status", "a", patch),
			event(60, "harness", "delete", "pods", "web-0", ""),
		},
		Sent: map[string]Sent{
			"admin.5":  {Looked: at(4), Journal: earlier[:1]},
			"admin.30": {Looked: at(28), Journal: append(slices.Clone(earlier), apply.Entry{Type: apply.Intent, Write: 2, Written: repair.Written{Operation: add}})},
		},
		Calls: []csidriver.Call{
			{At: at(0), Publish: true, Volume: handle, Node: "b"}, {At: at(6), Volume: handle, Node: "b"},
			{At: at(12), Publish: true, Volume: handle, Node: "a"}, {At: at(70), Volume: handle, Node: "a"},
		},
		Mounts: []Mount{{Volume: handle, Node: "b", Until: at(3)}, {Volume: handle, Node: "a", From: at(31), Until: at(65)}},
		Reruns: []Rerun{{Name: "the second run"}},
		Runs:   []Run{{Name: "admin"}},
		Journals: []Journal{{Name: "admin.journal", Entries: append(slices.Clone(earlier),
			apply.Entry{Type: apply.Intent, Write: 2, Written: repair.Written{Operation: add}, Time: metav1.NewTime(at(29))},
			apply.Entry{Type: apply.Ended, Write: 2, Outcome: apply.Repaired, Time: metav1.NewTime(at(40))},
		)}},
		Peers: map[string]bool{"controller": true},
	}
}

// of is the audit event with the ID.
func (h *History) of(id string) *auditv1.Event {
	i := slices.IndexFunc(h.Audit, func(e auditv1.Event) bool { return string(e.AuditID) == id })
	return &h.Audit[i]
}

func TestHealthy(t *testing.T) {
	if violations := healthy(t).Check(); len(violations) != 0 {
		t.Error(violations)
	}
}

// TestEachFires spoils the healthy history in one place at a time.
func TestEachFires(t *testing.T) {
	fired := map[Invariant]bool{}
	for _, c := range []struct {
		what  string
		want  Invariant
		spoil func(*History)
		// also is another one that cannot hold then.
		also Invariant
	}{
		{"detached under the mount", InUse, func(h *History) { h.Mounts[1].Until = time.Time{} }, ""},
		{"detached a second before the unmount", InUse, func(h *History) { h.Mounts[1].Until = at(71) }, ""},
		{"detached from the machine that has another name than the node", InUse, func(h *History) {
			h.Mounts = []Mount{{Volume: handle, Node: "n1", From: at(31)}}
			h.Machines = map[string]string{"n1": "a"}
		}, ""},
		{"another node is fenced", InUse, func(h *History) {
			h.Mounts[1].Until, h.Fenced = time.Time{}, map[string]bool{"b": true}
		}, ""},
		{"the pod was there when the doctor looked", Wanted, func(h *History) {
			*h.of("admin.5") = event(40, "admin", "delete", "volumeattachments", attachmentName("a"), deletion)
			h.Sent["admin.40"] = Sent{Looked: at(39), Journal: []apply.Entry{{Type: apply.Intent, Write: 1, Written: repair.Written{Operation: &repair.Operation{
				Verb: "delete", Target: corev1.ObjectReference{Kind: "VolumeAttachment", Name: attachmentName("a"), UID: "u-va", ResourceVersion: "9"},
			}}}}}
		}, ""},
		{"the finalizer is taken off instead", Wanted, func(h *History) {
			strip := `[{"op":"test","path":"/metadata/uid","value":"u-va"},{"op":"replace","path":"/metadata/resourceVersion","value":"9"},{"op":"remove","path":"/metadata/finalizers"}]`
			*h.of("admin.5") = event(40, "admin", "patch", "volumeattachments", attachmentName("a"), strip)
			h.Sent["admin.40"] = Sent{Looked: at(39), Journal: []apply.Entry{{Type: apply.Intent, Write: 1, Written: repair.Written{Operation: &repair.Operation{
				Verb: "patch", Target: corev1.ObjectReference{Kind: "VolumeAttachment", Name: attachmentName("a")}, Patch: []byte(strip),
			}}}}}
		}, ""},
		{"published on a second node", OneNode, func(h *History) { h.Calls[1].At = at(13) }, ""},
		{"mounted on a second node", OneNode, func(h *History) { h.Mounts[0].Until = time.Time{} }, InUse},
		{"the entry comes before the attach", TrueEntry, func(h *History) { h.Calls[2].At = at(31) }, ""},
		{"the volume was detached meanwhile", TrueEntry, func(h *History) { h.Calls[3].At, h.Mounts = at(29), nil }, ""},
		{"the attach failed", TrueEntry, func(h *History) { h.Calls[2].Err, h.Mounts = fmt.Errorf("no"), nil }, ""},
		{"it is attached to another machine", TrueEntry, func(h *History) { h.Machines = map[string]string{"a": "a-new"} }, ""},
		{"the entry goes into a list", TrueEntry, func(h *History) {
			h.Calls = h.Calls[:2]
			change(h, "admin.30", patch, strings.Replace(strings.Replace(patch, `volumesAttached","value":[{`, `volumesAttached/-","value":{`, 1), `}]}]`, `}}]`, 1))
		}, ""},
		{"a patch without a UID", Conditional, func(h *History) {
			change(h, "admin.30", `"test","path":"/metadata/uid"`, `"test","path":"/metadata/name"`)
		}, ""},
		{"a patch without a resourceVersion", Conditional, func(h *History) {
			change(h, "admin.30", `{"op":"replace","path":"/metadata/resourceVersion","value":"7"},`, ``)
		}, ""},
		{"a patch with an empty resourceVersion", Conditional, func(h *History) { change(h, "admin.30", `"value":"7"`, `"value":""`) }, ""},
		{"a merge patch without a UID", Conditional, func(h *History) { change(h, "admin.30", patch, `{"metadata":{"resourceVersion":"7"}}`) }, ""},
		{"a deletion without preconditions", Conditional, func(h *History) { h.of("admin.5").RequestObject.Raw = []byte(`{"kind":"DeleteOptions"}`) }, Journaled},
		{"a deletion of whichever state", Conditional, func(h *History) { h.of("admin.5").RequestObject.Raw = []byte(`{"preconditions":{"uid":"u-va"}}`) }, Journaled},
		{"an update", Conditional, func(h *History) { h.of("admin.30").Verb = "update" }, Journaled},
		{"a refused one counts, too", Conditional, func(h *History) {
			h.of("admin.5").ResponseStatus.Code = 409
			h.of("admin.5").RequestObject.Raw = []byte(`{}`)
		}, Journaled},
		{"no journal", Journaled, func(h *History) { delete(h.Sent, "admin.5") }, ""},
		{"the journal is written afterwards", Journaled, func(h *History) { h.Sent["admin.30"] = Sent{Looked: at(28), Journal: h.Sent["admin.30"].Journal[:2]} }, ""},
		{"the intent has an outcome already", Journaled, func(h *History) {
			s := h.Sent["admin.5"]
			s.Journal = append(slices.Clone(s.Journal), apply.Entry{Type: apply.Ended, Write: 1})
			h.Sent["admin.5"] = s
		}, ""},
		{"another object than announced", Journaled, func(h *History) { h.of("admin.5").ObjectRef.Name = attachmentName("c") }, ""},
		{"another state than announced", Journaled, func(h *History) {
			h.of("admin.5").RequestObject.Raw = []byte(strings.Replace(deletion, `"9"`, `"10"`, 1))
		}, ""},
		{"another patch than announced", Journaled, func(h *History) {
			h.of("admin.30").RequestObject.Raw = []byte(strings.Replace(patch, "devicePath", "DevicePath", 1))
		}, ""},
		{"nothing was reviewed", Approved, func(h *History) {
			s := h.Sent["admin.5"]
			s.Reviewed = []repair.Operation{}
			h.Sent["admin.5"] = s
		}, ""},
		{"another object was reviewed", Approved, func(h *History) {
			h.review("admin.5", func(op *repair.Operation) { op.Target.Name = attachmentName("c") })
		}, ""},
		{"an object recreated since was reviewed", Approved, func(h *History) { h.review("admin.5", func(op *repair.Operation) { op.Target.UID = "u-former" }) }, ""},
		{"another patch was reviewed", Approved, func(h *History) {
			h.review("admin.30", func(op *repair.Operation) { op.Patch = []byte(strings.Replace(patch, "devicePath", "DevicePath", 1)) })
		}, ""},
		{"a shorter patch was reviewed", Approved, func(h *History) {
			h.review("admin.30", func(op *repair.Operation) {
				op.Patch = []byte(strings.Replace(patch, `{"op":"replace","path":"/metadata/resourceVersion","value":"7"},`, ``, 1))
			})
		}, ""},
		{"another verb was reviewed", Approved, func(h *History) { h.review("admin.30", func(op *repair.Operation) { op.Verb = "delete" }) }, ""},
		{"the second run leaves something", Converges, func(h *History) { h.Reruns[0] = Rerun{Code: 3, Findings: 1, Said: "not today"} }, ""},
		{"the second run gives another reason", Converges, func(h *History) {
			h.Reruns[0] = Rerun{Code: 3, Findings: 1, Said: "not today", Unless: []string{"not-elsewhere"}}
		}, ""},
		{"the second run finds something new", Converges, func(h *History) { h.Reruns[0] = Rerun{Findings: 1} }, ""},
		{"the second run could not read", Converges, func(h *History) { h.Reruns[0] = Rerun{Code: 2, Said: "why", Unless: []string{"why"}} }, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := healthy(t)
			c.spoil(h)
			violations := withoutRuns(h.Check())
			found := map[Invariant]bool{}
			for _, v := range violations {
				found[v.Invariant] = true
			}
			want := map[Invariant]bool{c.want: true}
			if c.also != "" {
				want[c.also] = true
			}
			if !maps.Equal(found, want) {
				t.Errorf("not %v: %v", want, violations)
			}
		})
		fired[c.want] = true
	}
	for _, i := range Invariants() {
		if !fired[i] && !slices.Contains(ofRuns, i) {
			t.Errorf("nothing here fires %q", i)
		}
	}
}

// change spoils a write and its announcement alike.
func change(h *History, id, old, replacement string) {
	e := h.of(id)
	raw := []byte(strings.Replace(string(e.RequestObject.Raw), old, replacement, 1))
	e.RequestObject.Raw = raw
	journal := slices.Clone(h.Sent[id].Journal)
	last := &journal[len(journal)-1]
	op := *last.Operation
	op.Patch = raw
	last.Operation = &op
	h.Sent[id] = Sent{Looked: h.Sent[id].Looked, Journal: journal}
}

// review has a run be given a file with its write, as change has it.
func (h *History) review(id string, change func(*repair.Operation)) {
	sent := h.Sent[id]
	op := *sent.Journal[len(sent.Journal)-1].Operation
	change(&op)
	sent.Reviewed = []repair.Operation{op}
	h.Sent[id] = sent
}

// TestNearMisses are one fact short of a violation.
func TestNearMisses(t *testing.T) {
	for what, spare := range map[string]func(*History){
		"the node is fenced": func(h *History) { h.Mounts[1].Until, h.Fenced = time.Time{}, map[string]bool{"a": true} },
		"several nodes may have the volume": func(h *History) {
			raw := &h.of("harness.1").RequestObject.Raw
			*raw = []byte(strings.Replace(string(*raw), "ReadWriteOnce", "ReadWriteMany", 1))
			h.Calls[1].At, h.Mounts[0].Until = at(13), at(40)
			h.Calls = append(h.Calls[:1:1], h.Calls[2], h.Calls[1], h.Calls[3])
			h.Mounts = h.Mounts[1:]
		},
		"the pod came after the look": func(h *History) {
			*h.of("admin.5") = event(11, "admin", "delete", "volumeattachments", attachmentName("a"), deletion)
			h.Sent["admin.11"] = Sent{Looked: at(9), Journal: []apply.Entry{{Type: apply.Intent, Write: 1, Written: repair.Written{Operation: &repair.Operation{
				Verb: "delete", Target: corev1.ObjectReference{Kind: "VolumeAttachment", Name: attachmentName("a"), UID: "u-va", ResourceVersion: "9"},
			}}}}}
		},
		"an earlier state of the object was reviewed": func(h *History) {
			h.review("admin.5", func(op *repair.Operation) { op.Target.ResourceVersion = "8" })
			h.review("admin.30", func(op *repair.Operation) { op.Patch = []byte(strings.Replace(patch, `"value":"7"`, `"value":"6"`, 1)) })
		},
		"the detach failed": func(h *History) { h.Mounts[1].Until, h.Calls[3].Err = time.Time{}, fmt.Errorf("busy") },
		"a dry run": func(h *History) {
			h.of("admin.30").RequestURI += "?dryRun=All"
			h.Sent = map[string]Sent{"admin.5": h.Sent["admin.5"]}
		},
		"a dry run of a deletion":        func(h *History) { h.of("admin.5").RequestObject.Raw = []byte(`{"dryRun":["All"]}`) },
		"an event":                       func(h *History) { *h.of("admin.29") = event(29, "admin", "create", "events", "", "{}") },
		"somebody else needs no journal": func(h *History) { h.of("admin.5").User.Username = "harness" },
		"the second run says why": func(h *History) {
			h.Reruns[0] = Rerun{Code: 3, Findings: 1, Said: "no: not-elsewhere", Unless: []string{"not-elsewhere"}}
		},
		"the journal is spaced differently": func(h *History) {
			h.Sent["admin.30"].Journal[2].Operation.Patch = []byte(strings.ReplaceAll(patch, ",", ", "))
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := healthy(t)
			spare(h)
			if violations := withoutRuns(h.Check()); len(violations) != 0 {
				t.Error(violations)
			}
		})
	}
}
