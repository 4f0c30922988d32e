package output

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// hostile are strings with a meaning in one of the formats, or in a program that shows it.
var hostile = []string{
	"web-0", " ", "\n", "\r\n", "\t", "\x00", "\x1b[31m", "\x1b]8;;http://evil.test\x07", "\u009b2J", "\u202e", "\u200b", "\u2028", "\u2029", "\ufeff", "\ufffe", "\uffff",
	"\xff", "\xc3\x28", "\U0001f4be", "日本語", "é", "<script>alert(1)</script>", "</script>", "</style>", "</title>", "</desc></svg>", "<!--", "-->", "]]>", "<![CDATA[", "&lt;", "&#x3c;", "&",
	`"`, "'", "`", "``", "```", "~~~", "|", `\`, `\|`, "*", "**", "_", "__", "~~", "# ", "#12", "- ", "+ ", "1. ", "12) ", "> ", "---", "===", "![x](http://evil.test/i.png)", "](javascript:alert(1))",
	"[", "]", "(", ")", "@team", "GH-7", "https://evil.test/?a=b", "www.evil.test", "a@evil.test", "<http://evil.test>", "{{.}}", "{0}", "${x}", "$1", "$$x$$", "%s", "%", ":+1:", "[^1]", "<details>", "- [ ] ",
	"\" onload=\"alert(1)", "' x='", "}\n", `{a="b"} 1`, "../..", "/", "..", "?", "^", "=",
}

func hostileString() *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(hostile), rapid.String()), 0, 6), func(parts []string) string { return strings.Join(parts, "") })
}

// hostileReport is a report as it may be read with --report. All strings except those that only
// this tool makes are arbitrary, and no field needs to fit another.
func hostileReport() *rapid.Generator[*finding.Report] {
	return rapid.Custom(func(t *rapid.T) *finding.Report {
		text := func(label string) string { return hostileString().Draw(t, label) }
		texts := func(label string) []string { return rapid.SliceOfN(hostileString(), 0, 3).Draw(t, label) }
		r := report()
		r.Source = snapshot.Source{Path: text("path"), Context: text("context"), Server: text("server")}
		r.KubernetesVersion = text("version")
		r.Checks = []finding.Code{"VD101", "VD301"}
		r.Gaps = []snapshot.Gap{{Kind: snapshot.Pods, Namespace: text("gap"), Reason: text("reason"), Detail: text("detail")}}
		r.Complete = rapid.Bool().Draw(t, "complete")
		r.Summary, r.Findings = finding.Summary{}, nil
		n := rapid.IntRange(0, 4).Draw(t, "findings")
		for i := range n {
			f := finding.Finding{
				Code: rapid.SampledFrom([]finding.Code{"VD101", "VD301", "VD404", "VD501", "VD999"}).Draw(t, "code"), Check: "some-check",
				Severity: rapid.SampledFrom([]finding.Severity{finding.Error, finding.Warning, finding.Info}).Draw(t, "severity"),
				Message:  text("message"), Cause: text("cause"), Advice: text("advice"),
				Subject: finding.Object{Kind: text("kind"), Namespace: text("namespace"), Name: text("name")},
				Volume:  corev1.UniqueVolumeName(text("volume")), Node: types.NodeName(text("node")), Holder: types.NodeName(text("holder")),
				PersistentVolume: text("pv"), VolumeAttachment: text("attachment"), Pods: texts("pods"),
				SelfHeals:   finding.SelfHeals{Will: rapid.Bool().Draw(t, "heals"), After: text("after"), Because: text("because")},
				Fingerprint: fmt.Sprint(i),
				CausedBy:    rapid.SampledFrom([]string{"", "0", "1", "2", "3", "elsewhere"}).Draw(t, "causedBy"),
			}
			for range rapid.IntRange(0, 2).Draw(t, "evidence") {
				f.Evidence = append(f.Evidence, finding.Evidence{Object: text("object"), Field: text("field"), Value: text("value")})
			}
			if rapid.Bool().Draw(t, "repairable") {
				f.Repair = &finding.Repair{Kind: "patch-node-status", Risk: "low", BlockedBy: text("blocked"), Commands: texts("commands")}
			}
			yes := true
			r.Findings = append(r.Findings, f)
			r.Volumes = append(r.Volumes, finding.VolumeRecord{Volume: f.Volume, Nodes: []finding.NodeRecord{
				{Node: f.Node, WantedBy: texts("wantedBy"), VolumesAttached: &yes, VolumesInUse: new(bool)},
				{Node: types.NodeName(text("other")), Attachments: []finding.AttachmentRecord{{Name: text("va"), Attached: true}}},
			}})
		}
		slices.SortFunc(r.Volumes, func(a, b finding.VolumeRecord) int { return cmp.Compare(a.Volume, b.Volume) })
		return r
	})
}

// TestNothingGetsThrough checks that each format stays valid and shows all strings, whatever a
// driver, a user or a saved report has chosen for them.
func TestNothingGetsThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := hostileReport().Draw(t, "report")
		for _, format := range ReportFormats.Names() {
			var b bytes.Buffer
			if err := ReportFormats.Print(&b, format, r, Options{}); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if check := checkers[format]; check != nil {
				check(named{t, format}, b.Bytes(), r)
			}
		}
	})
}

// named puts the format before the messages of a checker.
type named struct {
	failer
	format string
}

func (n named) Errorf(format string, args ...any) {
	n.Helper()
	n.failer.Errorf("%s "+format, append([]any{n.format}, args...)...)
}

// TestLongStrings uses long messages, because a driver's message may be an entire log.
func TestLongStrings(t *testing.T) {
	long.Test(t)
	for _, piece := range []string{"x", "`", "<b>", "日", "\x1b[31m", "]]>", "@"} {
		r := report()
		long := strings.Repeat(piece, 100_000/len(piece))
		f := &r.Findings[0]
		f.Message, f.Subject.Name, f.PersistentVolume, f.Node = long, long, long, types.NodeName(long)
		f.Evidence[0].Value, f.Repair.Commands = long, []string{long}
		for _, format := range ReportFormats.Names() {
			text := printed(t, format, r)
			if check := checkers[format]; check != nil {
				check(named{t, format}, text, r)
			}
		}
	}
}
