// Package serve_test runs the standing mode against a real API server: two processes of
// which one leads, through a failure, a restart of the API server, the leader's death
// and a repair by hand.
package serve_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, controlplane.Options{Controllers: []string{controlplane.Namespaces}}, func(c *controlplane.Cluster) { cluster = c }))
}

const (
	namespace = "volume-doctor"
	lease     = "volume-doctor"
	// optional is the one kind without which nothing is a gap.
	optional = "deployments"
	since    = "volume_doctor_finding_since_timestamp_seconds"
)

// TestServe is the life of two replicas, with the rights of docs/in-cluster.md.
func TestServe(t *testing.T) {
	kubeconfig := install(t, "events=true,reportPage=true")
	var mark int
	requests(t, &mark)
	// A node with volumes, in a namespace that -n leaves out.
	world, err := scenario.Healthy(t.Context(), cluster, scenario.Options{Namespace: "served", Node: "served-n1"})
	must(t, err)
	t.Cleanup(func() { must(t, world.Close(context.WithoutCancel(t.Context()))) })

	first := start(t, kubeconfig, "--events", "--report-page")
	first.until(t, time.Minute, "it leads and has looked", func(m scrape) bool {
		return m.has("volume_doctor_leader", 1) && m.count("volume_doctor_last_look_timestamp_seconds") == 1
	})
	if code, text := first.get(t, "/readyz", ""); code != http.StatusOK || text != "ok\n" {
		t.Errorf("/readyz of the leader: %d %s", code, text)
	}
	second := start(t, kubeconfig, "--events", "--report-page")
	second.says(t, "standing by")
	for _, path := range []string{"/readyz", "/healthz"} {
		if code, text := second.get(t, path, ""); code != http.StatusOK || text != "standing by\n" {
			t.Errorf("%s of the one that stands by: %d %s", path, code, text)
		}
	}
	if m := second.scrape(t); !m.has("volume_doctor_leader", 0) || m.count("volume_doctor_findings") != 0 || m.count("volume_doctor_build_info") != 1 || m.count("process_") == 0 {
		t.Errorf("the one that stands by has %v", m)
	}

	if m := first.scrape(t); !m.has(`volume_doctor_attached_volumes{driver="`+csidriver.Name+`",node="served-n1"}`, 2) || m.count(since) != 0 {
		t.Errorf("of the healthy world it has %v and %v", m.series("volume_doctor_attached"), m.series(since))
	}
	claim, pod := loseClaim(t, "shop")
	found := first.until(t, time.Minute, "the finding", func(m scrape) bool { return m.count(since, `code="VD504"`, `name="data"`) == 1 }).series(since)
	if n := first.scrape(t).count("volume_doctor_waiting_seconds", `pod="`+pod.Name+`"`); n != 1 {
		t.Errorf("%d waits of the pod", n)
	}
	awaitEvent(t, "shop", "VolumeDoctorVD504")

	// While the API server is away, there are gaps; nothing is lost and nothing invented.
	cluster.StopAPIServer()
	first.until(t, time.Minute, "the gaps", func(m scrape) bool { return m.count("volume_doctor_gaps", `kind="pods"`, `reason="Unavailable"`) == 1 })
	same(t, "while the API server is away", found, first.scrape(t).series(since))
	if code, _ := first.get(t, "/readyz", ""); code != http.StatusOK {
		t.Errorf("/readyz while the API server is away: %d", code)
	}
	must(t, cluster.ResumeAPIServer(t.Context()))
	back := first.until(t, 2*time.Minute, "no gap is left", func(m scrape) bool { return m.count("volume_doctor_gaps") == 0 })
	same(t, "after the API server's restart", found, back.series(since))

	// The leader dies, and the other one has the same findings.
	must(t, first.cmd.Process.Kill())
	taken := second.until(t, 2*time.Minute, "the second one leads and has looked", func(m scrape) bool {
		return m.has("volume_doctor_leader", 1) && m.count("volume_doctor_last_look_timestamp_seconds") == 1 && m.count("volume_doctor_gaps") == 0
	})
	// When a finding was found first, only the process knows that found it.
	if want, got := slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(taken.series(since))); !slices.Equal(want, got) {
		t.Errorf("after the leader's death the findings are\n%v\nand were\n%v", got, want)
	}
	page(t, second)

	// The repair, by hand.
	restore(t, claim)
	second.until(t, time.Minute, "the finding has healed", func(m scrape) bool { return m.count(since, `code="VD504"`) == 0 })
	if m := second.scrape(t); !m.has(`volume_doctor_findings{check="pvc-lost-or-double-claim",code="VD504",severity="warning"}`, 0) {
		t.Error("the check that ran and found nothing has no 0")
	}
	if code := second.end(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	asksForItsRights(t, &mark)
	written, err := cluster.Client().CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, e := range written.Items {
		if e.Source.Component == command.Binary && e.Reason != "VolumeDoctorVD504" {
			t.Errorf("an event about something else: %s: %s", e.Reason, e.Message)
		}
	}
	held, err := cluster.Client().CoordinationV1().Leases(namespace).Get(t.Context(), lease, metav1.GetOptions{})
	must(t, err)
	if held.Spec.HolderIdentity != nil && *held.Spec.HolderIdentity != "" {
		t.Errorf("%s still holds the Lease", *held.Spec.HolderIdentity)
	}
}

// page is the report, for those alone whom the API server allows it.
func page(t *testing.T, p *process) {
	t.Helper()
	if code, _ := p.get(t, "/", ""); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", code)
	}
	if code, _ := p.get(t, "/", "nobody's"); code != http.StatusUnauthorized {
		t.Errorf("with nobody's token: %d", code)
	}
	token := tokenOf(t)
	if code, text := p.get(t, "/", token); code != http.StatusForbidden || !strings.Contains(text, "/volume-doctor") {
		t.Errorf("with a token without the right: %d %s", code, text)
	}
	_, err := cluster.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "limited"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "volume-doctor-viewer"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: controlplane.UserLimited}},
	}, metav1.CreateOptions{})
	must(t, err)
	deadline := time.Now().Add(30 * time.Second)
	for {
		code, text := p.get(t, "/", token)
		if code == http.StatusOK && strings.Contains(text, "VD504") && strings.HasPrefix(text, "<!") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("with the right: %d %.300s", code, text)
		}
		time.Sleep(200 * time.Millisecond) // the API server learns of a new binding a moment later
	}
}

// TestLessRights: whichever right of the chart is missing, it is said which, and what does
// not need it goes on.
func TestLessRights(t *testing.T) {
	kubeconfig := install(t, "events=true,reportPage=true")
	loseClaim(t, "less") // so that there is an event to write
	t.Cleanup(func() { shell(t, "", "kubectl delete pods,persistentvolumeclaims --all -n less") })
	// As with an API server that does not stream lists: each kind is listed and watched.
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	leases := cluster.Client().CoordinationV1().Leases(namespace)
	var mark int
	for _, lost := range slices.Concat(roles(t)...) {
		t.Run(lost, func(t *testing.T) {
			_ = leases.Delete(t.Context(), lease, metav1.DeleteOptions{}) // there may be none
			verb, resource, _ := strings.Cut(lost, " ")
			var args []string
			var says string
			switch {
			case inNamespace(lost) != "":
				says = "cannot use the Lease volume-doctor/volume-doctor: "
				if verb == "update" { // of a Lease that nobody holds
					_, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease}}, metav1.CreateOptions{})
					must(t, err)
				}
			case lost == "create events":
				args, says = []string{"--leader-elect=false", "--events"}, "events were not written, the first because: "
			case verb == "create":
				args, says = []string{"--leader-elect=false", "--report-page"}, "cannot ask the API server whether the report may be shown: "
			default:
				args = []string{"--leader-elect=false"}
			}
			lose(t, lost)
			refused(t, &mark)
			p := start(t, kubeconfig, args...)
			if strings.HasSuffix(resource, "reviews") {
				if code, _ := p.get(t, "/", tokenOf(t)); code != http.StatusForbidden {
					t.Errorf("the page: %d", code)
				}
			}
			switch {
			case says != "":
				if line := p.says(t, says); !strings.Contains(line, resource) {
					t.Errorf("%q", line)
				}
			case resource == optional:
				p.until(t, time.Minute, "it has looked", func(m scrape) bool { return m.count("volume_doctor_last_look_timestamp_seconds") == 1 })
				if got := refused(t, &mark); !slices.Contains(got, lost) {
					t.Errorf("nothing was refused but %v", got)
				}
			default:
				m := p.until(t, time.Minute, "the gap", func(m scrape) bool {
					return m.count("volume_doctor_gaps", `kind="`+resource+`"`, `reason="Forbidden"`) == 1 && m.count("volume_doctor_last_look_timestamp_seconds") == 1
				})
				if len(m.series("volume_doctor_gaps")) != 1 {
					t.Errorf("more than one gap: %v", m.series("volume_doctor_gaps"))
				}
				for series, value := range m.series("volume_doctor_findings") { // what a first list still found stands on
					if resource == "pods" && value == 0 && strings.Contains(series, `code="VD504"`) {
						t.Error("a check that cannot run has a 0")
					}
				}
				if code, text := p.get(t, "/readyz", ""); code != http.StatusOK {
					t.Errorf("/readyz: %d %s", code, text)
				}
			}
			if code, _ := p.get(t, "/healthz", ""); code != http.StatusOK {
				t.Errorf("/healthz: %d", code)
			}
			if code := p.end(t); code != 0 {
				t.Errorf("exit code %d after SIGTERM", code)
			}
		})
	}
}

// TestLostLease: whoever no longer holds the Lease ends, and says so.
func TestLostLease(t *testing.T) {
	const other = "lost-lease"
	makeNamespace(t, other)
	p := start(t, cluster.Kubeconfig, "-n", other)
	p.says(t, "leading as")
	leases := cluster.Client().CoordinationV1().Leases(other)
	thief, seconds := "somebody-else", int32(3600)
	fixtureErr := fixture.Await(t.Context(), fixture.Condition{What: "the Lease is somebody else's", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		held, err := leases.Get(ctx, lease, metav1.GetOptions{})
		if err != nil {
			return false, nil, err
		}
		now := metav1.NewMicroTime(time.Now())
		held.Spec = coordinationv1.LeaseSpec{HolderIdentity: &thief, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now}
		_, err = leases.Update(ctx, held, metav1.UpdateOptions{})
		return err == nil, nil, nil // a conflict with a renewal is tried again
	}})
	must(t, fixtureErr)
	if code := p.wait(t, 90*time.Second); code != 2 {
		t.Errorf("exit code %d", code)
	}
	p.says(t, "the Lease lost-lease/volume-doctor is lost")
}

// loseClaim makes a claim whose volume does not exist any more, and a pod that waits
// for it.
func loseClaim(t *testing.T, namespace string) (*corev1.PersistentVolumeClaim, *corev1.Pod) {
	t.Helper()
	makeNamespace(t, namespace)
	class := fixture.StorageClass
	claims := cluster.Client().CoreV1().PersistentVolumeClaims(namespace)
	claim, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "pv-" + namespace,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	claim.Status.Phase = corev1.ClaimLost
	claim, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	must(t, err)
	pod, err := fixture.CreatePod(t.Context(), cluster.Client(), fixture.Pod(namespace, "db-0", "", "data"))
	must(t, err)
	return claim, pod
}

// restore brings the claim's volume back.
func restore(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	client := cluster.Client().CoreV1()
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.test", VolumeHandle: claim.Spec.VolumeName}},
		},
	}
	pv, err := client.PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{})
	must(t, err)
	pv.Status.Phase = corev1.VolumeBound
	_, err = client.PersistentVolumes().UpdateStatus(t.Context(), pv, metav1.UpdateOptions{})
	must(t, err)
	claim.Status.Phase = corev1.ClaimBound
	_, err = client.PersistentVolumeClaims(claim.Namespace).UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	must(t, err)
}

func awaitEvent(t *testing.T, namespace, reason string) {
	t.Helper()
	must(t, fixture.Await(t.Context(), fixture.Condition{What: "one event " + reason, Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		list, err := cluster.Client().CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return false, nil, err
		}
		return len(list.Items) == 1, nil, nil
	}}))
}

func makeNamespace(t *testing.T, name string) {
	t.Helper()
	_, err := cluster.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	_, err = cluster.Client().CoreV1().ServiceAccounts(name).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	must(t, err)
}

func same(t *testing.T, when string, want, got scrape) {
	t.Helper()
	if !maps.Equal(want, got) {
		t.Errorf("%s the findings are\n%v\nand were\n%v", when, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// end asks the process to end, and gives its exit code.
func (p *process) end(t *testing.T) int {
	t.Helper()
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	return p.wait(t, 20*time.Second)
}

// get asks the process, with a bearer token if it is not "".
func (p *process) get(t *testing.T, path, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.address+path, nil)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}
