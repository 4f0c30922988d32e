package facts_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestRestartOfNodePlugin: the advice to restart a node plugin names the pods whose mounts may
// end with it. A command deletes the plugin's pod only where no mount does.
func TestRestartOfNodePlugin(t *testing.T) {
	for _, c := range []struct {
		name   string
		hits   int // -1 where that is not known
		says   string
		delete bool
	}{
		{name: "vd613-fuse-in-the-plugin", hits: 1, says: "hits 1 pod (default/reader-0) with volumes of ch.ctrox.csi.s3-driver mounted there: a process in the plugin's pod serves these mounts"},
		{name: "vd613-rbd-nbd", hits: 1, says: "a process in the plugin's pod serves these mounts"},
		{name: "vd613-krbd", says: "hits no pod: no mount of 1 pod (default/reader-0) there depends on it, as rook-ceph.rbd.csi.ceph.com mounts by the kernel", delete: true},
		{name: "vd613-krbd-pod-network", hits: 1, says: "these mounts may end with the plugin's pod"},
		{name: "vd613-driver-not-known", hits: 1, says: "these mounts may end with the plugin's pod"},
		{name: "vd613-ready-not-registered", says: "hits no pod: no mount of 1 pod (default/web-0) there depends on it, as ebs.csi.aws.com mounts by the kernel", delete: true},
		{name: "vd613-other-directory", says: "hits no pod: none there has a volume of it mounted", delete: true},
		{name: "vd613-pod-waits", says: "hits no pod: none there", delete: true},
		{name: "vd616-kubelet-restarted", says: "hits no pod: none there", delete: true},
		{name: "vd621-node-lacks-driver", says: "", delete: false},
	} {
		s := clusterNamed(t, c.name)
		code := finding.Code(strings.ToUpper(c.name[:5]))
		r := diagnose.Diagnose(s, diagnose.Options{})
		i := slices.IndexFunc(r.Findings, func(f finding.Finding) bool { return f.Code == code })
		if i < 0 {
			t.Errorf("%s: no %s", c.name, code)
			continue
		}
		f := r.Findings[i]
		if c.says == "" {
			if !slices.Equal(f.AdviceCommands, []string{"kubectl get pods -A --field-selector=spec.nodeName=n1 -o wide"}) || len(f.Steps) > 0 {
				t.Errorf("%s: there is no plugin, and %v, %v", c.name, f.AdviceCommands, f.Steps)
			}
			continue
		}
		j := slices.IndexFunc(f.Steps, func(s finding.Step) bool { return s.Kind == step.RestartNodePlugin })
		if j < 0 || f.Steps[j].Hits == nil || *f.Steps[j].Hits != c.hits || !strings.Contains(f.Steps[j].Says, c.says) {
			t.Errorf("%s: %+v", c.name, f.Steps)
		}
		deletes := slices.ContainsFunc(f.AdviceCommands, func(line string) bool { return strings.Contains(line, " delete pod/") })
		if deletes != c.delete || !deletes && (!strings.Contains(f.Advice, "cordon n1") || !slices.Contains(f.AdviceCommands, "kubectl cordon node/n1")) {
			t.Errorf("%s: %s %v", c.name, f.Advice, f.AdviceCommands)
		}
	}
}

// TestRestartOfNodePluginUncounted: where pods, or the objects that lead to their volumes,
// could not be read, the number of pods that a restart hits is unknown.
func TestRestartOfNodePluginUncounted(t *testing.T) {
	for _, kind := range []snapshot.Kind{snapshot.Claims, snapshot.Volumes} {
		uncounted := 0
		s := without(clusterNamed(t, "vd309-annotation-lost"), kind)
		for _, f := range diagnose.Diagnose(s, diagnose.Options{}).Findings {
			for _, st := range f.Steps {
				if st.Kind == step.RestartNodePlugin {
					uncounted++
				}
				if st.Kind == step.RestartNodePlugin && (st.Hits != nil || !strings.Contains(st.Says, "an unknown number of pods")) {
					t.Errorf("without %s: %s: %+v", kind, f.Code, st)
				}
			}
			if slices.ContainsFunc(f.AdviceCommands, func(line string) bool { return strings.Contains(line, " delete pod/") }) {
				t.Errorf("without %s: %s: %v", kind, f.Code, f.AdviceCommands)
			}
		}
		if uncounted == 0 {
			t.Errorf("without %s: no restart is advised", kind)
		}
	}
}

// TestRestartOfNodePluginLost: a pod whose claim or volume is gone or was recreated still has
// the mount. It counts wherever the mount may end with the plugin.
func TestRestartOfNodePluginLost(t *testing.T) {
	changes := map[string]func(*snapshot.Objects){
		"the claims are gone":  func(o *snapshot.Objects) { o.Claims = nil },
		"the volumes are gone": func(o *snapshot.Objects) { o.Volumes = nil },
		"the claims were made again": func(o *snapshot.Objects) {
			for i, claim := range o.Claims {
				o.Claims[i] = claim.DeepCopy()
				o.Claims[i].UID, o.Claims[i].Spec.VolumeName, o.Claims[i].Status.Phase = claim.UID+"-again", "", corev1.ClaimPending
			}
		},
	}
	for name, hits := range map[string]int{
		"vd613-fuse-in-the-plugin": 1, "vd613-rbd-nbd": 1, "vd613-krbd": 1, "vd613-driver-not-known": 1, "vd613-ready-not-registered": 0,
	} {
		for what, change := range changes {
			s := clusterNamed(t, name)
			o := s.Objects
			o.Claims, o.Volumes = slices.Clone(o.Claims), slices.Clone(o.Volumes)
			change(&o)
			view := viewOf(remade(s, o))
			driver := caseDriver(t, name)
			st := view.RestartOfPlugin(driver, "n1")
			if st.Hits == nil || *st.Hits < hits || hits == 0 && *st.Hits != 0 {
				t.Errorf("%s, %s: %+v", name, what, st)
			}
			if hits > 0 && !strings.Contains(st.Says, "its driver is not known") {
				t.Errorf("%s, %s: %s", name, what, st.Says)
			}
		}
	}
}

// caseDriver is the driver of the case's VD613 finding.
func caseDriver(t *testing.T, name string) string {
	t.Helper()
	for _, f := range diagnose.Diagnose(clusterNamed(t, name), diagnose.Options{}).Findings {
		if f.Code == "VD613" {
			return f.Subject.Name
		}
	}
	t.Fatalf("%s: no VD613", name)
	return ""
}

func viewOf(s *snapshot.Snapshot) *facts.View {
	world := reconcile.NewWorld(s, reconcile.Options{})
	return facts.NewView(s, world, world.Reconcile())
}

// without is the snapshot in which the claims or volumes could not be read.
func without(s *snapshot.Snapshot, kind snapshot.Kind) *snapshot.Snapshot {
	o := s.Objects
	switch kind {
	case snapshot.Claims:
		o.Claims = nil
	case snapshot.Volumes:
		o.Volumes = nil
	}
	return remade(s, o, snapshot.Gap{Kind: kind, Reason: snapshot.ReasonForbidden})
}
