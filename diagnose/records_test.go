package diagnose_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// TestRecords: each volume that a finding is about has one record, which has each node's state
// from the objects, and leaves out no node that any object connects with it.
func TestRecords(t *testing.T) {
	for _, c := range corpus(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := c.snapshot(t)
			r := c.diagnose(s)
			about := map[corev1.UniqueVolumeName]bool{}
			for _, f := range r.Findings {
				if f.Volume == "" {
					continue
				}
				about[f.Volume] = true
				i := slices.IndexFunc(r.Volumes, func(v finding.VolumeRecord) bool { return v.Volume == f.Volume })
				if i < 0 || f.Node != "" && !slices.ContainsFunc(r.Volumes[i].Nodes, func(n finding.NodeRecord) bool { return n.Node == f.Node }) {
					t.Errorf("%s has no record of %s on %s", f.Code, f.Volume, f.Node)
				}
			}
			if len(about) != len(r.Volumes) {
				t.Errorf("%d records of %d volumes", len(r.Volumes), len(about))
			}
			for _, v := range r.Volumes {
				for _, node := range s.Nodes {
					attached := slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == v.Volume })
					inUse := slices.Contains(node.Status.VolumesInUse, v.Volume)
					i := slices.IndexFunc(v.Nodes, func(n finding.NodeRecord) bool { return string(n.Node) == node.Name })
					switch {
					case i < 0 && (attached || inUse):
						t.Errorf("%s reports %s and has no record", node.Name, v.Volume)
					case i >= 0 && (*v.Nodes[i].VolumesAttached != attached || *v.Nodes[i].VolumesInUse != inUse):
						t.Errorf("%s of %s: %+v, want %t and %t", v.Volume, node.Name, v.Nodes[i], attached, inUse)
					}
				}
				for _, n := range v.Nodes {
					if known := s.Node(n.Node) != nil; known != (n.VolumesAttached != nil) || known != (n.VolumesInUse != nil) {
						t.Errorf("%s: what node %s lists is known: %t", v.Volume, n.Node, !known)
					}
					for _, a := range n.Attachments {
						va := s.VolumeAttachment(a.Name)
						if va == nil || va.Spec.NodeName != string(n.Node) || va.Status.Attached != a.Attached || (va.DeletionTimestamp != nil) != a.Deleting {
							t.Errorf("%s on %s: %+v is not what the VolumeAttachment says", v.Volume, n.Node, a)
						}
					}
				}
			}
			if r := r.Keep(func(finding.Finding) bool { return false }); len(r.Volumes) > 0 {
				t.Errorf("records of volumes that no finding is about any more: %+v", r.Volumes)
			}
		})
	}
}

// TestChecksThatRan: each check ran, was skipped, or has nothing to run.
func TestChecksThatRan(t *testing.T) {
	for _, c := range corpus(t) {
		r := c.diagnose(c.snapshot(t))
		for _, check := range diagnose.Checks() {
			ran := slices.Contains(r.Checks, check.Code)
			skipped := slices.ContainsFunc(r.SkippedChecks, func(s finding.SkippedCheck) bool { return s.Code == check.Code })
			if ran == skipped && check.Run != nil || check.Run == nil && (ran || skipped) {
				t.Errorf("%s: %s ran: %t, skipped: %t", c.name, check.Code, ran, skipped)
			}
		}
	}
}
