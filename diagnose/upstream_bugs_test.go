package diagnose_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// TestUpstreamBugs: on a release with the bug a finding names it, and on the release with the
// fix it does not.
func TestUpstreamBugs(t *testing.T) {
	for _, test := range []struct {
		name     string // of a case
		code     finding.Code
		issue    int
		has, not []string
	}{
		{"vd301-backoff-drop", "VD301", 72181, []string{"v1.20.15", "v1.21.6", "v1.22.3"}, []string{"v1.21.7", "v1.22.4", "v1.23.0", "v1.36.3", ""}},
		{"vd301-backoff-drop", "VD301", 111000, []string{"v1.21.7", "v1.22.4", "v1.24.4", "v1.25.0"}, []string{"v1.22.14", "v1.24.5", "v1.25.1", "v1.26.0"}},
		{"vd301-clobbered", "VD301", 72181, nil, []string{"v1.20.15"}},
		{"vd302-pod-waits", "VD302", 120571, []string{"v1.26.9", "v1.27.6", "v1.28.2"}, []string{"v1.26.10", "v1.27.7", "v1.28.3", "v1.29.0", "v1.36.3"}},
		{"vd401-driver-refuses", "VD401", 120571, []string{"v1.28.2"}, []string{"v1.28.3"}},
		{"vd104-job-ended", "VD104", 114207, []string{"v1.24.0", "v1.26.4", "v1.27.1"}, []string{"v1.23.17", "v1.24.14", "v1.26.5", "v1.27.2", "v1.28.0", ""}},
		{"vd108-left-behind", "VD108", 129572, []string{"v1.26.15", "v1.35.4"}, []string{"v1.36.0", "v1.37.0"}},
		{"vd111-shut-down", "VD111", 115148, []string{"v1.31.4"}, []string{"v1.32.0", ""}},
		{"vd116-attached-nowhere", "VD116", 106710, []string{"v1.24.8"}, []string{"v1.24.9", "v1.25.0"}},
	} {
		t.Run(fmt.Sprintf("%s %d", test.name, test.issue), func(t *testing.T) {
			for _, release := range slices.Concat(test.has, test.not) {
				f := findingOn(t, test.name, test.code, release)
				want := fmt.Sprintf("kubernetes/kubernetes#%d", test.issue)
				named := f.UpstreamBug != nil && f.UpstreamBug.Issue == want
				if named != slices.Contains(test.has, release) {
					t.Errorf("%q: %+v", release, f.UpstreamBug)
				}
				if told := strings.Contains(f.Cause, fmt.Sprintf("issue %d:", test.issue)); told != named {
					t.Errorf("%q: named %v, but the cause is %q", release, named, f.Cause)
				}
			}
		})
	}
}

// findingOn is the case's first finding with the code, where the cluster and all its kubelets
// have the release.
func findingOn(t *testing.T, name string, code finding.Code, release string) finding.Finding {
	t.Helper()
	c := caseNamed(t, name)
	s := c.snapshot(t)
	s.Source.ServerVersion = release
	for _, node := range s.Nodes {
		node.Status.NodeInfo.KubeletVersion = release
	}
	findings := c.diagnose(s).Findings
	i := slices.IndexFunc(findings, func(f finding.Finding) bool { return f.Code == code })
	if i < 0 {
		t.Fatalf("no %s on %q", code, release)
	}
	return findings[i]
}
