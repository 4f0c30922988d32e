package metrics

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func lease(name, holder string) coordinationv1.Lease {
	return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
}

// TestLeader: the host of the lease's holder names the pod, as long as it is a host's name.
func TestLeader(t *testing.T) {
	const name = "kube-controller-manager"
	for holder, want := range map[string]string{
		"CP1_4d0d": name + "-cp1", "cp.one_x_4d0d": "", "cp.one_4d0d": name + "-cp.one", "_4d0d": "", "cp1": "", "": "", "x,metadata.name=y_1": "",
	} {
		pod, identity, err := Leader([]coordinationv1.Lease{lease("other", "cp2_1"), lease(name, holder)})
		if pod != want || (err == nil) != (want != "") || err == nil && identity != holder {
			t.Errorf("%q: pod %q, identity %q, %v", holder, pod, identity, err)
		}
	}
	if _, _, err := Leader([]coordinationv1.Lease{lease("other", "cp2_1")}); err == nil {
		t.Error("another lease counts")
	}
	held := lease(name, "CP1_4d0d")
	if !HeldBy(&held, "CP1_4d0d") || HeldBy(&held, "CP1_5e1e") || HeldBy(nil, "") || HeldBy(&coordinationv1.Lease{}, "") {
		t.Error("the holder is not the one that the lease names")
	}
}

func TestRunningPod(t *testing.T) {
	pods := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.PodStatus{Phase: corev1.PodFailed}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}}
	for name, want := range map[string]bool{"a": false, "b": true, "c": false} {
		if pod, err := RunningPod(pods, name); (err == nil) != want || want && pod != &pods[1] {
			t.Errorf("%s: %v, %v", name, pod, err)
		}
	}
}

// TestStarted: the release, the kept flags and the port of a manifest.
func TestStarted(t *testing.T) {
	for name, test := range map[string]struct {
		image, args, release string
		port                 int
	}{
		"usual":               {"registry.k8s.io/kube-controller-manager:v1.35.3", "--disable_force_detach_on_timeout --root-ca-file=/secret", "v1.35.3", 10257},
		"by digest":           {"registry:5000/kcm:v1.35.3@sha256:f00d", "--disable-force-detach-on-timeout=true", "v1.35.3", 10257},
		"no release":          {"registry:5000/kcm", "--disable-force-detach-on-timeout", "", 10257},
		"another port":        {"kcm:latest", "--disable-force-detach-on-timeout --secure-port=4711", "", 4711},
		"no port":             {"kcm:v2.1", "--disable-force-detach-on-timeout --secure-port=0", "", 0},
		"a port that is none": {"kcm:v2.1", "--disable-force-detach-on-timeout --secure-port=99999", "", 0},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: test.image, Command: []string{"kube-controller-manager"}, Args: []string{"sh -c " + test.args}}}}}
		release, flags, port, err := Started(pod)
		if release != test.release || len(flags) != 1 || flags["disable-force-detach-on-timeout"] != "true" || port != test.port || (err == nil) != (test.port > 0) {
			t.Errorf("%s: release %q, flags %v, port %d, %v", name, release, flags, port, err)
		}
	}
}

// TestSettings: the last value of a flag counts, feature gates add up, and nothing is kept
// without bound.
func TestSettings(t *testing.T) {
	line := []string{"kube-controller-manager", "--feature-gates=A=true", "--v=2", "--v=3", `--feature_gates="B=false,C=true"`, "--w", "--long=" + strings.Repeat("x", 200)}
	for name, want := range map[string]string{"feature-gates": "A=true,B=false,C=true", "v": "3", "w": "true", "x": "", "long": strings.Repeat("x", 100)} {
		if got, ok := setting(line, name); got != want || ok != (want != "") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got, _ := setting([]string{"--feature-gates=" + strings.Repeat("A=true,", 3000)}, "feature-gates"); len(got) != 10_000 {
		t.Errorf("%d characters of gates", len(got))
	}
}
