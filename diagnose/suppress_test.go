package diagnose

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

func day(t *testing.T, text string) time.Time {
	t.Helper()
	d, err := time.Parse(time.DateOnly, text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReadSuppressions(t *testing.T) {
	list, err := ReadSuppressions([]byte(`# what we live with
suppressions:
- check: VD301
  namespace: shop
  name: web-*
  reason: the disk of web is being moved
  until: 2026-12-31
- {check: two-vas-one-rwo, node: n1, volume: pv1, fingerprint: "0123", reason: known}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []finding.Suppression{
		{Check: "inuse-not-attached", Namespace: "shop", Name: "web-*", Reason: "the disk of web is being moved", Until: day(t, "2026-12-31"), Line: 3},
		{Check: "two-vas-one-rwo", Node: "n1", Volume: "pv1", Fingerprint: "0123", Reason: "known", Line: 8},
	}
	if len(list) != 2 || list[0] != want[0] || list[1] != want[1] {
		t.Errorf("read %+v", list)
	}
	for _, empty := range []string{"", "# nothing yet\n", "suppressions: []\n"} {
		if list, err := ReadSuppressions([]byte(empty)); err != nil || len(list) > 0 {
			t.Errorf("%q: %v, %v", empty, list, err)
		}
	}
}

func TestReadSuppressionsRefuses(t *testing.T) {
	const head = "suppressions:\n- check: VD301\n"
	for text, want := range map[string]string{
		head + "  resaon: typo\n":                    `line 3: a suppression has no field "resaon"`,
		head + "  reason: known\n  severity: info\n": `line 4: a suppression has no field "severity"`,
		head:                                            "line 2: the suppression of VD301 has no reason",
		head + "  reason: ' '\n":                        "line 3: reason is a text, and not empty",
		head + "  reason: [a]\n":                        "line 3: reason is a text",
		head + "  reason: a\n  reason: b\n":             "line 4: reason stands there twice",
		head + "  reason: known\n  until: soon\n":       `line 2: until "soon" is not a day`,
		head + "  reason: known\n  until: 2026-13-01\n": "is not a day",
		head + "  reason: known\n  name: '[a'\n":        `line 2: the name "[a" is not a pattern`,
		"suppressions:\n- reason: known\n":              "line 2: a suppression without a check",
		"suppressions:\n- check: VD999\n  reason: x\n":  `line 2: there is no check "VD999"`,
		"suppressions:\n- VD301\n":                      "line 2: a suppression has fields",
		"suppressions: VD301\n":                         "line 1: it has one field, suppressions",
		"ignore: []\n":                                  "line 1: it has one field, suppressions",
		"- check: VD301\n":                              "line 1: it has one field, suppressions",
		"suppressions: []\nmore: []\n":                  "line 1: it has one field, suppressions",
		"suppressions: []\n---\nsuppressions: []\n":     "more than one document",
		"suppressions: [\n":                             "line 1: did not find",
		"null\n":                                        "line 1: it has one field, suppressions",
	} {
		if _, err := ReadSuppressions([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestSuppressionHides(t *testing.T) {
	f := finding.Finding{
		Code: "VD301", Check: "inuse-not-attached", Severity: finding.Error, Subject: finding.Object{Kind: "Pod", Namespace: "shop", Name: "web-0"},
		Node: "n1", Volume: "kubernetes.io/csi/d^v", PersistentVolume: "pv1", Pods: []string{"shop/web-0"}, Fingerprint: "0123",
	}
	attachment := f
	attachment.Subject, attachment.Pods, attachment.Claims = finding.Object{Kind: "VolumeAttachment", Name: "csi-1"}, nil, []string{"shop/data"}
	shared := attachment
	shared.Pods = []string{"blog/web-0"}
	nobodys := attachment
	nobodys.Claims = nil
	onNode := f
	onNode.Subject, onNode.Node = finding.Object{Kind: "Node", Name: "n1"}, ""
	for name, c := range map[string]struct {
		s    finding.Suppression
		f    finding.Finding
		want bool
	}{
		"the check":                        {finding.Suppression{}, f, true},
		"another check":                    {finding.Suppression{Check: "two-vas-one-rwo"}, f, false},
		"the name":                         {finding.Suppression{Name: "web-0"}, f, true},
		"a pattern":                        {finding.Suppression{Name: "web-*"}, f, true},
		"another name":                     {finding.Suppression{Name: "db-*"}, f, false},
		"the namespace":                    {finding.Suppression{Namespace: "shop"}, f, true},
		"another namespace":                {finding.Suppression{Namespace: "blog"}, f, false},
		"the namespace of its claim":       {finding.Suppression{Namespace: "shop"}, attachment, true},
		"one of two namespaces":            {finding.Suppression{Namespace: "shop"}, shared, false},
		"a namespace, of what is nobody's": {finding.Suppression{Namespace: "shop"}, nobodys, false},
		"the node":                         {finding.Suppression{Node: "n1"}, f, true},
		"the node itself":                  {finding.Suppression{Node: "n1"}, onNode, true},
		"another node":                     {finding.Suppression{Node: "n2"}, f, false},
		"a pod with the name of the node":  {finding.Suppression{Node: "web-0"}, f, false},
		"the PersistentVolume":             {finding.Suppression{Volume: "pv1"}, f, true},
		"the volume":                       {finding.Suppression{Volume: "kubernetes.io/csi/d^v"}, f, true},
		"another volume":                   {finding.Suppression{Volume: "pv2"}, f, false},
		"the fingerprint":                  {finding.Suppression{Fingerprint: "0123"}, f, true},
		"another fingerprint":              {finding.Suppression{Fingerprint: "012"}, f, false},
		"all but one":                      {finding.Suppression{Name: "web-*", Namespace: "shop", Node: "n1", Volume: "pv2"}, f, false},
	} {
		if c.s.Check == "" {
			c.s.Check = f.Check
		}
		if got := c.s.Hides(c.f); got != c.want {
			t.Errorf("%s: hidden %v", name, got)
		}
	}
}

// TestSuppress: a suppressed finding is counted, and is neither in the summary nor in the exit
// code. After the suppression's last day it comes back.
func TestSuppress(t *testing.T) {
	list := []finding.Suppression{{Check: "inuse-not-attached", Reason: "known", Until: day(t, "2026-12-31")}}
	report := func(at string) *finding.Report {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		return finding.New(finding.Report{TakenAt: metav1.NewTime(now), Findings: []finding.Finding{
			{Code: "VD301", Check: "inuse-not-attached", Severity: finding.Error, Fingerprint: "cause"},
			{Code: "VD401", Check: "reuse-while-detaching", Severity: finding.Warning, Fingerprint: "follows", CausedBy: "cause"},
		}})
	}
	r := report("2026-12-31T23:59:59Z")
	r = r.Without(finding.LeaveOut{Suppressions: list})
	if r.Suppressed != 1 || len(r.Findings) != 1 || r.Summary != (finding.Summary{Warning: 1}) || r.Reaches(finding.Error) {
		t.Errorf("on the last day: %+v", r)
	}
	if len(r.OmittedCauses) != 1 || r.OmittedCauses[0].Fingerprint != "cause" {
		t.Errorf("what is left does not say what it follows from: %v", r.OmittedCauses)
	}
	r = report("2027-01-01T00:00:00Z")
	r = r.Without(finding.LeaveOut{Suppressions: list})
	if r.Suppressed != 0 || len(r.Findings) != 2 || !list[0].Expired(r.TakenAt.Time) {
		t.Errorf("a day later: %+v", r)
	}
}
