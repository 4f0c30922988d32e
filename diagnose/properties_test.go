package diagnose_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// fewer is the snapshot without the objects of the kind for which keep is false, and with a gap
// for them.
func fewer(s *snapshot.Snapshot, kind snapshot.Kind, keep func(int) bool) *snapshot.Snapshot {
	o := s.Objects
	switch kind {
	case snapshot.VolumeAttachments:
		o.VolumeAttachments = some(o.VolumeAttachments, keep)
	case snapshot.Nodes:
		o.Nodes = some(o.Nodes, keep)
	case snapshot.CSINodes:
		o.CSINodes = some(o.CSINodes, keep)
	case snapshot.CSIDrivers:
		o.CSIDrivers = some(o.CSIDrivers, keep)
	case snapshot.StorageClasses:
		o.StorageClasses = some(o.StorageClasses, keep)
	case snapshot.Volumes:
		o.Volumes = some(o.Volumes, keep)
	case snapshot.Claims:
		o.Claims = some(o.Claims, keep)
	case snapshot.Leases:
		o.Leases = some(o.Leases, keep)
	case snapshot.Events:
		o.Events = some(o.Events, keep)
	case snapshot.Pods:
		o.Pods = some(o.Pods, keep)
	case snapshot.Deployments:
		o.Deployments = some(o.Deployments, keep)
	}
	gaps := slices.Clone(s.Gaps)
	if kind != snapshot.Deployments { // their absence is no gap
		gaps = append(gaps, snapshot.Gap{Kind: kind, Reason: snapshot.ReasonForbidden})
	}
	return remade(s, o, gaps)
}

func some[T any](list []T, keep func(int) bool) []T {
	var kept []T
	for i, o := range list {
		if keep(i) {
			kept = append(kept, o)
		}
	}
	return kept
}

func none(int) bool { return false }
func all(int) bool  { return true }

// subset fails where the second report finds something that the first does not. There are
// exceptions for the remainder: it may name a pod that waits in the first report as well,
// because the check that knew why could not run, or because what granted it more time was not
// read. Without the nodes, nothing shows that a pod waits for its node instead; without the
// drivers, nothing shows that an attachment does not concern it.
func subset(t interface{ Errorf(string, ...any) }, what string, more, less *finding.Report) {
	waits := func(pod string) bool {
		return slices.ContainsFunc(more.Waiting, func(w finding.Waiting) bool { return w.Pod == pod && w.Verdict != finding.Unsure })
	}
	blind := slices.ContainsFunc(less.Gaps, func(g snapshot.Gap) bool { return g.Kind == snapshot.Nodes || g.Kind == snapshot.CSIDrivers })
	for _, f := range less.Findings {
		if f.Check == "pod-stuck" && (blind || !slices.ContainsFunc(f.Pods, func(pod string) bool { return !waits(pod) })) {
			continue
		}
		i := slices.IndexFunc(more.Findings, func(m finding.Finding) bool { return m.Fingerprint == f.Fingerprint })
		if i < 0 {
			t.Errorf("%s: only less to read shows %s: %s", what, f.Code, f.Message)
		} else if claims := firmer(more.Findings[i], f); len(claims) > 0 {
			t.Errorf("%s: less to read makes %s more certain: %s", what, f.Code, strings.Join(claims, "; "))
		}
	}
}

// firmer returns the claims of a finding that say more, or something else, than the same finding does where
// more was read: less to read may only make a claim weaker.
func firmer(more, less finding.Finding) []string {
	var claims []string
	claim := func(is bool, format string, args ...any) {
		if is {
			claims = append(claims, fmt.Sprintf(format, args...))
		}
	}
	claim(less.Severity.Rank() > more.Severity.Rank(), "severity %s, was %s", less.Severity, more.Severity)
	claim(more.Confidence == finding.Suspected && less.Confidence != finding.Suspected, "certain, was suspected")
	before, now := more.SelfHeals, less.SelfHeals
	claim(now.Will && !before.Will, "heals, did not (%s)", before.Because)
	claim(now.Will && now.After != "" && now.After != before.After, "heals after %s, was %q", now.After, before.After)
	claim(!now.Will && !now.Unknown && (before.Will || before.Unknown), "does not heal, did or was not known (%s)", now.Because)
	return claims
}

// TestGaps: less data never yields more findings, and no check runs without a kind that it
// needs.
func TestGaps(t *testing.T) {
	long.Test(t)
	for _, c := range corpus(t) {
		s := c.snapshot(t)
		whole := c.diagnose(s)
		for _, kind := range append(snapshot.Kinds(), snapshot.Deployments) {
			for name, keep := range map[string]func(int) bool{"without": none, "with a part of": all} {
				r := c.diagnose(fewer(s, kind, keep))
				subset(t, fmt.Sprintf("%s %s %s", c.name, name, kind), whole, r)
				for _, check := range diagnose.Checks() {
					// other objects may show the drivers
					ofDriver := check.OfDriver && kind == snapshot.CSIDrivers
					skipped := slices.ContainsFunc(r.SkippedChecks, func(s finding.SkippedCheck) bool { return s.Code == check.Code && s.Because == kind })
					if slices.Contains(check.Needs, kind) != skipped && len(s.Gaps) == 0 && !ofDriver {
						t.Errorf("%s %s %s: %s skipped: %v", c.name, name, kind, check.Code, skipped)
					}
				}
			}
		}
	}
}

var everySubset = flag.Bool("every-subset", false, "try every subset of the kinds on every case, which takes minutes")

// subsetShare is the number of cases that share the subsets: each subset is tried on some
// dozens of cases in a few seconds.
const subsetShare = 16

// TestGapsSubsets: the same for every subset of the kinds that may be missing altogether.
func TestGapsSubsets(t *testing.T) {
	long.Test(t)
	kinds := append(snapshot.Kinds(), snapshot.Deployments)
	for i, c := range corpus(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := c.snapshot(t)
			whole := c.diagnose(s)
			for missing := range 1 << len(kinds) {
				if !*everySubset && (missing+i)%subsetShare != 0 {
					continue
				}
				less, lacks := s, []snapshot.Kind{}
				for k, kind := range kinds {
					if missing&(1<<k) != 0 {
						less, lacks = fewer(less, kind, none), append(lacks, kind)
					}
				}
				subset(t, fmt.Sprintf("%s without %v", c.name, lacks), whole, c.diagnose(less))
			}
		})
	}
}

// TestMachinesKnownWithoutCSINodes: where CSINodes were not read, the annotations of the Nodes show as well that
// none is the machine of a node that is gone (VD118).
func TestMachinesKnownWithoutCSINodes(t *testing.T) {
	c := caseNamed(t, "vd118-nobody-waits")
	for _, annotated := range []bool{true, false} {
		s := fewer(c.snapshot(t), snapshot.CSINodes, none)
		o := cloned(s.Objects)
		for _, node := range o.Nodes {
			if annotated {
				metav1.SetMetaDataAnnotation(&node.ObjectMeta, reconcile.NodeIDsAnnotation, `{"pd.csi.storage.gke.io": "i-`+node.Name+`"}`)
			}
		}
		found := slices.ContainsFunc(c.diagnose(remade(s, o, s.Gaps)).Findings, func(f finding.Finding) bool { return f.Code == "VD118" })
		if found != annotated {
			t.Errorf("annotated: %v, found: %v", annotated, found)
		}
	}
}

// TestGapsProperty: the same for any number of lists that are incomplete.
func TestGapsProperty(t *testing.T) {
	cases := corpus(t)
	snapshots := make([]*snapshot.Snapshot, len(cases))
	for i, c := range cases {
		snapshots[i] = c.snapshot(t)
	}
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(cases)-1).Draw(t, "case")
		c, s := cases[i], snapshots[i]
		whole := c.diagnose(s)
		less := s
		for _, kind := range rapid.SliceOfDistinct(rapid.SampledFrom(append(snapshot.Kinds(), snapshot.Deployments)), rapid.ID).Draw(t, "kinds") {
			kept := rapid.SliceOfN(rapid.Bool(), 64, 64).Draw(t, string(kind))
			less = fewer(less, kind, func(i int) bool { return kept[i%len(kept)] })
		}
		subset(t, c.name, whole, c.diagnose(less))
	})
}

func TestOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range corpus(t) {
		want := c.diagnose(c.snapshot(t))
		s := c.snapshot(t)
		o := s.Objects
		shuffle(random, o.Nodes)
		shuffle(random, o.Pods)
		shuffle(random, o.Claims)
		shuffle(random, o.Volumes)
		shuffle(random, o.VolumeAttachments)
		shuffle(random, o.Events)
		got := c.diagnose(remade(s, o, s.Gaps))
		if diff := gocmp.Diff(want, got, gocmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Errorf("%s: the order of the objects changes the report:\n%s", c.name, diff)
		}
	}
}

func shuffle[T any](random *rand.Rand, list []T) {
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// TestFingerprints: a fingerprint identifies one finding of a report, also after the objects
// were written to.
func TestFingerprints(t *testing.T) {
	for _, c := range corpus(t) {
		before := fingerprints(t, c, c.snapshot(t))
		s := c.snapshot(t)
		touch(s.Nodes, s.TakenAt.String())
		touch(s.Pods, "7")
		touch(s.Claims, "8")
		touch(s.Volumes, "9")
		touch(s.VolumeAttachments, "10")
		touch(s.CSINodes, "11")
		touch(s.CSIDrivers, "12")
		if diff := gocmp.Diff(before, fingerprints(t, c, s)); diff != "" {
			t.Errorf("%s: other resource versions, other fingerprints:\n%s", c.name, diff)
		}
	}
}

func touch[T metav1.Object](list []T, version string) {
	for _, o := range list {
		o.SetResourceVersion(version)
	}
}

func fingerprints(t *testing.T, c *corpusCase, s *snapshot.Snapshot) []string {
	var list []string
	for _, f := range c.diagnose(s).Findings {
		if f.Fingerprint == "" || slices.Contains(list, f.Fingerprint) {
			t.Errorf("%s: %s has no fingerprint of its own", c.name, f.Code)
		}
		list = append(list, f.Fingerprint)
	}
	return list
}

// TestFingerprintsTogether: no two codes share a fingerprint, over all cases.
func TestFingerprintsTogether(t *testing.T) {
	codes := map[string]finding.Code{}
	for _, c := range corpus(t) {
		for _, f := range c.diagnose(c.snapshot(t)).Findings {
			if code, ok := codes[f.Fingerprint]; ok && code != f.Code {
				t.Errorf("%s and %s share a fingerprint", code, f.Code)
			}
			codes[f.Fingerprint] = f.Code
		}
	}
}
