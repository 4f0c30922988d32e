package house

import (
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// deployedAs decodes the object of that kind in the base.
func deployedAs[T any](t *testing.T, base, kind string) *T {
	t.Helper()
	var found *T
	for document := range strings.SplitSeq(base, "\n---\n") {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
			t.Fatal(err)
		}
		if meta.Kind != kind {
			continue
		}
		if found != nil {
			t.Fatalf("the base has a second %s", kind)
		}
		found = new(T)
		if err := yaml.UnmarshalStrict([]byte(document), found); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	if found == nil {
		t.Fatalf("the base has no %s", kind)
	}
	return found
}

// TestDeployedObjectsFit: the objects of the base, which are those of the chart, select the
// pods and ports that they are about, and the pod requests what it needs.
func TestDeployedObjectsFit(t *testing.T) {
	text, err := os.ReadFile("deploy/kustomize/volume-doctor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range unfit(t, string(text)) {
		t.Error(fault)
	}
	// These are near misses, each of which must be noticed.
	for _, edit := range []struct{ old, misspelt, fault string }{
		{"  podSelector:\n    matchLabels:\n      app.kubernetes.io/name: volume-doctor", "  podSelector:\n    matchLabels:\n      app.kubernetes.io/name: other", "NetworkPolicy"},
		{"  selector:\n    matchLabels:\n      app.kubernetes.io/name: volume-doctor\n      app.kubernetes.io/instance: volume-doctor\n\n", "  selector:\n    matchLabels:\n      app.kubernetes.io/name: other\n\n", "PodDisruptionBudget"},
		{"{protocol: TCP, port: http}", "{protocol: TCP, port: web}", "port web"},
		{"port: 6443", "port: 6444", "6443"},
		{"maxUnavailable: 1\n  unhealthy", "maxUnavailable: 0\n  unhealthy", "drain"},
		{"memory: 128Mi", "memory: 0", "memory"},
		{"path: /readyz", "path: /ready", "/readyz"},
	} {
		if !strings.Contains(string(text), edit.old) {
			t.Errorf("the base does not have %q", edit.old)
			continue
		}
		faults := unfit(t, strings.Replace(string(text), edit.old, edit.misspelt, 1))
		if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, edit.fault) }) {
			t.Errorf("with %q nothing is said about %s: %v", edit.misspelt, edit.fault, faults)
		}
	}
}

// unfit lists the parts of the base that do not fit together.
func unfit(t *testing.T, base string) (faults []string) {
	t.Helper()
	deployment := deployedAs[appsv1.Deployment](t, base, "Deployment")
	pod := deployment.Spec.Template
	container := pod.Spec.Containers[0]
	finds := func(kind string, selector *metav1.LabelSelector) {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() || !s.Matches(labels.Set(pod.Labels)) {
			faults = append(faults, kind+" does not select the pod")
		}
	}
	hasPort := func(kind string, port intstr.IntOrString) {
		if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
			return port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal
		}) {
			faults = append(faults, kind+": the container has no port "+port.String())
		}
	}

	finds("Deployment", deployment.Spec.Selector)
	service := deployedAs[corev1.Service](t, base, "Service")
	finds("Service", &metav1.LabelSelector{MatchLabels: service.Spec.Selector})
	for _, p := range service.Spec.Ports {
		hasPort("Service", p.TargetPort)
	}

	budget := deployedAs[policyv1.PodDisruptionBudget](t, base, "PodDisruptionBudget")
	finds("PodDisruptionBudget", budget.Spec.Selector)
	if most := budget.Spec.MaxUnavailable; most == nil || most.IntValue() < 1 || int(*deployment.Spec.Replicas) <= most.IntValue() {
		faults = append(faults, "PodDisruptionBudget: a drain would wait for ever, or take all replicas")
	}

	policy := deployedAs[networkingv1.NetworkPolicy](t, base, "NetworkPolicy")
	finds("NetworkPolicy", &policy.Spec.PodSelector)
	for _, rule := range policy.Spec.Ingress {
		for _, p := range rule.Ports {
			hasPort("NetworkPolicy", *p.Port)
		}
	}
	var out []int
	for _, rule := range policy.Spec.Egress {
		for _, p := range rule.Ports {
			out = append(out, p.Port.IntValue())
		}
	}
	if !slices.Equal(out, []int{443, 6443}) { // as docs/in-cluster.md says
		faults = append(faults, "NetworkPolicy: the pod reaches other ports than 443 and 6443")
	}

	if r := container.Resources; r.Requests.Memory().IsZero() || r.Requests.Cpu().IsZero() || r.Limits.Memory().Cmp(*r.Requests.Memory()) <= 0 {
		faults = append(faults, "Deployment: the container asks for no memory or CPU, or may use no more memory than that")
	}
	for path, probe := range map[string]*corev1.Probe{"/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path {
			faults = append(faults, "Deployment: nothing asks "+path)
			continue
		}
		hasPort("Deployment", probe.HTTPGet.Port)
	}
	return faults
}

// TestCronJobIsBounded: the job, each of its requests and its memory are bounded, it reaches
// only the API server, and what it leaves is removed.
func TestCronJobIsBounded(t *testing.T) {
	text := contents(t, "deploy/cronjob/cronjob.yaml") + "\n---\n" + contents(t, "deploy/cronjob/networkpolicy.yaml")
	job := deployedAs[batchv1.CronJob](t, text, "CronJob").Spec.JobTemplate.Spec
	container := job.Template.Spec.Containers[0]
	if r := container.Resources; r.Requests.Memory().IsZero() || r.Requests.Cpu().IsZero() || r.Limits.Memory().Cmp(*r.Requests.Memory()) <= 0 {
		t.Error("the container asks for no memory or CPU, or may use no more memory than that")
	}
	if job.ActiveDeadlineSeconds == nil || job.BackoffLimit == nil || job.TTLSecondsAfterFinished == nil ||
		!slices.ContainsFunc(container.Args, func(a string) bool { return strings.HasPrefix(a, "--request-timeout=") }) {
		t.Error("the job, its attempts, its requests or what it leaves have no end")
	}
	policy := deployedAs[networkingv1.NetworkPolicy](t, text, "NetworkPolicy").Spec
	selector, err := metav1.LabelSelectorAsSelector(&policy.PodSelector)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(job.Template.Labels)) || len(policy.Ingress) > 0 || len(policy.PolicyTypes) != 2 {
		t.Error("the NetworkPolicy does not close the pod")
	}
	for _, file := range strings.Fields(contents(t, "deploy/cronjob/kustomization.yaml")) {
		if file == "networkpolicy.yaml" {
			return
		}
	}
	t.Error("the base has no NetworkPolicy")
}
