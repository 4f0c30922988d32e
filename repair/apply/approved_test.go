package apply

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// view looks at the world and returns the view and its repairs.
func (m *memory) view() (*repair.View, []repair.Repair) {
	m.t.Helper()
	s, err := m.Snapshot(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	return repair.Examine(s, reconcile.Options{}, m.consent, diagnose.Request{})
}

// reviewed is the file of approved repairs for the world, as it is read back.
func (m *memory) reviewed() *Approved {
	m.t.Helper()
	v, repairs := m.view()
	var file bytes.Buffer
	if err := Save(v, repairs).Write(&file); err != nil {
		m.t.Fatal(err)
	}
	p, err := ReadApproved(&file)
	if err != nil || len(p.Repairs) != len(repairs) {
		m.t.Fatalf("%+v, %v", p, err)
	}
	return p
}

func TestApprovedIsMadeAsReviewed(t *testing.T) {
	m := two(t)
	approved := m.reviewed()
	// A heartbeat is no change, and a repair that has become superfluous does not refuse the
	// file.
	m.rewrite("n1", "kubelet", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} })
	n := m.node("n1")
	n.Status.VolumesInUse = slices.DeleteFunc(n.Status.VolumesInUse, func(v corev1.UniqueVolumeName) bool { return v == uniqueName("vol-2") })
	m.objects.Pods = slices.DeleteFunc(m.objects.Pods, func(p *corev1.Pod) bool { return p.Name == "web-2" })
	v, proposed := m.view()
	chosen, err := approved.Choose(v, proposed)
	if err != nil || len(chosen) != 1 || chosen[0].Finding.PersistentVolume != "pv1" {
		t.Fatalf("%+v, %v", chosen, err)
	}
	a, _ := m.applier()
	if results, err := a.Apply(t.Context(), chosen); err != nil || results[0].Outcome != Repaired {
		t.Errorf("%+v, %v", results, err)
	}
}

// TestApprovedLeavesOutTheRest: a repair that appeared after the review is not made.
func TestApprovedLeavesOutTheRest(t *testing.T) {
	m := lostEntry(t)
	approved := m.reviewed()
	m.addVolume("n1", "pv2", "vol-2", "web-2")
	n := m.node("n1")
	n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-2"))
	v, proposed := m.view()
	if chosen, err := approved.Choose(v, proposed); err != nil || len(proposed) != 2 || len(chosen) != 1 {
		t.Errorf("%d proposed, %d chosen, %v", len(proposed), len(chosen), err)
	}
}

func TestApprovedRefusesAWorldThatMoved(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*memory, *Approved)
		says   string
	}{
		"another cluster": {func(_ *memory, p *Approved) { p.Server = "https://other" }, "the repairs are for https://other"},
		"node made anew":  {func(m *memory, _ *Approved) { m.node("n1").UID = "another" }, "it would now be to add volume pv1"},
		"pod made anew": {func(m *memory, _ *Approved) {
			for _, pod := range m.objects.Pods {
				pod.UID = "another"
			}
		}, "another Pod has its name"},
		"another volume attached": {func(m *memory, _ *Approved) {
			n := m.node("n1")
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-2")})
		}, "with another patch than was reviewed"},
		"another word of the user": {func(_ *memory, p *Approved) { p.Consent.Fenced = []types.NodeName{"n2"} }, "it was reviewed with --fenced n2, and this run has no --allow"},
		"a guard refuses":          {func(m *memory, _ *Approved) { m.addAttachment("n2", "pv1", "csi-any-name") }, "it may not be made now: VolumeAttachment csi-any-name for the same volume is on node n2"},
		"check cannot run":         {func(m *memory, _ *Approved) { m.gaps = gap(snapshot.Pods, "") }, "could not run without the pods"},
		"other writing":            {func(_ *memory, p *Approved) { p.Repairs[0].Summary = "add volume pv7 to volumesAttached of node n1" }, "pv7"},
	} {
		t.Run(name, func(t *testing.T) {
			m := two(t)
			approved := m.reviewed()
			test.change(m, approved)
			v, proposed := m.view()
			chosen, err := approved.Choose(v, proposed)
			if !errors.Is(err, ErrMoved) || !strings.Contains(err.Error(), test.says) || chosen != nil {
				t.Errorf("%+v, %v", chosen, err)
			}
		})
	}
}

func TestReadApprovedIsStrict(t *testing.T) {
	var file bytes.Buffer
	v, repairs := lostEntry(t).view()
	if err := Save(v, repairs).Write(&file); err != nil {
		t.Fatal(err)
	}
	text := file.String()
	for name, change := range map[string]string{
		"not JSON":        "repairs: []",
		"cut short":       text[:len(text)/2],
		"two files":       text + text,
		"another kind":    strings.Replace(text, ApprovedKind, "Report", 1),
		"another version": strings.Replace(text, "volume-doctor/v1", "volume-doctor/v2", 1),
		"unknown field":   strings.Replace(text, `"server"`, `"force": true, "server"`, 1),
	} {
		if p, err := ReadApproved(strings.NewReader(change)); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
