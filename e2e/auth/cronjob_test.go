package auth_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
)

const cronjob = "../../deploy/cronjob"

// TestCronJob: what is shipped is taken by the API server as it is, its pod by
// the strictest of the pod security standards, and its command does with the
// rights of its service account: enough, and none too many.
func TestCronJob(t *testing.T) {
	w := broken(t)
	if r := kubectl(t, "apply", "-k", cronjob); r.Code != 0 || strings.Contains(r.Stderr, "Warning") {
		t.Fatalf("kubectl apply: exit code %d: %s", r.Code, r.Stderr)
	}
	t.Cleanup(func() {
		_, err := command.Run(context.WithoutCancel(t.Context()), "kubectl", cluster.Kubeconfig, "delete", "-k", cronjob, "--wait=false")
		if err != nil {
			t.Error(err)
		}
	})
	client := cluster.Client()
	job, err := client.BatchV1().CronJobs("volume-doctor").Get(t.Context(), "volume-doctor", metav1.GetOptions{})
	must(t, err)
	spec := job.Spec.JobTemplate.Spec.Template.Spec
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	_, err = client.CoreV1().Pods(job.Namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one-run"}, Spec: spec}, dry)
	must(t, err)
	container := spec.Containers[0]
	if len(container.Command) != 0 {
		t.Fatalf("the command is %v, and not the image's own", container.Command)
	}
	kubeconfig := serviceAccount(t, job, spec.ServiceAccountName)
	user := "system:serviceaccount:" + job.Namespace + ":" + spec.ServiceAccountName
	found(t, cluster.Kubeconfig, w)

	shipped := shippedRoles(t)
	for name := range shipped {
		awaitRights(t, kubeconfig, name, "")
	}
	var mark int
	requests(t, user, &mark)
	start := time.Now()
	r := run(t, kubeconfig, container.Args...)
	if r.Code != 0 || !strings.Contains(r.Stdout, "volume_doctor_complete 1\n") ||
		!strings.Contains(r.Stdout, `volume_doctor_findings{code="VD301",check="inuse-not-attached",severity="error"} 1`) {
		t.Fatalf("exit code %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	var want []string
	for _, role := range shipped {
		want = append(want, rights(role)...)
	}
	slices.Sort(want)
	if asked, refused := requests(t, user, &mark); !slices.Equal(asked, want) || len(refused) > 0 {
		t.Errorf("asked for\n%s\nrefused %v; the roles have\n%s", strings.Join(asked, "\n"), refused, strings.Join(want, "\n"))
	}
	written := events(t, w.Namespace)
	if len(written) != 1 {
		t.Fatalf("%d events about the finding", len(written))
	}
	if e := written[0]; e.InvolvedObject.Kind != "Pod" || e.InvolvedObject.Name != w.Subject.Pod || e.InvolvedObject.UID == "" ||
		e.Type != corev1.EventTypeWarning || !strings.Contains(e.Message, "inuse-not-attached") {
		t.Errorf("the event: %+v", e)
	}

	for _, role := range shipped {
		for _, lost := range rights(role) {
			replace(t, without(role, lost))
			awaitRights(t, kubeconfig, role.Name, lost)
			forget(t, w.Namespace) // so that there is an event to write
			requests(t, user, &mark)
			r := run(t, kubeconfig, container.Args...)
			if _, refused := requests(t, user, &mark); !slices.Contains(refused, lost) {
				t.Errorf("without %q: nothing was refused but %v", lost, refused)
			}
			if r.Code != 2 && lost != optional {
				t.Errorf("without %q: exit code %d:\n%s", lost, r.Code, r.Stderr)
			}
		}
		replace(t, role)
		awaitRights(t, kubeconfig, role.Name, "")
	}

	forget(t, w.Namespace)
	for range 3 {
		if r := run(t, kubeconfig, container.Args...); r.Code != 0 {
			t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
		}
	}
	sameHour := start.Truncate(time.Hour).Equal(time.Now().Truncate(time.Hour))
	if n := len(events(t, w.Namespace)); n != 1 && (sameHour || n != 2) {
		t.Errorf("%d events after three runs, want one an hour", n)
	}
}

func events(t *testing.T, namespace string) []corev1.Event {
	t.Helper()
	list, err := cluster.Client().CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=VolumeDoctorVD301"})
	must(t, err)
	return list.Items
}

func forget(t *testing.T, namespace string) {
	t.Helper()
	must(t, cluster.Client().CoreV1().Events(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
}

func shippedRoles(t *testing.T) map[string]*rbacv1.ClusterRole {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(cronjob, "clusterroles.yaml"))
	must(t, err)
	return clusterRoles(t, string(text))
}

// serviceAccount is a kubeconfig with a token of the job's service account, as
// its pod gets one.
func serviceAccount(t *testing.T, job *batchv1.CronJob, name string) string {
	t.Helper()
	token, err := cluster.Client().CoreV1().ServiceAccounts(job.Namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	must(t, err)
	for _, auth := range config.AuthInfos {
		auth.Token = token.Status.Token
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, path))
	return path
}

func kubectl(t *testing.T, args ...string) command.Result {
	t.Helper()
	r, err := command.Run(t.Context(), "kubectl", cluster.Kubeconfig, args...)
	must(t, err)
	return r
}
