package kubelettrace

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// TestNetworkComesLate has a kubelet report that a secret is not registered, because the
// network is not ready, and then mount it without an event. The pod waits for another volume
// by then, and the old event must not be blamed.
func TestNetworkComesLate(t *testing.T) {
	needsKubelet(t)
	t.Parallel()
	m := world.Machine(t, "late")
	s := &scene{T: t, w: world, m: m, name: "network-late", pod: fixture.Pod("network-late", "web-0", m.Node)}
	if err := fixture.Namespace(world.plane, world.Client, s.name); err != nil {
		t.Fatal(err)
	}
	there := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "there"}}
	if _, err := world.Client.CoreV1().Secrets(s.name).Create(world.plane, there, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.pod.UID = types.UID("")
	s.add(Volume{Name: "secret"}, secretVolume("there"))
	s.disk(data, nil)
	s.refuse(wire.Stage, data)
	s.ask(wire.Request{Do: wire.NoNetwork})
	s.create()
	s.w.await(t, "the kubelet's words", func() (bool, error) {
		events, err := fixture.Events(s.w.plane, s.w.Client, s.pod)
		for _, e := range events {
			if strings.Contains(e.Message, `object "network-late"/"there" not registered`) {
				return true, nil
			}
		}
		return false, err
	})
	s.ask(wire.Request{Do: wire.Network})
	l := s.settle(state{volume: data, stage: trace.StageStaged, actor: TheDriver, called: true, event: "MountVolume.MountDevice failed"})
	if l.Trace.Verdict.State != finding.InFlight {
		t.Errorf("the verdict is %s: %s", l.Trace.Verdict.State, l.Trace.Verdict.Message)
	}
	if said := l.volume("secret").Stages; !strings.Contains(said[len(said)-1].Said[0].Text, "not registered") {
		t.Errorf("the words are not quoted: %+v", said)
	}
}
