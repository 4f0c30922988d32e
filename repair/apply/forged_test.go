package apply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// undoable has, for each kind of repair that can be taken back, a world after that repair in
// which taking it back is right.
var undoable = map[repair.Kind]func(testing.TB) (*memory, *journalSink){
	repair.Nudge:       func(t testing.TB) (*memory, *journalSink) { return after(t, comingBack(t), func(*memory) {}) },
	repair.TouchVolume: func(t testing.TB) (*memory, *journalSink) { return after(t, letGo(t), func(*memory) {}) },
	repair.PatchNodeStatus: func(t testing.TB) (*memory, *journalSink) {
		return after(t, lostEntry(t), func(m *memory) { m.unused("vol-1") })
	},
	repair.PruneNodeStatus: func(t testing.TB) (*memory, *journalSink) { return after(t, idle(t), func(*memory) {}) },
	repair.CreateAttachment: func(t testing.TB) (*memory, *journalSink) {
		return after(t, phantom(t), func(m *memory) {
			m.objects.Pods = m.objects.Pods[:1]
			m.unused("vol-1")
			m.node("n1").Status.VolumesAttached = m.node("n1").Status.VolumesAttached[:1]
		})
	},
	repair.UnpublishOrphan: func(t testing.TB) (*memory, *journalSink) {
		m := orphan(t)
		other := m.secondUser()
		m.looking = func(int) error { // a pod keeps the second write from being made
			if len(m.stored) == 1 && len(m.objects.Pods) == 2 {
				m.objects.Pods = append(m.objects.Pods, other)
			}
			return nil
		}
		return after(t, m, func(m *memory) { m.objects.Pods = m.objects.Pods[:2] })
	},
	repair.OutOfServiceTaint: func(t testing.TB) (*memory, *journalSink) {
		return after(t, lostStatefulSet(t), func(m *memory) {
			m.node("n1").Status.VolumesInUse = nil
			m.node("n2").Spec.Taints = []corev1.Taint{setTaint} // an admin's
		})
	},
}

// after is the world after its repair, with its journal. n2 and vol-0 belong to others.
func after(t testing.TB, m *memory, then func(*memory)) (*memory, *journalSink) {
	sink := repaired(t, m)
	m.looking, m.failing, m.before, m.after = nil, nil, nil, nil
	then(m)
	if !slices.ContainsFunc(m.objects.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool { return va.Spec.NodeName == "n2" }) {
		m.addVolume("n2", "pv9", "vol-9", "web-9")
	}
	return m, sink
}

// again is a copy of the world, with the same journal.
func (m *memory) again(written *journalSink) (*memory, *journalSink) {
	same := &memory{t: m.t, objects: copied(m.objects), now: m.now, version: m.version, consent: m.consent}
	return same, &journalSink{m: same, data: slices.Clone(written.data)}
}

// forgery is a journal or a file of repairs that somebody has changed.
type forgery struct {
	name string
	text []byte
}

// forgeries change each field of a document in turn, and then every mention of a node, a disk
// or a volume together.
func forgeries(t testing.TB, document []byte) []forgery {
	t.Helper()
	var list []forgery
	var root any
	if err := json.Unmarshal(document, &root); err != nil {
		t.Fatal(err)
	}
	add := func(path, how string) { list = append(list, forgery{path + " " + how, repair.Compact(root)}) }
	var walk func(path string, value any, set func(any))
	walk = func(path string, value any, set func(any)) {
		try := func(how string, other any) {
			if other == value {
				return
			}
			set(other)
			add(path, how)
			set(value)
		}
		switch v := value.(type) {
		case map[string]any:
			keys := make([]string, 0, len(v))
			for key := range v {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			for _, key := range keys {
				inner := v[key]
				walk(path+"/"+key, inner, func(x any) { v[key] = x })
				if inner != "" { // which is the same
					delete(v, key)
					add(path+"/"+key, "dropped")
					v[key] = inner
				}
			}
		case []any:
			for i := range v {
				walk(fmt.Sprintf("%s/%d", path, i), v[i], func(x any) { v[i] = x })
			}
			if len(v) > 0 {
				for how, other := range map[string][]any{"without its last": v[:len(v)-1], "twice its last": append(slices.Clone(v), v[len(v)-1])} {
					set(other)
					add(path, how)
				}
				set(v)
			}
		case string:
			try("empty", "")
			try("another", v+"x")
			for _, pair := range foreign {
				if strings.Contains(v, pair[0]) {
					try("with "+pair[1], strings.ReplaceAll(v, pair[0], pair[1]))
				}
			}
			if slices.Contains(repair.Kinds(), repair.Kind(v)) {
				for _, kind := range repair.Kinds() {
					if kind != repair.Kind(v) {
						try("is "+string(kind), string(kind))
					}
				}
			}
		case bool:
			try("negated", !v)
		case float64:
			try("one more", v+1)
		}
	}
	walk("", root, func(any) {})
	for _, pairs := range [][][2]string{foreign[:1], foreign[1:2], foreign[2:], foreign} {
		text := string(document)
		for _, pair := range pairs {
			text = strings.ReplaceAll(text, pair[0], pair[1])
		}
		if text != string(document) {
			list = append(list, forgery{fmt.Sprintf("all of %v", pairs), []byte(text)})
		}
	}
	return list
}

// foreign has pairs: a name in the repair, and the one that a forger would put in its place.
var foreign = [][2]string{
	{reconcile.VolumeAttachmentName("vol-1", driver, "n1"), reconcile.VolumeAttachmentName("vol-0", driver, "n1")},
	{"n1", "n2"}, {"vol-1", "vol-0"}, {"pv1", "pv0"}, {"https://memory", "https://other"},
	{"shutdown", "else"}, {"/volumesAttached/1", "/volumesAttached/0"},
}

// told reports whether the field does not matter for the kind: the write is taken back
// exactly, whatever the field says.
func told(kind repair.Kind, name string) bool {
	fields := []string{"/time", "/write", "/finding/fingerprint", "/finding/subject", "/finding/persistentVolume",
		"/digest"} // the chain, which this test leaves out
	switch kind {
	case repair.Nudge, repair.TouchVolume: // only the annotation is written, and the object decides
		fields = append(fields, "/finding/volume", "/finding/node", "/preImage/metadata", "all of [[n1 n2]]")
	case repair.UnpublishOrphan:
		fields = append(fields, "/finding/node", "all of [[n1 n2]]") // the node on which the volume is wanted
	case repair.OutOfServiceTaint:
		fields = append(fields, "/finding/volume", "/operation/patch without its last")
	case repair.PatchNodeStatus, repair.PruneNodeStatus:
		fields = append(fields, "/operation/patch without its last") // the mark, which is also on the object
	}
	return slices.ContainsFunc(fields, func(field string) bool { return strings.HasPrefix(name, field) })
}

// TestForgedJournals changes each field of the journals of all kinds. It computes the digests
// again, as a forger would: tested is that undo does not trust the journal.
func TestForgedJournals(t *testing.T) {
	tried, refused := 0, 0
	for _, kind := range repair.Kinds() {
		setUp, ok := undoable[kind]
		if !ok {
			continue // nothing takes this kind back, so nothing is written
		}
		t.Run(string(kind), func(t *testing.T) {
			base, written := setUp(t)
			m, sink := base.again(written)
			line, _, _ := bytes.Cut(sink.data, []byte("\n"))
			rest, code := sink.entries()[1:], sink.entries()[0].Finding.Code
			a, _ := m.applier()
			if results := m.undo(a, sink); len(results) != 1 || results[0].Outcome != Undone {
				t.Fatalf("the journal as it is: %+v", results)
			}
			genuine := m.stored[len(m.stored)-1]
			for _, forged := range forgeries(t, line) {
				tried++
				entry, err := parseEntry(forged.text)
				if err != nil {
					refused++
					continue
				}
				m, _ := base.again(written)
				before := len(m.stored)
				a, _ := m.applier()
				a.Options = narrow(code)
				results, err := a.Undo(t.Context(), append([]Entry{entry}, rest...))
				made := m.stored[before:]
				switch {
				case len(made) > 1, len(made) == 1 && !sameButVersion(made[0], genuine):
					t.Errorf("%s: a foreign write: %s %s %s", forged.name, made[0].Verb, made[0].Target.Name, made[0].Patch)
				case len(made) == 1 && !told(kind, forged.name):
					t.Errorf("%s: it was not noticed", forged.name)
				case len(made) == 1:
				case err == nil && !slices.ContainsFunc(results, func(r Result) bool { return r.Outcome == Skipped && r.Guard != "" && r.Detail != "" }) && len(results) > 0:
					t.Errorf("%s: refused without a reason: %+v", forged.name, results)
				default:
					refused++
				}
			}
		})
	}
	if refused < 200 {
		t.Errorf("%d of %d forged journals were refused", refused, tried)
	}
	t.Logf("%d of %d forged journals were refused", refused, tried)
}

// sameButVersion reports whether two writes of worlds that were made alike are the same but
// for the object's version.
func sameButVersion(a, b repair.Operation) bool {
	x, y := repair.Repair{Do: a}, repair.Repair{Do: b}
	return x.Differs(&y) == ""
}

// TestUndoTakesOnlyItsOwn: an admin's change looks like a repair's write, and a consistent
// journal claims that it was one; undo leaves it.
func TestUndoTakesOnlyItsOwn(t *testing.T) {
	for kind, change := range map[repair.Kind]func(m *memory){
		// The annotation that would prove the write is somebody else's, or is missing.
		repair.PatchNodeStatus: func(m *memory) { m.node("n1").Annotations[repair.MarkAnnotation] = "" },
		repair.PruneNodeStatus: func(m *memory) {
			m.node("n1").Annotations[repair.MarkAnnotation] = "prune-node-status for VD302 attached-phantom"
		},
		repair.OutOfServiceTaint: func(m *memory) { delete(m.node("n1").Annotations, repair.MarkAnnotation) },
		repair.CreateAttachment:  func(m *memory) { delete(m.attachment().Annotations, repair.MarkAnnotation) },
		repair.UnpublishOrphan: func(m *memory) {
			m.named(reconcile.VolumeAttachmentName("vol-1", driver, "n2")).Annotations[repair.MarkAnnotation] = "create-attachment for VD302 attached-phantom"
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			m, sink := undoable[kind](t)
			change(m)
			before := len(m.stored)
			a, _ := m.applier()
			results := m.undo(a, sink)
			if len(m.stored) != before || len(results) != 1 || results[0].Guard != repair.GuardOurs || !results[0].LeftUndone() {
				t.Errorf("%d writes, %+v", len(m.stored)-before, results)
			}
		})
	}
}

// TestUndoLeavesOtherTaints: an admin's taint with the same key has another
// effect, and stays.
func TestUndoLeavesOtherTaints(t *testing.T) {
	m, sink := undoable[repair.OutOfServiceTaint](t)
	theirs := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "rack", Effect: corev1.TaintEffectNoSchedule}
	m.node("n1").Spec.Taints = append(m.node("n1").Spec.Taints, theirs)
	a, _ := m.applier()
	if results := m.undo(a, sink); results[0].Outcome != Undone {
		t.Fatalf("%+v", results)
	}
	if taints := m.node("n1").Spec.Taints; !slices.Contains(taints, theirs) || slices.ContainsFunc(taints, isSetTaint) {
		t.Errorf("%+v", taints)
	}
}

// TestUndoOnAnotherServer: a journal is valid for one cluster only.
func TestUndoOnAnotherServer(t *testing.T) {
	for kind, setUp := range undoable {
		m, sink := setUp(t)
		before := len(m.stored)
		m.server = "https://other"
		a, _ := m.applier()
		if results := m.undo(a, sink); len(m.stored) != before || len(results) != 1 || results[0].Guard != "same-server" || !results[0].LeftUndone() {
			t.Errorf("%s: %d writes, %+v", kind, len(m.stored)-before, results)
		}
		a.ServerMoved = true
		if results := m.undo(a, sink); len(results) != 1 || results[0].Outcome != Undone {
			t.Errorf("%s: by the user's word: %+v", kind, results)
		}
	}
}

// TestForgedApproved changes each field of the saved repairs of each kind. Only a repair that
// was reviewed is then made, or none.
func TestForgedApproved(t *testing.T) {
	tried, refused := 0, 0
	for _, world := range worlds[:17] {
		m := world(t)
		v, proposed := m.view()
		var file bytes.Buffer
		if err := Save(v, proposed).Write(&file); err != nil {
			t.Fatal(err)
		}
		for _, forged := range forgeries(t, file.Bytes()) {
			tried++
			approved, err := ReadApproved(bytes.NewReader(forged.text))
			if err != nil {
				refused++
				continue
			}
			chosen, err := approved.Choose(v, proposed)
			switch {
			case err != nil && strings.TrimPrefix(err.Error(), ErrMoved.Error()) != "":
				refused++
			case err != nil:
				t.Errorf("%s %s: refused without a reason", proposed[0].Kind, forged.name)
			case explains(forged.name):
			case len(chosen) > 0 || len(approved.Repairs) > 0:
				t.Errorf("%s %s: it was not noticed", proposed[0].Kind, forged.name)
			}
			for i := range chosen {
				if chosen[i].Summary != proposed[0].Summary || !sameButVersion(chosen[i].Do, proposed[0].Do) {
					t.Errorf("%s %s: %s", proposed[0].Kind, forged.name, chosen[i].Do.Kubectl())
				}
			}
		}
	}
	if refused < 200 {
		t.Errorf("%d of %d forged files were refused", refused, tried)
	}
	t.Logf("%d of %d forged files were refused", refused, tried)
}

// explains reports whether the forged field has no effect: it only explains, or changes from
// one look to the next.
func explains(name string) bool {
	path, how, _ := strings.Cut(name, " ")
	return strings.HasPrefix(path, "/takenAt") || strings.Contains(path, "/lower") || strings.Contains(path, "/preImage/status") ||
		strings.HasSuffix(path, "/resourceVersion") || strings.Contains(path, "/finding/") ||
		strings.HasSuffix(path, "/do/patch/1/value") || // the resourceVersion
		strings.HasPrefix(path, "/consent/") && how == "twice its last" ||
		strings.HasPrefix(name, "all of [[csi-") // a name that only the evidence mentions
}
