package diagnose_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/docs"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// detaching matches sentences and commands that tell a person to detach a volume, or to make it
// look detached, without any guard: delete a VolumeAttachment, remove a finalizer, set attached
// to false. Only the imperative counts: "the attacher takes its finalizer off" is no advice.
var detaching = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(delete|remove|erase|drop)\b[^.;:,]{0,60}\b\w*volumeattachments?\b`),
	regexp.MustCompile(`(?i)\b(delete|remove|erase|drop)\b (the|this|that|these) (objects?|attachments?)\b`),
	regexp.MustCompile(`(?i)\bvolumeattachments?\b[^.;]{0,80}\b(delete|remove|erase|drop) (it|them|this)\b`),
	regexp.MustCompile(`(?i)\b(delete|remove|take|strip|drop|clear|null|patch|edit)\b\s[^.;:,]{0,60}\bfinali[sz]ers?\b`),
	regexp.MustCompile(`(?i)\bfinali[sz]ers?\b[^.;]{0,80}\bmay be (taken|stripped|removed)`),
	regexp.MustCompile(`(?i)\b(set|patch|write|edit|change)\b[^;:,]{0,60}\battached\b[^.;,]{0,12}\b(false|true)\b`),
	regexp.MustCompile(`(?i)\bvolumeattachments?\b[^.;:,]{0,60}\bmay be deleted\b`),
	regexp.MustCompile(`"path":\s*"/metadata/finalizers`),
}

// negated matches a sentence that warns.
var negated = regexp.MustCompile(`(?i)\b(not|never)\b`)

// detachesInProse is the first sentence of the text that tells a person to detach.
func detachesInProse(text string) string {
	for _, sentence := range strings.Split(strings.ReplaceAll(text, "\n", " "), ". ") {
		if negated.MatchString(sentence) {
			continue
		}
		for _, pattern := range detaching {
			if pattern.MatchString(sentence) {
				return sentence
			}
		}
	}
	return ""
}

func TestDetachesInProse(t *testing.T) {
	for text, want := range map[string]bool{
		"check at the provider, then delete the VolumeAttachment: it goes":                               true,
		"detach the old disk, then take the attacher's finalizer off this object, and delete it":         true,
		"only their finalizer external-attacher/x holds them, and may be taken off":                      true,
		"find out who made the VolumeAttachment, and have them delete it":                                true,
		"kubectl delete volumeattachment csi-1":                                                          true,
		`kubectl patch va csi-1 --type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'`:        true,
		"set status.attached to false":                                                                   true,
		"the attacher takes its finalizer off":                                                           false,
		"move the pod: delete it, and let it return once its VolumeAttachment is gone":                   false,
		"Do not delete the VolumeAttachment: it takes the disk from under the pod":                       false,
		"a restart finds the VolumeAttachment and detaches the volume":                                   false,
		"make sure that nothing has it mounted, then remove the two VolumeAttachments that nobody wants": true,
	} {
		if got := detachesInProse(text) != ""; got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}

// saysNoDetach proposes repairs for a cluster and checks that no finding tells a person to
// detach. A repair itself detaches with its guards.
func saysNoDetach(t rapid.TB, name string, s *snapshot.Snapshot, settings diagnose.Options) (told int) {
	view, _ := repair.Examine(s, settings.Reconcile, repair.Consent{}, diagnose.Request{Checks: settings.Checks})
	for _, f := range view.Report.Findings {
		texts := append([]string{f.Advice, f.SelfHeals.Because, f.SelfHeals.After}, f.AdviceCommands...)
		if f.Repair != nil {
			texts = append(texts, f.Repair.SafeOnce)
		}
		if f.Settles != nil {
			texts = append(texts, f.Settles.If)
		}
		for _, text := range texts {
			if sentence := detachesInProse(text); sentence != "" {
				t.Errorf("%s: %s tells a person to detach past every guard: %q", name, f.Code, sentence)
			}
		}
		told += len(texts)
	}
	return told
}

// TestNoDetachInProse checks each case of the corpus and each thread.
func TestNoDetachInProse(t *testing.T) {
	told := 0
	for _, c := range corpus(t) {
		told += saysNoDetach(t, c.name, c.snapshot(t), diagnose.Options{Reconcile: c.settings})
	}
	for _, thread := range readThreads(t) {
		told += saysNoDetach(t, thread.name, thread.cluster, diagnose.Options{})
	}
	if told < 1000 {
		t.Errorf("%d texts were read: this shows little", told)
	}
}

// TestNoDetachInProseAnywhere checks random clusters.
func TestNoDetachInProseAnywhere(t *testing.T) {
	long.Test(t)
	cases := corpusSnapshots(t)
	rapid.Check(t, func(t *rapid.T) {
		saysNoDetach(t, "a random cluster", testcases.Draw(t, cases), drawSettings(t))
	})
}

// TestNoDetachInTexts checks every string literal of the source that may become advice, whether
// or not a case shows it. Not checked are Never, which warns, ByHand, which is dropped wherever
// a repair is proposed, and evidence and messages, which only describe.
func TestNoDetachInTexts(t *testing.T) {
	skipped := []string{"Never", "ByHand", "Title", "Cause", "Message", "Detail", "Evidence", "Name", "Words"}
	read := 0
	for _, root := range []string{".", "../output", "../cmd", "../explain", "../standing", "../mcp"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			var visit func(ast.Node) bool
			visit = func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.KeyValueExpr:
					key, ok := n.Key.(*ast.Ident)
					return !ok || !slices.Contains(skipped, key.Name)
				case *ast.ValueSpec:
					return !strings.HasPrefix(n.Names[0].Name, "never")
				case *ast.AssignStmt:
					for i, right := range n.Rhs {
						if field, ok := n.Lhs[i].(*ast.SelectorExpr); !ok || !slices.Contains(skipped, field.Sel.Name) {
							ast.Inspect(right, visit)
						}
					}
					return false
				case *ast.BasicLit:
					text, err := strconv.Unquote(n.Value)
					if n.Kind != token.STRING || err != nil {
						return true
					}
					read++
					if sentence := detachesInProse(text); sentence != "" {
						t.Errorf("%s tells a person to detach past every guard: %q", path, sentence)
					}
				}
				return true
			}
			ast.Inspect(file, visit)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 2000 {
		t.Errorf("%d texts were read: this shows little", read)
	}
	for _, e := range driverwords.Entries() {
		if sentence := detachesInProse(step.Plain(e.Helps)); sentence != "" {
			t.Errorf("the words %q: %q", e.Words, sentence)
		}
	}
}

// TestNoDetachInPages checks what the pages tell a person to do: the beginning and the repair.
// A paragraph may describe the repair that detaches with guards; no page has a command that
// detaches without them.
func TestNoDetachInPages(t *testing.T) {
	for _, c := range diagnose.Checks() {
		section := "Do this now"
		for _, paragraph := range strings.Split(docs.Page(string(c.Code)), "\n\n") {
			if heading, found := strings.CutPrefix(paragraph, "## "); found {
				section = heading
				continue
			}
			command := strings.HasPrefix(paragraph, "    ")
			switch {
			case command || section == "Do this now" || section == "Repair":
			default:
				continue
			}
			guarded := strings.Contains(paragraph, "--apply") || strings.Contains(paragraph, "volume-doctor")
			if sentence := detachesInProse(paragraph); sentence != "" && (!guarded || detachesFor(c.Code) == nil) {
				t.Errorf("the page of %s, %q, tells a person to detach past every guard: %q", c.Code, section, sentence)
			}
		}
	}
}

// detachesFor are the kinds of repair for a code that detach, with their guards.
func detachesFor(code finding.Code) (kinds []repair.Kind) {
	for _, kind := range repair.KindsFor(code) {
		if slices.Contains([]repair.Kind{repair.DeleteAttachment, repair.DeleteFencedAttachment, repair.StripFinalizer, repair.UnpublishOrphan, repair.Republish}, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
