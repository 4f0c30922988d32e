package repair

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
)

// TestDoes: over the corpus each kind of repair that can be worked out for a finding says
// what it writes, to which object, and whether it can be undone; the finding shows the same
// text for the proposed repair.
func TestDoes(t *testing.T) {
	said := map[Kind]int{}
	eachLook(t, func(c *testcases.Case, view *View) {
		var texts []string
		for _, f := range view.Report.Findings {
			for _, action := range actions() {
				if !slices.Contains(action.codes, f.Code) {
					continue
				}
				if r, err := action.repair(view, f); err == nil {
					said[action.kind]++
					texts = append(texts, r.does())
					saysWhatItDoes(t, c.Name, &r)
				}
			}
		}
		propose(view)
		for _, f := range view.Report.Findings {
			if f.Repair != nil && !slices.Contains(texts, f.Repair.Does) {
				t.Errorf("%s: %s is repaired by %q, which says: %q", c.Name, f.Code, f.Repair.Kind, f.Repair.Does)
			}
		}
	})
	for _, kind := range Kinds() {
		if said[kind] == 0 {
			t.Errorf("no case shows what %s does", kind)
		}
	}
}

// undone is the end of the sentence. Pods that a write ends do not come back with its undo, and a
// volume in use keeps its entry or its VolumeAttachment.
func undone(r *Repair) string {
	switch {
	case r.Kind == RemoveOutOfServiceTaint: // a person can set the taint again
		return "(can be undone; by hand alone)"
	case r.Undo == nil:
		return "(cannot be undone)"
	case r.Kind == OutOfServiceTaint:
		return "(can be undone; not while a detached volume is in use there; ended pods stay away)"
	case r.Kind == PatchNodeStatus, r.Kind == PruneNodeStatus, r.Kind == CreateAttachment:
		return "(can be undone; not while the volume is in use)"
	}
	return "(can be undone)"
}

// saysWhatItDoes compares the sentence with the operations, which it reads independently.
func saysWhatItDoes(t *testing.T, name string, r *Repair) {
	t.Helper()
	does := r.does()
	want := []string{r.Do.Target.Name, r.Do.Target.Namespace, r.Do.Target.Kind, undone(r)}
	switch {
	case r.Do.Verb != VerbPatch:
		want = append(want, r.Do.Verb+"s ")
	case r.Do.Merge:
		want = append(want, "sets annotation "+MarkAnnotation)
	default:
		var steps []patchOp
		if err := json.Unmarshal(r.Do.Patch, &steps); err != nil {
			t.Fatal(err)
		}
		verbs := map[string]string{"add": "adds ", "remove": "takes ", "replace": "sets "}
		for _, step := range steps {
			if verb := verbs[step.Op]; verb != "" && step.Path != resourceVersionPath && step.Path != markPath {
				field := step.Path
				if last := path.Base(field); strings.Trim(last, "-0123456789") == "" {
					field = path.Dir(field)
				}
				want = append(want, verb, path.Base(field))
			}
		}
	}
	if r.Next != nil {
		want = append(want, r.Next.Verb+"s it again")
	}
	for _, part := range want {
		if !strings.Contains(strings.ToLower(does), strings.ToLower(part)) {
			t.Errorf("%s: %s does not say %q: %s", name, r.Kind, part, does)
		}
	}
	if strings.Contains(does, "{") || strings.Contains(does, "  ") {
		t.Errorf("%s: %s says: %s", name, r.Kind, does)
	}
	if verb, _, _ := strings.Cut(r.Summary, " "); !strings.HasPrefix(does, verb+"s ") {
		t.Errorf("%s: %s is %q, and %q", name, r.Kind, r.Summary, does)
	}
}

// TestAttachmentsByVolumeAndNode: a sentence that names a VolumeAttachment by its volume and its node
// means the one that is written to.
func TestAttachmentsByVolumeAndNode(t *testing.T) {
	written := regexp.MustCompile(`VolumeAttachment (csi-[0-9a-f]+)`)
	named := regexp.MustCompile(`the VolumeAttachment of volume (\S+) on node ([^\s,:]+)`)
	found := 0
	eachLook(t, func(c *testcases.Case, view *View) {
		propose(view)
		addCommandLines(view)
		for _, f := range view.Report.Findings {
			if f.Repair == nil {
				continue
			}
			for _, a := range finding.ActionsOf(f, view.Report.TakenAt.Time) {
				says, writes := named.FindStringSubmatch(a.Sentence), written.FindStringSubmatch(f.Repair.Does)
				if a.Kind != finding.ApplyRepair || says == nil || writes == nil {
					continue
				}
				found++
				va := view.Snapshot.VolumeAttachment(writes[1])
				if f.Repair.Kind == string(CreateAttachment) {
					if va != nil {
						t.Errorf("%s: %s creates %s, which is there", c.Name, f.Code, va.Name)
					}
					continue
				}
				if va.Spec.NodeName != says[2] || ptr.Deref(va.Spec.Source.PersistentVolumeName, says[1]) != says[1] {
					t.Errorf("%s: %s names %s of node %s as %q", c.Name, f.Code, va.Name, va.Spec.NodeName, a.Sentence)
				}
			}
		}
	})
	if found < 100 {
		t.Errorf("only %d sentences", found)
	}
}
