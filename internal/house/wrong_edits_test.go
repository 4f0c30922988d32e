package house

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
)

var makeWrongEdits = flag.Bool("wrong-edits", false, "make each wrong edit and see its test fail; takes a quarter of an hour")

// wrongEdit is a change that a tired person might make.
type wrongEdit struct {
	room, path string
	old, new   string // old occurs once in the file
	does       string
	pkg, test  string // the test of the gate that must then fail
}

// wrongEdits were chosen by hand, before it was known which test would notice them.
var wrongEdits = []wrongEdit{
	{
		"reconcile", "reconcile/plan.go",
		"if row.MountedByNode && !outOfService {", "if row.MountedByNode {",
		"the out-of-service taint no longer spares the wait for the unmount",
		"./reconcile", "TestDecisions",
	},
	{
		"reconcile", "reconcile/plan.go",
		"if !many || !n.actual.Spec.MultiAttach() {", "if !many {",
		"the detach of a volume that one node at a time may have does not hold back an attach for many",
		"./reconcile", "TestDecisions",
	},
	{
		"reconcile", "reconcile/live.go",
		"return !w.Behaviours.Has(TimeoutReadsNode) || !NodeReady(w.liveNode(node))", "return true",
		"the time-out detaches by force although the node has come back since the controller last read it",
		"./reconcile", "TestLateNews",
	},
	{
		"trace", "diagnose/trace/verdict.go",
		"facts.BoolToInt(y.Overdue)-facts.BoolToInt(x.Overdue)", "facts.BoolToInt(x.Overdue)-facts.BoolToInt(y.Overdue)",
		"of several volumes the verdict is about one that still has time",
		"./diagnose/trace", "TestWordsThatPass",
	},
	{
		"trace", "diagnose/trace/attach.go",
		"since = facts.Latest(waitsSince(t.pod), *va.DeletionTimestamp)", "since = facts.Latest(waitsSince(t.pod), va.CreationTimestamp)",
		"a wait for a detach counts from the attach",
		"./diagnose", "TestGeneratedCorpus",
	},
	{
		"trace", "diagnose/trace/attach.go",
		`case !registers && t.knows(snapshot.CSINodes, ""):`, "case !registers:",
		"a CSINode that could not be read counts as one without the driver",
		"./diagnose/trace", "TestTraceGaps",
	},
	{
		"checks", "diagnose/checks/nodestatus/vd301_inuse_not_attached.go",
		"return !p.Lasted(bound, facts.ReuseGrace)", "return !p.Lasted(bound, facts.AttachGrace)",
		"VD301 is as patient with a VolumeAttachment that is older than the pod as with a new one",
		"./diagnose", "TestGeneratedCorpus",
	},
	{
		"checks", "diagnose/checks/resolution/vd503_pv_finalizer_without_va.go",
		"const finalizerGrace = facts.AttacherResync + 5*time.Minute", "const finalizerGrace = facts.AttacherMaxBackoff + 5*time.Minute",
		"VD503 comes before the attacher has looked at all volumes again",
		"./diagnose", "TestGeneratedCorpus",
	},
	{
		"checks", "diagnose/checks/blocked/vd404_orphan_backend_attachment.go",
		"return !p.OneNode(va.Volume) && !written.IsZero() &&", "return !written.IsZero() &&",
		"VD404 waits for a detach also of a volume for one node at a time",
		"./diagnose", "TestGeneratedCorpus",
	},
	{
		"checks", "diagnose/checks/multiattach/vd205_one_pod.go",
		" || reconcile.PodTerminated(pod) || !reconcile.NodeReady(p.Snapshot.Node(facts.NodeOf(pod)))", " || reconcile.PodTerminated(pod)",
		"VD205 counts the pod of a lost node as a second writer",
		"./diagnose", "TestGeneratedCorpus",
	},
	{
		"guards", "repair/detach_guards.go",
		"pv.DeletionTimestamp != nil, pv.Status.Phase == corev1.VolumeReleased, pv", "pv.DeletionTimestamp != nil, pv",
		"a detach after which the disk of a Released volume is deleted is no longer refused",
		"./repair/apply", "TestDeleteAttachmentGuards",
	},
	{
		"guards", "repair/nodestatus_guards.go",
		"row != nil && !facts.AllDeleting(v.Facts.WantingPods(row))", "row != nil && facts.AllDeleting(v.Facts.WantingPods(row))",
		"an entry is written for pods that are all Terminating",
		"./repair/apply", "TestGuardAlonePrevents",
	},
	{
		"guards", "repair/detach_guards.go",
		`	case reconcile.OutOfService(node):
		return fmt.Errorf("node %s carries the taint %s", name, corev1.TaintNodeOutOfService)
	}
	return nil
}

// checkLivesOrOff`, `	}
	return nil
}

// checkLivesOrOff`,
		"a node that is out of service counts as alive",
		"./repair/apply", "TestDeleteAttachmentGuards",
	},
	{
		"the kubelet's half", "diagnose/trace/kubelet.go",
		"case k < sortedLists:", "case k <= sortedLists:",
		"a kubelet of 1.26 is read like one of 1.25",
		"./diagnose/trace", "TestTraceKubeletWords",
	},
	{
		"the kubelet's half", "diagnose/trace/kubelet_view.go",
		"cmp.Or(pod.Annotations[corev1.MirrorPodAnnotationKey], string(pod.UID))", "cmp.Or(string(pod.UID), pod.Annotations[corev1.MirrorPodAnnotationKey])",
		"a static pod is looked for under its mirror's UID",
		"./diagnose/trace", "TestCorroborate",
	},
	{
		"reading", "snapshot/missing_namespace.go",
		"ref != nil && pv.Status.Phase == corev1.VolumeBound && !claims.Has(ref.Namespace)", "ref != nil && !claims.Has(ref.Namespace)",
		"a Released volume makes a file of all namespaces look like one of some",
		"./snapshot", "TestOneNamespace",
	},
	{
		"reading", "snapshot/times_files.go",
		"if f.beats >= 2 {", "if f.beats >= 1 {",
		"the file of one node that is off makes lists look as of different times",
		"./snapshot", "TestListsOfOtherTimes",
	},
	{
		"reading", "snapshot/text.go",
		`if head.Metadata.Continue != "" || head.Metadata.RemainingItemCount > 0 || l.collects`, `if head.Metadata.Continue != "" || l.collects`,
		"a page of a list with items that remain counts as the whole list",
		"./snapshot", "TestReadOtherVersions",
	},
	{
		"a printed sentence", "output/until.go",
		"case reconcile.Wait, reconcile.Blocked, reconcile.MultiAttach:", "case reconcile.Wait, reconcile.Blocked:",
		"of a volume that another node holds for good it is no longer said that this never ends by itself",
		"./output", "TestUntilText",
	},
	{
		"a printed sentence", "output/waiting.go",
		"w.DueAt.Before(first.DueAt)", "first.DueAt.Before(w.DueAt)",
		"of several pods that still have time the last to be stuck is named, not the first",
		"./output", "TestFirstToBeStuck",
	},
}

// TestGeneratedWrongEdits writes the page about the edits.
func TestGeneratedWrongEdits(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, `# Wrong edits

%d edits that a tired person might make, chosen by hand before it was known which test
would notice. Each makes the gate (`+"`make test`"+`) fail: the test that is named here is one of
`+"`make unit`"+` or `+"`make corpus`"+`. To make them again, each in an overlay of the module:

    make prove PART=wrong-edits
`, len(wrongEdits))
	room := ""
	for i, e := range wrongEdits {
		if e.room != room {
			room = e.room
			fmt.Fprintf(&b, "\n## %s\n", strings.ToUpper(room[:1])+room[1:])
		}
		fmt.Fprintf(&b, "\n%d. %s. `%s` in `%s` fails.\n\n", i+1, strings.ToUpper(e.does[:1])+e.does[1:], e.test, e.pkg)
		fmt.Fprintf(&b, "   ```diff\n   --- %s\n", e.path)
		for _, side := range []struct{ sign, text string }{{"-", e.old}, {"+", e.new}} {
			for line := range strings.Lines(side.text + "\n") {
				if strings.TrimSpace(line) != "" {
					fmt.Fprintf(&b, "   %s %s\n", side.sign, strings.TrimSpace(line))
				}
			}
		}
		b.WriteString("   ```\n")
	}
	golden.Want(t, "docs/evidence/wrong-edits.md", []byte(b.String()))
}

// TestWrongEdits makes each edit in an overlay of the module: its test passes without the
// edit and fails with it, as the gate runs it.
func TestWrongEdits(t *testing.T) {
	if !*makeWrongEdits {
		t.Skip("each edit builds a package and all that imports it: a quarter of an hour; make wrong-edits runs it")
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	gate := func(overlay, pkg string, tests ...string) (string, error) {
		args := []string{"test", "-short", "-vet=off", "-overlay", overlay, "-run", "^(" + strings.Join(tests, "|") + ")$", pkg}
		if uses, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.TestImports}} {{.XTestImports}}", pkg).Output(); err != nil {
			t.Fatal(err)
		} else if strings.Contains(string(uses), "pgregory.net/rapid") {
			args = append(args, "-rapid.seed=1", "-rapid.nofailfile")
		}
		out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
		return string(out), err
	}
	overlay := func(t *testing.T, replace map[string]string) string {
		text, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "overlay.json")
		write(t, name, string(text))
		return name
	}
	tests := map[string][]string{}
	for _, e := range wrongEdits {
		tests[e.pkg] = append(tests[e.pkg], e.test)
	}
	for pkg, names := range tests {
		if out, err := gate(overlay(t, nil), pkg, names...); err != nil {
			t.Fatalf("%s without any edit: %v\n%s", pkg, err, out)
		}
	}
	for _, e := range wrongEdits {
		t.Run(e.does, func(t *testing.T) {
			text := contents(t, e.path)
			if n := strings.Count(text, e.old); n != 1 {
				t.Fatalf("%q stands %d times in %s: choose the edit again", e.old, n, e.path)
			}
			edited := filepath.Join(t.TempDir(), "edited.go")
			write(t, edited, strings.Replace(text, e.old, e.new, 1))
			out, err := gate(overlay(t, map[string]string{filepath.Join(root, e.path): edited}), e.pkg, e.test)
			if err == nil || !strings.Contains(out, "--- FAIL: "+e.test+" ") {
				t.Errorf("%s does not fail: %v\n%s", e.test, err, out)
			}
		})
	}
}
