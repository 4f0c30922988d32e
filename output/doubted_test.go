package output

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// kubectlText is a cluster as kubectl prints it: one text for each kind, and no header that says
// which lists are complete.
type kubectlText struct {
	of    *snapshot.Snapshot
	typed map[snapshot.Kind]string // as "kubectl get --raw" prints the list
	items map[snapshot.Kind]string // as items of a list of any kind
	bare  map[snapshot.Kind][]string
}

func asKubectlPrints(t failing, s *snapshot.Snapshot) *kubectlText {
	t.Helper()
	k := &kubectlText{of: s, typed: map[snapshot.Kind]string{}, items: map[snapshot.Kind]string{}, bare: map[snapshot.Kind][]string{}}
	lists := reflect.ValueOf(s.Objects)
	for i, r := range snapshot.Resources() {
		var bare, full []string
		for j := range lists.Field(i).Len() {
			raw, err := json.Marshal(lists.Field(i).Index(j).Interface())
			if err != nil {
				t.Fatal(err)
			}
			bare = append(bare, string(raw))
			full = append(full, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s`, r.Version, r.Object, raw[1:]))
		}
		k.bare[r.Kind] = bare
		k.typed[r.Kind] = typedList(r, bare)
		k.items[r.Kind] = strings.Join(full, ",")
	}
	return k
}

func typedList(r snapshot.Resource, items []string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{},"items":[%s]}`, r.Version, r.Object+"List", strings.Join(items, ",")) + "\n"
}

// read reads the text of typed lists, with some of them replaced.
func (k *kubectlText) read(t failing, replaced map[snapshot.Kind]string) *snapshot.Snapshot {
	t.Helper()
	var text strings.Builder
	for _, r := range snapshot.Resources() {
		if list, ok := replaced[r.Kind]; ok {
			text.WriteString(list)
		} else {
			text.WriteString(k.typed[r.Kind])
		}
	}
	return k.readText(t, text.String())
}

// readUntyped reads a list of any kind, without the objects of one kind.
func (k *kubectlText) readUntyped(t failing, without snapshot.Kind) *snapshot.Snapshot {
	t.Helper()
	var items []string
	for _, r := range snapshot.Resources() {
		if r.Kind != without && k.items[r.Kind] != "" {
			items = append(items, k.items[r.Kind])
		}
	}
	return k.readText(t, `{"apiVersion":"v1","kind":"List","items":[`+strings.Join(items, ",")+`]}`)
}

// readText reads a text of the cluster; nil if nothing is in it.
func (k *kubectlText) readText(t failing, text string) *snapshot.Snapshot {
	t.Helper()
	read, _, err := snapshot.Read("cluster.json", strings.NewReader(text), snapshot.ReadOptions{Now: k.of.TakenAt})
	if err != nil {
		if strings.Contains(err.Error(), "no object in it") {
			return nil
		}
		t.Fatal(err)
	}
	less := snapshot.New(k.of.TakenAt, k.of.Source, read.Objects, append(slices.Clone(k.of.Gaps), read.Gaps...))
	less.Backends = k.of.Backends
	return less
}

// without is the typed list of the kind without some of its objects.
func (k *kubectlText) without(kind snapshot.Kind, drop func(object keyed) bool) string {
	r := snapshot.ResourceOf(kind)
	var kept []string
	list := k.list(kind)
	for i, raw := range k.bare[kind] {
		if !drop(list.Index(i).Interface().(keyed)) {
			kept = append(kept, raw)
		}
	}
	return typedList(r, kept)
}

func (k *kubectlText) list(kind snapshot.Kind) reflect.Value {
	i := slices.IndexFunc(snapshot.Resources(), func(r snapshot.Resource) bool { return r.Kind == kind })
	return reflect.ValueOf(k.of.Objects).Field(i)
}

type keyed interface {
	GetName() string
	GetNamespace() string
}

// lessText is a text that lacks objects of the kind.
type lessText struct {
	name string
	kind snapshot.Kind
	read *snapshot.Snapshot
}

// emptied are texts without any object of a kind: with an empty list of it, and without a list.
func (k *kubectlText) emptied(t failing) []lessText {
	var made []lessText
	for _, r := range snapshot.Resources() {
		if r.Optional || len(k.bare[r.Kind]) == 0 {
			continue
		}
		made = append(made,
			lessText{"empty " + string(r.Kind), r.Kind, k.read(t, map[snapshot.Kind]string{r.Kind: typedList(r, nil)})},
			lessText{"untyped without " + string(r.Kind), r.Kind, k.readUntyped(t, r.Kind)})
	}
	return made
}

// contradicted are texts that lack objects which others name.
func (k *kubectlText) contradicted(t failing) []lessText {
	var made []lessText
	drop := func(name string, kind snapshot.Kind, namespace, object string) {
		list := k.without(kind, func(o keyed) bool { return o.GetNamespace() == namespace && (object == "" || o.GetName() == object) })
		if list != k.typed[kind] {
			made = append(made, lessText{name, kind, k.read(t, map[snapshot.Kind]string{kind: list})})
		}
	}
	for _, claim := range k.of.Claims {
		if claim.Status.Phase == corev1.ClaimBound {
			drop("volume of a bound claim", snapshot.Volumes, "", claim.Spec.VolumeName)
		}
		for _, owner := range claim.OwnerReferences {
			if owner.Kind == "Pod" {
				drop("pod that owns a claim", snapshot.Pods, claim.Namespace, owner.Name)
			}
		}
	}
	for _, pv := range k.of.Volumes {
		if ref := pv.Spec.ClaimRef; ref != nil && pv.Status.Phase == corev1.VolumeBound {
			drop("claim of a bound volume", snapshot.Claims, ref.Namespace, ref.Name)
		}
	}
	for _, va := range k.of.VolumeAttachments {
		drop("node of an attachment", snapshot.Nodes, "", va.Spec.NodeName)
		drop("attachment", snapshot.VolumeAttachments, "", va.Name)
	}
	for _, node := range k.of.Nodes {
		drop("csinode", snapshot.CSINodes, "", node.Name)
	}
	namespaces := map[string]bool{}
	for _, pod := range k.of.Pods {
		namespaces[pod.Namespace] = true
	}
	if len(namespaces) > 1 {
		for namespace := range namespaces {
			drop("pods of a namespace", snapshot.Pods, namespace, "")
			drop("claims of a namespace", snapshot.Claims, namespace, "")
			drop("events of a namespace", snapshot.Events, namespace, "")
		}
	}
	return made
}

// takenAtItsWord are the texts that lack objects without contradicting themselves for certain,
// so that the answers about them may differ: see invariant 8 in docs/invariants.md. most is how many of
// a hundred do.
var takenAtItsWord = map[string]struct {
	why  string
	most int
}{
	"attachment":                   {"somebody may have deleted one of several VolumeAttachments", 15},
	"csinode":                      {"a single node may have lost its CSINode", 75},
	"node of an attachment":        {"a Node without a CSINode may have been deleted", 1},
	"pods of a namespace":          {"a namespace may have no pods", 15},
	"empty events":                 {"all events may have expired", 5},
	"empty volumeattachments":      {"nothing may have been attached yet", 5},
	"empty persistentvolumeclaims": {"an event says that the claim does not exist", 1},
	"empty persistentvolumes":      {"the claim is Lost, or names a volume in vain, or nothing names the volume that an earlier claim has left", 2},
	"empty storageclasses":         {"an event has named a class that does not exist", 5},
}

// TestLessThanWasThere takes a text as kubectl prints it, without a header that says what was
// read, and leaves out some of the cluster's objects. No command may say of it what it does not
// say of the whole cluster, or that nothing is wrong: a missing object is a gap wherever
// another object names it.
func TestLessThanWasThere(t *testing.T) {
	compared, differ, unseen := map[string]int{}, map[string]int{}, 0
	check := func(t failing, whole corpusCase) {
		if len(whole.read.Gaps) > 0 || testcases.ClaimedTwice(whole.read) {
			return
		}
		claims, text := answersOn(whole.read, whole.settings), asKubectlPrints(t, whole.read)
		for _, less := range slices.Concat(text.emptied(t), text.contradicted(t)) {
			if less.read == nil {
				continue
			}
			compared[less.name]++
			news := newsOf(whole, claims, less)
			switch mayDiffer := takenAtItsWord[less.name].why != "" && less.read.Complete(less.kind); {
			case len(news) == 0:
			case mayDiffer && slices.Equal(news, []string{allClear}) && onlyOfWhatIsMissing(whole.report, less.read):
				unseen++
			case mayDiffer && !slices.Contains(news, allClear):
				differ[less.name]++
			default:
				t.Errorf("%s: %s\n\tof the whole cluster: %s", less.name, strings.Join(news, "\n\t"), strings.Join(texts(whole.report.Findings, finding.Finding.Line), "; "))
			}
		}
	}
	cases, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	shuffled, pairs := byHash(cases, *crossingsSeed), *crossings
	few := shuffled
	if testing.Short() { // each is read and answered some twenty times: all of them take minutes, and are for "make whole"
		few, pairs = shuffled[:len(shuffled)/30], pairs/40
	}
	for _, c := range few {
		t.Run(c.name, func(t *testing.T) { check(t, c) })
	}
	for i := range pairs {
		a, b := shuffled[i%len(shuffled)], shuffled[(i+1+i/len(shuffled))%len(shuffled)]
		both := testcases.Cross(a.read, b.read)
		t.Run(a.name+" with "+b.name, func(t *testing.T) {
			check(t, examined(a.name+" with "+b.name, both, a.settings))
		})
	}
	t.Run("random clusters", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			check(rt, examined("a random cluster", testcases.Draw(rt, snapshotsOf(cases)), reconcile.Options{}))
		})
	})
	for _, pair := range doubtedPairs {
		a, b := caseNamed(t, cases, pair[0]), caseNamed(t, cases, pair[1])
		t.Run(a.name+" with "+b.name+", by name", func(t *testing.T) {
			check(t, examined(a.name+" with "+b.name, testcases.Cross(a.read, b.read), a.settings))
		})
	}
	t.Logf("compared: %v; taken at their word, with another answer: %v; of %d nothing but what is missing was wrong", compared, differ, unseen)
	if unseen > 2+compared["attachment"]/200 {
		t.Errorf("%d texts are clean because what was wrong is not in them", unseen)
	}
	for name, n := range differ {
		if n > 2+max(100, compared[name])*takenAtItsWord[name].most/100 { // fewer than a hundred say nothing about a share
			t.Errorf("%s: %d of %d are taken at their word", name, n, compared[name])
		}
	}
	for _, name := range []string{"empty pods", "empty volumeattachments", "untyped without nodes", "volume of a bound claim", "claim of a bound volume"} {
		if compared[name] == 0 {
			t.Errorf("nothing was compared of %s", name)
		}
	}
}

// onlyOfWhatIsMissing reports whether all findings in the whole cluster are about
// VolumeAttachments that the text does not have, and no pod waits for any of them: none waits, or it is in
// flight. Without them the cluster is a healthy one.
func onlyOfWhatIsMissing(whole *finding.Report, less *snapshot.Snapshot) bool {
	return !slices.ContainsFunc(whole.Waiting, func(w finding.Waiting) bool { return w.Verdict != finding.InFlight }) && !slices.ContainsFunc(whole.Findings, func(f finding.Finding) bool {
		return f.Subject.Kind != "VolumeAttachment" || less.VolumeAttachment(f.Subject.Name) != nil || len(f.Pods) > 0
	})
}

// doubtedPairs are cases that make a cluster together of which less to read once changed a claim.
var doubtedPairs = [][2]string{
	{"vd307-list-wiped", "vd308-near-file-system"}, {"vd113-unmount-fails", "vd404-finalizer-was-stripped"},
	{"vd601-near-upgrade", "vd505-share-twice-in-one-pod"}, {"vd511-pod-waits", "vd308-near-detaching"},
	{"healthy-attach-reported-late", "vd412-no-sidecar"}, {"vd102-outstayed-count-down", "vd417-debugger-runs"},
	{"vd507-near-other-disk", "vd301-sandbox-before-restart"}, {"vd608-near-throttled", "vd512-near-copying-times-out"},
	{"vd506-near-detaching", "vd409-pulled-before-restart"}, {"vd301-near-no-attach", "vd609-detaches"},
}

func caseNamed(t *testing.T, cases []corpusCase, name string) corpusCase {
	t.Helper()
	i := slices.IndexFunc(cases, func(c corpusCase) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("no case %s", name)
	}
	return cases[i]
}

// withoutUID is the finding's fingerprint if the UID of its subject was taken away.
func withoutUID(f finding.Finding) string {
	f.Subject.UID = ""
	return finding.Fingerprint(f)
}

const allClear = "nothing is wrong, though of the whole cluster something is"

// newsOf returns what is said of less but not of the whole cluster. The finding of stuck pods
// that nothing explains may name other pods, because a check that explained them may not have
// run.
func newsOf(whole corpusCase, claims map[string]string, less lessText) []string {
	var news []string
	report := examined(whole.name, less.read, whole.settings).report
	if good(report) && !good(whole.report) {
		news = append(news, allClear)
	}
	for _, f := range report.Findings {
		i := slices.IndexFunc(whole.report.Findings, func(m finding.Finding) bool { return withoutUID(m) == withoutUID(f) })
		switch {
		case f.Check == "pod-stuck":
		case i < 0:
			news = append(news, fmt.Sprintf("new: %s %s", f.Code, f.Message))
		case whole.report.Findings[i].Severity.Rank() > f.Severity.Rank() && (f.SelfHeals.Unknown || f.Confidence == finding.Suspected): // it says less
		case whole.report.Findings[i].Severity != f.Severity:
			news = append(news, fmt.Sprintf("%s is %s, was %s", f.Code, f.Severity, whole.report.Findings[i].Severity))
		case whole.report.Findings[i].Message != f.Message && !f.SelfHeals.Unknown && f.Confidence != finding.Suspected:
			news = append(news, fmt.Sprintf("%s says %s; of the whole cluster it says %s", f.Code, f.Message, whole.report.Findings[i].Message))
		}
	}
	answers := answersOn(less.read, whole.settings)
	for _, claim := range slices.Sorted(maps.Keys(answers)) {
		of, there := claims[claim]
		isExcused := slices.ContainsFunc(less.read.Gaps, func(g snapshot.Gap) bool { return excused(claim, answers[claim], string(g.Kind), whole.read) })
		if (!there || of != answers[claim]) && !isExcused {
			news = append(news, fmt.Sprintf("%s is %q; of the whole cluster it is %q", claim, answers[claim], of))
		}
	}
	return news
}
