package diagnose_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// names are permanent: scripts and suppressions contain codes and names. Those of failure modes
// without a check are reserved.
var names = map[finding.Code]string{
	"VD101": "dangling-after-kcm-restart",
	"VD102": "node-lost-6min",
	"VD103": "va-stuck-deleting",
	"VD104": "inuse-stuck-unmount-failed",
	"VD105": "uncertain-after-failed-attach",
	"VD106": "leader-change-detaches-live",
	"VD107": "terminated-pod-holds-volume",
	"VD108": "attachability-flipped",
	"VD109": "force-deleted-pod",
	"VD110": "oos-taint-misuse",
	"VD111": "graceful-shutdown-leaves-inuse",
	"VD112": "autoscaler-deletes-before-detach",
	"VD113": "node-termination-blocked-by-va",
	"VD114": "va-recreated-on-dead-node",
	"VD115": "attach-to-deleted-node-detach-fails",
	"VD116": "force-detached-while-mounted",
	"VD117": "spot-preemption",
	"VD118": "hibernation-orphans-vas",
	"VD119": "va-pv-missing",
	"VD120": "foreign-va",
	"VD121": "pv-recreated-under-va",
	"VD122": "third-party-deletes-vas",
	"VD123": "late-detach-kills-new-attach",
	"VD124": "etcd-rewind",
	"VD125": "detach-asks-new-machine",
	"VD201": "two-vas-one-rwo",
	"VD202": "rwo-rollout-deadlock",
	"VD203": "rwo-many-consumers",
	"VD204": "rwop-conflict",
	"VD205": "silent-double-use",
	"VD301": "inuse-not-attached",
	"VD302": "attached-phantom",
	"VD303": "volumesattached-wiped",
	"VD304": "inuse-lost",
	"VD305": "inuse-not-reported",
	"VD306": "inuse-clobbered",
	"VD307": "same-name-new-instance",
	"VD308": "attached-true-but-not",
	"VD309": "node-id-differs",
	"VD310": "topology-label-missing",
	"VD401": "reuse-while-detaching",
	"VD402": "node-not-controller-managed",
	"VD403": "sts-terminating-on-dead-node",
	"VD404": "orphan-backend-attachment",
	"VD405": "attached-but-not-recorded",
	"VD406": "va-never-processed",
	"VD407": "selinux-label-conflict",
	"VD408": "pods-on-unmanaged-node",
	"VD409": "pod-stuck",
	"VD410": "attach-refused",
	"VD411": "mount-refused",
	"VD412": "permanently-unmountable",
	"VD413": "slow-ownership",
	"VD414": "failed-pod-pins-refused-attach",
	"VD415": "attachment-denied",
	"VD416": "mount-broken",
	"VD417": "pod-does-not-end",
	"VD501": "claimref-stale",
	"VD502": "pv-terminating-va-exists",
	"VD503": "pv-finalizer-without-va",
	"VD504": "pvc-lost-or-double-claim",
	"VD505": "duplicate-volume-handle",
	"VD506": "topology-mismatch",
	"VD507": "migration-name-switch",
	"VD508": "migrated-inline-va",
	"VD509": "migrated-va-not-gc",
	"VD510": "migration-config-mismatch",
	"VD511": "volume-expansion-stuck",
	"VD512": "claim-not-bound",
	"VD513": "claim-terminating",
	"VD514": "claim-gone-under-pod",
	"VD515": "volume-terminating",
	"VD516": "disk-gone",
	"VD517": "volume-modification-stuck",
	"VD601": "driver-uninstalled",
	"VD602": "csinode-driver-missing",
	"VD603": "csidriver-missing",
	"VD604": "attacher-down",
	"VD605": "attacher-zombie-leader",
	"VD606": "publish-secret-missing",
	"VD607": "driver-renamed",
	"VD608": "attach-limit",
	"VD609": "attacher-throttled",
	"VD610": "backend-side-stuck",
	"VD611": "driver-cr-disagrees",
	"VD612": "migration-no-csi-driver",
	"VD613": "plugin-not-registered",
	"VD614": "driver-gone-under-pods",
	"VD615": "registered-but-not-served",
	"VD616": "registration-lost",
	"VD617": "csinode-not-initialized",
	"VD618": "csinode-of-former-node",
	"VD619": "two-plugins-one-driver",
	"VD620": "node-unknown-to-driver",
	"VD621": "inline-driver-missing",
	"VD622": "controller-down",
	"VD623": "disk-unclaimed",
	"VD624": "resizer-down",
}

var sections = []string{
	"## Symptom", "## Evidence", "## Look-alikes", "## Does it heal by itself?",
	"## Repair", "## Risk", "## Dangerous advice", "## References",
}

func TestChecks(t *testing.T) {
	checks := diagnose.Checks()
	pattern := regexp.MustCompile(`^VD[1-6](0[1-9]|[1-9]\d)$`)
	kinds := snapshot.Kinds()
	for i, c := range checks {
		if !pattern.MatchString(string(c.Code)) {
			t.Errorf("%s is no code", c.Code)
		}
		if i > 0 && checks[i-1].Code >= c.Code {
			t.Errorf("%s comes after %s", c.Code, checks[i-1].Code)
		}
		if names[c.Code] != c.Name {
			t.Errorf("%s is called %q, not %q", c.Code, c.Name, names[c.Code])
		}
		_, references, _ := strings.Cut(c.Doc(), "## References")
		if numbered := regexp.MustCompile(`(?:issues?|requests?) \d+`).FindString(references); numbered != "" {
			t.Errorf("%s: %q is no link", c.Code, numbered)
		}
		if c.Title == "" {
			t.Errorf("%s lacks a title or what it runs", c.Code)
		}
		if !slices.Contains([]finding.Severity{finding.Info, finding.Warning, finding.Error}, c.Severity) {
			t.Errorf("%s: unknown severity %q", c.Code, c.Severity)
		}
		for j, kind := range c.Needs {
			if !slices.Contains(kinds, kind) || slices.Contains(c.Needs[:j], kind) {
				t.Errorf("%s needs %s, which can be no gap or stands there twice", c.Code, kind)
			}
		}
	}
}

func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) != len(diagnose.Checks()) {
		t.Errorf("%d pages for %d checks: %v", len(pages), len(diagnose.Checks()), err)
	}
	for _, c := range diagnose.Checks() {
		page := c.Doc()
		if title := "# " + string(c.Code) + " " + c.Name + "\n"; !strings.HasPrefix(page, title) {
			t.Errorf("%s: the page does not begin with %q", c.Code, title)
		}
		var got []string
		for i, line := range strings.Split(page, "\n") {
			// a link is not broken
			if len([]rune(line)) > 80 && (!strings.HasPrefix(line, "- https://") || strings.Contains(line[2:], " ")) {
				t.Errorf("docs/%s.md:%d has more than 80 columns", c.Code, i+1)
			}
			if strings.HasPrefix(line, "## ") && line != reachSection { // generated, where it is needed
				got = append(got, line)
			}
		}
		if !slices.Equal(got, sections) {
			t.Errorf("docs/%s.md has the sections %q", c.Code, got)
		}
	}
}

// TestCorpusCovers: every check has a case in which it fires, and at least two near misses.
func TestCorpusCovers(t *testing.T) {
	fires, near := map[finding.Code]int{}, map[finding.Code]int{}
	for _, c := range corpus(t) {
		fires[c.fires()]++
		near[c.near()]++
	}
	for _, c := range diagnose.Checks() {
		if c.Run != nil && (fires[c.Code] < 1 || near[c.Code] < 2) {
			t.Errorf("%s has %d cases and %d near misses", c.Code, fires[c.Code], near[c.Code])
		}
	}
}

// TestFindings: a finding can be acted on: it says where, why, and whether it ends by itself.
func TestFindings(t *testing.T) {
	for _, c := range corpus(t) {
		for _, f := range c.diagnose(c.snapshot(t)).Findings {
			if !slices.Contains([]finding.Severity{finding.Info, finding.Warning, finding.Error}, f.Severity) {
				t.Errorf("%s: %s: unknown severity %q", c.name, f.Code, f.Severity)
			}
			if f.Message == "" || strings.ContainsAny(f.Message, "\n\r") || strings.HasSuffix(f.Message, ".") {
				t.Errorf("%s: %s: the message is no single sentence: %q", c.name, f.Code, f.Message)
			}
			if strings.ContainsAny(f.Detail, "\n\r") || strings.HasSuffix(f.Detail, ".") {
				t.Errorf("%s: %s: the detail is no row of clauses: %q", c.name, f.Code, f.Detail)
			}
			if f.Subject.Kind == "" || f.Subject.Name == "" || f.Cause == "" || f.Advice+f.ByHand == "" || len(f.Evidence) == 0 || f.SelfHeals.Because == "" {
				t.Errorf("%s: %s leaves something out: %+v", c.name, f.Code, f)
			}
			for _, e := range f.Evidence {
				if e.Object == "" || e.Field == "" || e.Value == "" {
					t.Errorf("%s: %s: evidence %+v", c.name, f.Code, e)
				}
			}
			if after := f.SelfHeals.After; after != "" {
				if d, err := time.ParseDuration(after); err != nil || d <= 0 || !f.SelfHeals.Will {
					t.Errorf("%s: %s heals after %q: %v", c.name, f.Code, after, err)
				}
			}
			if !slices.IsSorted(f.Pods) {
				t.Errorf("%s: %s: pods %v", c.name, f.Code, f.Pods)
			}
			if f.Since != nil && f.Since.After(c.snapshot(t).TakenAt) {
				t.Errorf("%s: %s begins in the future: %s", c.name, f.Code, f.Since)
			}
		}
	}
}

// TestBackoffDropSnapshot: the example snapshot has one finding, and is complete.
func TestBackoffDropSnapshot(t *testing.T) {
	file, err := os.Open("../testdata/snapshots/backoff-drop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s, warnings, err := snapshot.Read("backoff-drop.yaml", file, snapshot.ReadOptions{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	r := diagnose.Diagnose(s, diagnose.Options{})
	if len(r.Findings) != 1 || r.Findings[0].Code != "VD301" || r.Findings[0].Severity != finding.Error || !r.Complete {
		t.Errorf("complete: %v, findings: %+v", r.Complete, r.Findings)
	}
}

func TestBackoffDropReleases(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.20.15": true, "v1.21.6": true, "v1.21.7": false, "v1.22.3": true, "v1.22.4": false, "v1.23.0": false, "v1.36.3": false,
	} {
		i := slices.IndexFunc(corpus(t), func(c *corpusCase) bool { return c.name == "vd301-backoff-drop" })
		c := corpus(t)[i]
		s := c.snapshot(t)
		s.Source.ServerVersion = version
		f := c.diagnose(s).Findings[0]
		if got := strings.Contains(f.Cause, "72181"); got != want {
			t.Errorf("%s: %s", version, f.Cause)
		}
	}
}

// TestNeverIsSaid: where a page has dangerous advice, the report warns of it in a line that
// fits a terminal.
func TestNeverIsSaid(t *testing.T) {
	// each of their findings has its own warning
	bySituation := map[finding.Code]bool{"VD125": true, "VD304": true, "VD510": true}
	for _, c := range diagnose.Checks() {
		if c.Run == nil && !c.Remainder {
			continue
		}
		_, section, dangerous := strings.Cut(c.Doc(), "\n## Dangerous advice\n")
		dangerous = dangerous && !strings.HasPrefix(strings.TrimSpace(section), "None.")
		if dangerous != (c.Never != "") && !bySituation[c.Code] {
			t.Errorf("%s: its page warns: %t; it says %q", c.Code, dangerous, c.Never)
		}
		short, _, _ := strings.Cut(c.Never, ": ")
		if len(short) > 100 || strings.HasPrefix(c.Never, "Do not") || strings.HasSuffix(c.Never, ".") {
			t.Errorf("%s: %q does not complete \"Do not ...\" in a line", c.Code, c.Never)
		}
	}
}
