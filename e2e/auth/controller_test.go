package auth_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// restored is a VolumeAttachment that somebody makes behind the controller's back.
func restored(t *testing.T, w *scenario.World, claim string) (name string, made metav1.Time) {
	t.Helper()
	volume, err := fixture.BoundVolume(t.Context(), cluster.Client(), w.Namespace, claim, corev1.ReadWriteOnce)
	must(t, err)
	va, err := cluster.Client().StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: volume.AttachmentName(w.Node)},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: csidriver.Name, NodeName: w.Node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume.PersistentVolume}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, cluster.Client().StorageV1().VolumeAttachments().Delete(context.WithoutCancel(t.Context()), va.Name, metav1.DeleteOptions{}))
	})
	must(t, fixture.Await(t.Context(), fixture.Attachment(cluster.Client(), w.Node, volume, "attached", fixture.AttachmentState.Attached)))
	return va.Name, va.CreationTimestamp
}

// TestController: an attachment restored behind the back of the controller at work is
// certain within 15 seconds where it can be asked, and as without it where not.
func TestController(t *testing.T) {
	name := strings.ToLower(t.Name())
	w, err := scenario.Healthy(t.Context(), cluster, scenario.Options{Namespace: name, Node: name + "-n1"})
	must(t, err)
	t.Cleanup(func() { must(t, w.Close(context.WithoutCancel(t.Context()))) })
	leader, err := cluster.ShowManager(t.Context(), "cp1", "--leader-elect=true", "--disable-force-detach-on-timeout=true", "--service-account-private-key-file=/etc/secret.key")
	must(t, err)
	t.Cleanup(func() { must(t, leader.Close(context.WithoutCancel(t.Context()))) })

	all := roles(t)
	kubeconfig, err := cluster.KubeconfigWithCertificate("carla")
	must(t, err)
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "carla"}
	grant(t, subject, all["volume-doctor-reader"])
	awaitRights(t, kubeconfig, "volume-doctor-reader", "")

	// What a pod has must have stood for a while, so that it is no change under way.
	must(t, fixture.AwaitFor(t.Context(), time.Minute, fixture.Condition{What: "attachments older than the clocks differ", Check: func(context.Context) (bool, []runtime.Object, error) {
		pod, err := cluster.Client().CoreV1().Pods(w.Namespace).Get(t.Context(), w.Neighbour.Pod, metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Running == nil {
			return false, nil, err
		}
		return time.Since(pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time) > reconcile.ClocksDiffer+2*time.Second, nil, nil
	}}))
	va, made := restored(t, w, "kept")
	// Dates have no fractions: one of this second may be younger than the first numbers.
	must(t, fixture.Await(t.Context(), fixture.Condition{What: "a second", Check: func(context.Context) (bool, []runtime.Object, error) {
		return time.Since(made.Time) > 2*time.Second, nil, nil
	}}))
	diagnose := func(kubeconfig, controller string) (command.Result, *finding.Finding, time.Duration) {
		t.Helper()
		r := run(t, kubeconfig, "diagnose", "--controller", controller, "-o", "json")
		report := parse[finding.Report](t, r.Stdout)
		if !report.Complete {
			t.Errorf("--controller %s: gaps %v", controller, report.Gaps)
		}
		for i, f := range report.Findings {
			if f.VolumeAttachment == va {
				return r, &report.Findings[i], time.Since(made.Time)
			}
		}
		return r, nil, time.Since(made.Time)
	}
	without := func(what, kubeconfig, controller, says string) {
		t.Helper()
		r, f, _ := diagnose(kubeconfig, controller)
		if f != nil || r.Code != 0 || !strings.Contains(r.Stderr, says) {
			t.Errorf("%s: exit code %d, finding %v: %s", what, r.Code, f, r.Stderr)
		}
	}
	begun := time.Now()
	r, f, after := diagnose(certified(t, "admin-by-certificate"), "auto")
	if f == nil || f.Code != "VD101" || f.Confidence != "" || r.Code != 1 || f.Repair == nil || f.Repair.BlockedBy == "" || after-time.Since(begun) > 15*time.Second {
		t.Errorf("%s after it was made: exit code %d, finding %+v: %s", after, r.Code, f, r.Stderr)
	}
	t.Logf("certain %s after it was made, %s after the command began", after.Round(100*time.Millisecond), time.Since(begun).Round(100*time.Millisecond))

	without("not asked", kubeconfig, "off", "")
	without("no port-forward", kubeconfig, "auto", "create pods/portforward in kube-system")
	grant(t, subject, all["volume-doctor-controller"])
	awaitRights(t, kubeconfig, "volume-doctor-controller", "")
	without("no /metrics", kubeconfig, "auto", "the right to get /metrics")
	grant(t, subject, all["volume-doctor-controller-metrics"])
	awaitRights(t, kubeconfig, "volume-doctor-controller-metrics", "")
	for deadline := time.Now().Add(30 * time.Second); ; { // it remembers a refusal for 10 s
		r, f, _ := diagnose(kubeconfig, "auto")
		if f != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with the roles of auth nothing is found: %s", r.Stderr)
		}
	}
	without("a token", cluster.Kubeconfig, "auto", "a token is not sent")

	plan := run(t, kubeconfig, "plan", "--controller", "auto", "-o", "json")
	manager := parse[output.Plan](t, plan.Stdout).Manager
	if manager == nil || manager.Pod != "kube-controller-manager-cp1" || manager.Release != controlplane.KubernetesVersion || len(manager.Flags) != 1 || len(manager.Held) != 1 {
		t.Fatalf("%+v: %s", manager, plan.Stderr)
	}
	if h := manager.Held[0]; *h.Actual != 2 || h.RebuiltActual != 3 || *h.Desired != 2 || h.RebuiltDesired != 2 || len(h.Unknown) != 1 || h.Unknown[0] != va {
		t.Errorf("%+v", h)
	}
	kept := run(t, kubeconfig, "snapshot", "--controller", "auto")
	if kept.Code != 0 || strings.Contains(kept.Stdout, "secret.key") || !strings.Contains(kept.Stdout, `"held":[{"plugin":"kubernetes.io/csi:`) {
		t.Errorf("exit code %d: %s", kept.Code, kept.Stderr)
	}

	must(t, leader.HoldLease(t.Context(), "cp2"))
	without("another replica leads", kubeconfig, "auto", "no pod kube-system/kube-controller-manager-cp2 runs")
	must(t, leader.HoldLease(t.Context(), "cp1"))
	leader.StopKubelet()
	without("nobody forwards the port", kubeconfig, "auto", "note: kube-controller-manager itself adds less than it could")
}

// certified is somebody who may do everything, by a certificate.
func certified(t *testing.T, user string) string {
	t.Helper()
	kubeconfig, err := cluster.KubeconfigWithCertificate(user)
	must(t, err)
	binding, err := cluster.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, cluster.Client().RbacV1().ClusterRoleBindings().Delete(context.WithoutCancel(t.Context()), binding.Name, metav1.DeleteOptions{}))
	})
	return kubeconfig
}
