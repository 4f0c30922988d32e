package repair

import (
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// renewing is the snapshot with a kubelet on each node that has just renewed its lease.
func renewing(s *snapshot.Snapshot) *snapshot.Snapshot {
	o := testcases.Copy(s.Objects)
	o.Leases = slices.DeleteFunc(o.Leases, func(l *coordinationv1.Lease) bool { return l.Namespace == corev1.NamespaceNodeLease })
	for _, node := range o.Nodes {
		o.Leases = append(o.Leases, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node.Name},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: s.TakenAt}},
		})
	}
	made := snapshot.New(s.TakenAt, s.Source, o, s.Gaps)
	made.Backends, made.Followed = s.Backends, s.Followed
	return made
}

// TestKubeletsThatLive: where a node is not Ready and its kubelet renews its lease, no
// finding says that the node is lost or silent, and no repair is made that needs its machine
// off, whatever the user has said.
func TestKubeletsThatLive(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	lives := func(s *snapshot.Snapshot, f finding.Finding) bool {
		node := s.Node(f.Node)
		return node != nil && !reconcile.NodeReady(node)
	}
	nodes, refused := 0, 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		consent := Consent{Allow: Kinds(), Fenced: allNodes(s)}
		for _, r := range propose(Look(s, diagnose.Options{Reconcile: c.Settings}, consent)) {
			if lives(s, r.Finding) && slices.ContainsFunc(r.Guards, func(g Guard) bool { return g.Name == notAliveGuard.Name }) {
				refused++
			}
		}
		view := Look(renewing(s), diagnose.Options{Reconcile: c.Settings}, consent)
		for _, node := range view.Snapshot.Nodes {
			if !reconcile.NodeReady(node) {
				nodes++
			}
		}
		for _, f := range view.Report.Findings {
			text := f.Message + " " + f.Headline + " " + f.Cause
			if lives(s, f) && (strings.Contains(text, "lost node "+string(f.Node)) || strings.Contains(text, "ode "+string(f.Node)+" is lost") ||
				strings.Contains(text, "silent node") || strings.Contains(text, "which is silent") || strings.Contains(text, "the node was lost")) {
				t.Errorf("%s: %s %s", c.Name, f.Code, text)
			}
		}
		for _, r := range propose(view) {
			if lives(s, r.Finding) && slices.ContainsFunc(r.Guards, func(g Guard) bool { return g.Name == notAliveGuard.Name }) {
				t.Errorf("%s: %s for %s of node %s, whose kubelet lives", c.Name, r.Kind, r.Finding.Code, r.Finding.Node)
			}
		}
	}
	if nodes < 50 || refused < 10 {
		t.Errorf("%d nodes that are not Ready, %d repairs were it not for their kubelets: this shows little", nodes, refused)
	}
}

// TestMachinesThatLive: where the machine of a lost or gone node is alive under another name, no
// repair is made that needs it off, whatever the user has said, no action asks to power it off or to
// detach from it, and the finding names the node that lives.
func TestMachinesThatLive(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	spared, refused := 0, 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		view := Look(s, diagnose.Options{Reconcile: c.Settings}, Consent{Allow: Kinds(), Fenced: append(allNodes(s), "n1", "old-1")})
		for _, f := range view.Report.Findings {
			alias := view.Facts.AliveAs(f.Node)
			if alias == nil {
				continue
			}
			spared++
			if !strings.Contains(f.Detail, alias.Node.Name) {
				t.Errorf("%s: %s does not name node %s: %s", c.Name, f.Code, alias.Node.Name, f.Detail)
			}
			for _, a := range f.Do {
				if a.Kind == "power-off" || a.Kind == "taint-node" || strings.Contains(a.Sentence, "delete the VolumeAttachment") {
					t.Errorf("%s: %s advises: %s", c.Name, f.Code, a.Sentence)
				}
			}
		}
		for _, r := range propose(view) {
			if view.Facts.AliveAs(r.Finding.Node) != nil && slices.ContainsFunc(r.Guards, func(g Guard) bool { return g.Name == notAlive }) {
				t.Errorf("%s: %s for %s of node %s, whose machine lives", c.Name, r.Kind, r.Finding.Code, r.Finding.Node)
			}
		}
		for _, f := range view.Report.Findings {
			if f.Repair != nil && strings.HasPrefix(f.Repair.BlockedBy, notAlive+": the machine of") {
				refused++
			}
		}
	}
	if spared < 3 || refused < 2 {
		t.Errorf("%d findings about machines that live, %d repairs refused: this shows little", spared, refused)
	}
}
