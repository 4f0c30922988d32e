package kubelettrace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// registering is the driver with two node plugins on a machine.
	registering = "registering.volume-doctor.test"
	second      = "second"
	zone        = "topology.volume-doctor.test/zone"
)

// registrar is a machine whose plugin manager and CSI plugin are the real ones, with the
// history of its CSINode.
type registrar struct {
	*testing.T
	m *Machine

	mu      sync.Mutex
	history []string
}

func newRegistrar(t *testing.T, node string) *registrar {
	t.Helper()
	no := false
	_, err := world.Client.StorageV1().CSIDrivers().Create(world.plane, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: registering},
		Spec: storagev1.CSIDriverSpec{AttachRequired: &no}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	kubeconfig, err := world.Cluster.KubeconfigFor(controlplane.UserKubelet)
	if err != nil {
		t.Fatal(err)
	}
	m, err := StartMachine(world.kubelet, wire.Machine{Node: node, Kubeconfig: kubeconfig, Drivers: []wire.Driver{{Name: registering}, {Name: registering, Plugin: second}}})
	if err != nil {
		t.Fatal(err)
	}
	r := &registrar{T: t, m: m}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of the kubelet: %s; the CSINode was\n%s", m.KeepLog(), strings.Join(r.was(), "\n"))
		}
		m.Stop()
	})
	w, err := world.Client.StorageV1().CSINodes().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for e := range w.ResultChan() {
			if n, ok := e.Object.(*storagev1.CSINode); ok {
				r.mu.Lock()
				r.history = append(r.history, string(e.Type)+" "+entriesOf(n))
				r.mu.Unlock()
			}
		}
	}()
	return r
}

// entriesOf are the drivers of a CSINode: id, keys of topology, limit.
func entriesOf(n *storagev1.CSINode) string {
	var list []string
	for _, d := range n.Spec.Drivers {
		room := int32(0)
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			room = *d.Allocatable.Count
		}
		list = append(list, fmt.Sprintf("%s %v %d", d.NodeID, d.TopologyKeys, room))
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}

func (r *registrar) was() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.history)
}

// forget starts the history again.
func (r *registrar) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = nil
}

func (r *registrar) ask(request wire.Request) wire.Answer {
	r.Helper()
	a, err := r.m.Ask(request)
	if err != nil {
		r.Fatal(err)
	}
	return a
}

func (r *registrar) do(actions ...wire.Action) {
	r.Helper()
	for _, a := range actions {
		r.ask(wire.Request{Do: a, Driver: registering})
	}
}

func (r *registrar) csiNode() *storagev1.CSINode {
	r.Helper()
	n, err := world.Client.StorageV1().CSINodes().Get(world.plane, r.m.Node, metav1.GetOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// awaitEntries waits until the CSINode has the entries.
func (r *registrar) awaitEntries(want string) {
	r.Helper()
	world.await(r.T, "CSINode "+r.m.Node+" to have "+want, func() (bool, error) {
		got := entriesOf(r.csiNode())
		return got == want, fmt.Errorf("it has %s; %+v", got, r.last())
	})
}

// last is the kubelet's last answer to a registrar.
func (r *registrar) last() wire.Registration {
	r.Helper()
	list := r.ask(wire.Request{Do: wire.Look}).Registrations
	if len(list) == 0 {
		return wire.Registration{}
	}
	return list[len(list)-1]
}

// awaitRefused waits until the kubelet has refused a plugin with these words.
func (r *registrar) awaitRefused(plugin, words string) {
	r.Helper()
	world.await(r.T, "the kubelet to refuse "+plugin, func() (bool, error) {
		got := r.last()
		return got.Plugin == plugin && !got.Done && strings.Contains(got.Error, words), fmt.Errorf("%+v", got)
	})
}

// awaitInTurn waits until the watch has shown these states of the CSINode, one after the
// other.
func (r *registrar) awaitInTurn(want ...string) {
	r.Helper()
	world.await(r.T, "the CSINode to have been, in turn, "+strings.Join(want, ", "), func() (bool, error) {
		left, was := want, r.was()
		for _, w := range was {
			if len(left) > 0 && strings.HasSuffix(w, " "+left[0]) {
				left = left[1:]
			}
		}
		return len(left) == 0, fmt.Errorf("it was %v", was)
	})
}

// goesOn is the snapshot as it will be in that time if everything stays as it is: nodes are
// Ready, and what fails goes on failing.
func goesOn(s *snapshot.Snapshot, ahead time.Duration) *snapshot.Snapshot {
	o := s.Objects
	o.Nodes, o.Leases, o.Events = slices.Clone(o.Nodes), slices.Clone(o.Leases), slices.Clone(o.Events)
	for i := range o.Nodes {
		o.Nodes[i] = o.Nodes[i].DeepCopy()
		for j := range o.Nodes[i].Status.Conditions {
			c := &o.Nodes[i].Status.Conditions[j]
			c.LastHeartbeatTime = metav1.NewTime(c.LastHeartbeatTime.Add(ahead))
		}
	}
	for i := range o.Leases {
		o.Leases[i] = o.Leases[i].DeepCopy()
		if at := o.Leases[i].Spec.RenewTime; at != nil {
			o.Leases[i].Spec.RenewTime = new(metav1.NewMicroTime(at.Add(ahead)))
		}
	}
	for i := range o.Events {
		o.Events[i] = o.Events[i].DeepCopy()
		o.Events[i].LastTimestamp = metav1.NewTime(o.Events[i].LastTimestamp.Add(ahead))
	}
	return snapshot.New(s.TakenAt.Add(ahead), s.Source, o, s.Gaps)
}

// goesOnSaying is the kubelet's own report in that time if everything stays as it is.
func goesOnSaying(heard *trace.KubeletView, ahead time.Duration) *trace.KubeletView {
	later := *heard
	later.Failures = slices.Clone(heard.Failures)
	for i := range later.Failures {
		later.Failures[i].At = later.Failures[i].At.Add(ahead)
	}
	return &later
}

// findings are the codes that the checks report about the node if everything stays as it is
// for 20 min, with these pods beside the existing ones.
func (r *registrar) findings(pods ...*corev1.Pod) []string {
	r.Helper()
	s, err := world.reader.Snapshot(world.plane)
	if err != nil {
		r.Fatal(err)
	}
	o := s.Objects
	o.Pods = append(slices.Clone(o.Pods), pods...)
	var codes []string
	for _, f := range diagnose.Diagnose(goesOn(snapshot.New(s.TakenAt, s.Source, o, s.Gaps), 20*time.Minute), diagnose.Options{}).Findings {
		if string(f.Node) == r.m.Node && f.Confidence == "" && !slices.Contains(codes, string(f.Code)) {
			codes = append(codes, string(f.Code))
		}
	}
	slices.Sort(codes)
	return codes
}

// finds fails where the code is missing although want is true, or present although it is
// false.
func (r *registrar) finds(code string, want bool, pods ...*corev1.Pod) {
	r.Helper()
	if codes := r.findings(pods...); slices.Contains(codes, code) != want {
		r.Errorf("the findings are %v: %s should be one of them: %v; the CSINode has %s", codes, code, want, entriesOf(r.csiNode()))
	}
}

// plugin is the pod of a node plugin with its registrar, of a DaemonSet with this name.
func (r *registrar) plugin(daemonSet string, ready bool) *corev1.Pod {
	created, yes := metav1.NewTime(time.Now().Add(-time.Minute)), true
	status := corev1.ConditionTrue
	if !ready {
		status = corev1.ConditionFalse
	}
	host := func(name, path string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: daemonSet + "-x", UID: types.UID(daemonSet), CreationTimestamp: created,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: daemonSet, UID: types.UID("uid-" + daemonSet), Controller: &yes}}},
		Spec: corev1.PodSpec{NodeName: r.m.Node, Containers: []corev1.Container{{Name: "node-driver-registrar"}},
			Volumes: []corev1.Volume{host("socket", "/var/lib/kubelet/plugins/"+registering), host("registry", "/var/lib/kubelet/plugins_registry")}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: created},
			{Type: corev1.PodReady, Status: status, LastTransitionTime: created},
		}},
	}
}

// pod makes a pod with a volume of the driver on the machine.
func (r *registrar) pod(namespace, claim string) *corev1.Pod {
	r.Helper()
	world.claim(r.T, namespace, claim, registering, nil, nil)
	pod, err := fixture.CreatePod(world.plane, world.Client, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim},
		Spec: corev1.PodSpec{NodeName: r.m.Node,
			Containers: []corev1.Container{{Name: "app", Image: "app", VolumeMounts: []corev1.VolumeMount{{Name: claim, MountPath: "/data"}}}},
			Volumes:    []corev1.Volume{{Name: claim, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}},
	})
	if err != nil {
		r.Fatal(err)
	}
	return pod
}

func (r *registrar) awaitRuns(pod *corev1.Pod) {
	r.Helper()
	world.await(r.T, "pod "+pod.Name+" to run", func() (bool, error) { return world.runs(pod.Namespace, pod.Name) })
}

// awaitUnknown waits until the kubelet reports that it does not know the pod's driver.
func (r *registrar) awaitUnknown(pod *corev1.Pod) {
	r.Helper()
	world.await(r.T, "the kubelet to miss the driver", func() (bool, error) {
		events, err := fixture.Events(world.plane, world.Client, pod)
		return slices.ContainsFunc(events, func(e corev1.Event) bool {
			return strings.Contains(e.Message, "driver name "+registering+" not found in the list of registered CSI drivers")
		}), err
	})
}

// TestRegistrations follows a CSINode while the real plugin manager handles the sockets of
// registrars, and compares the checks about registrations with it.
func TestRegistrations(t *testing.T) {
	needsKubelet(t)
	const node, namespace = "registers", "registrations"
	if err := fixture.Namespace(world.plane, world.Client, namespace); err != nil {
		t.Fatal(err)
	}
	r := newRegistrar(t, node)
	at := func(id string) string { return fmt.Sprintf("%s [%s] 5", id, zone) }
	info := func(plugin, id, where string) {
		t.Helper()
		r.ask(wire.Request{Do: wire.SetInfo, Driver: plugin, Info: wire.Info{NodeID: id, Topology: map[string]string{zone: where}, Room: 5}})
	}

	// It registers: id, topology and limit; the label and the annotation of the node.
	info(registering, "id-1", "east")
	r.do(wire.Register)
	r.awaitEntries(at("id-1"))
	there, err := world.Client.CoreV1().Nodes().Get(world.plane, node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if there.Labels[zone] != "east" || there.Annotations["csi.volume.kubernetes.io/nodeid"] != fmt.Sprintf("{%q:%q}", registering, "id-1") {
		t.Errorf("the node has label %q and annotation %q", there.Labels[zone], there.Annotations["csi.volume.kubernetes.io/nodeid"])
	}
	runs := r.pod(namespace, "runs")
	r.awaitRuns(runs)

	// A registrar is restarted: the entry goes before it comes again, also where the plugin
	// manager had no time to notice that the socket was away.
	r.forget()
	r.do(wire.Unregister, wire.Register)
	r.awaitInTurn("none", at("id-1"))

	// The same with another id: the entry cannot be changed, and is made again.
	r.forget()
	info(registering, "id-2", "east")
	r.do(wire.Unregister, wire.Register)
	r.awaitEntries(at("id-2"))
	r.awaitInTurn("none", at("id-2"))

	// A restarted kubelet finds an entry with a former id.
	r.forget()
	info(registering, "id-3", "east")
	r.do(wire.Kill, wire.Start)
	r.awaitEntries(at("id-3"))
	r.awaitInTurn("none", at("id-3"))

	// Another zone than the node's label is refused, and the entry goes. The kubelet of 1.36
	// retries by itself.
	r.forget()
	info(registering, "id-3", "west")
	r.do(wire.Unregister, wire.Register)
	r.awaitRefused(registering, "detected topology value collision")
	r.awaitEntries("none")
	r.finds("VD613", true, r.plugin("plugin", true))
	info(registering, "id-3", "east")
	r.awaitEntries(at("id-3"))
	r.finds("VD613", false, r.plugin("plugin", true))

	// A second plugin of the driver is refused, and removes nothing when it goes.
	info(second, "id-of-second", "east")
	r.ask(wire.Request{Do: wire.Register, Driver: second})
	r.awaitRefused(second, "Another driver with the same name is already registered")
	r.finds("VD619", true, r.plugin("plugin", true), r.plugin("other", true))
	r.finds("VD619", false, r.plugin("plugin", true))
	r.forget()
	answers := len(r.ask(wire.Request{Do: wire.Look}).Registrations)
	r.ask(wire.Request{Do: wire.Unregister, Driver: second})
	r.ask(wire.Request{Do: wire.Register, Driver: second})
	world.await(t, "the second to be refused again", func() (bool, error) { return len(r.ask(wire.Request{Do: wire.Look}).Registrations) > answers, nil })
	r.awaitRefused(second, "Another driver with the same name is already registered")
	if was := r.was(); len(was) > 0 {
		t.Errorf("a plugin that was refused went, and the CSINode was %v", was)
	}
	// When the first goes, the kubelet forgets the driver, and accepts the second at its next
	// try.
	r.forget()
	r.do(wire.Unregister)
	r.awaitEntries(at("id-of-second"))
	r.awaitInTurn("none", at("id-of-second"))
	r.ask(wire.Request{Do: wire.Unregister, Driver: second})
	r.awaitEntries("none")

	// No plugin is registered: a pod waits, and a running pod's volume could not be
	// unmounted.
	waits := r.pod(namespace, "waits")
	r.awaitUnknown(waits)
	r.finds("VD602", true)
	r.finds("VD613", true, r.plugin("plugin", true))
	r.do(wire.Register)
	r.awaitEntries(at("id-3"))
	r.awaitRuns(waits)
	r.finds("VD602", false, r.plugin("plugin", true))
	r.do(wire.Unregister)
	r.awaitEntries("none")
	r.finds("VD614", true)

	// The socket goes while no kubelet runs: the entry stays, and the next kubelet does not
	// know the driver.
	r.do(wire.Register)
	r.awaitEntries(at("id-3"))
	r.finds("VD614", false, r.plugin("plugin", true))
	r.do(wire.Kill, wire.Unregister, wire.Start)
	lost := r.pod(namespace, "lost")
	r.awaitUnknown(lost)
	r.awaitEntries(at("id-3"))
	r.finds("VD616", true, r.plugin("plugin", true))
	r.finds("VD615", true, r.plugin("plugin", false))
	r.do(wire.Register)
	r.awaitRuns(lost)
	r.finds("VD616", false, r.plugin("plugin", true))
	r.finds("VD615", false, r.plugin("plugin", true))

	// The Node is deleted and made again while the kubelet keeps running. No garbage
	// collector runs here, which would remove the CSINode within seconds.
	former := there.UID
	if err := world.Client.CoreV1().Nodes().Delete(world.plane, node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: there.Labels, Annotations: there.Annotations}}
	if again, err = world.Client.CoreV1().Nodes().Create(world.plane, again, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	again.Status = there.Status
	now := metav1.Now()
	for i := range again.Status.Conditions {
		again.Status.Conditions[i].LastTransitionTime = now
	}
	if _, err := world.Client.CoreV1().Nodes().UpdateStatus(world.plane, again, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	owner := func() types.UID { return r.csiNode().OwnerReferences[0].UID }
	if owner() != former {
		t.Errorf("the CSINode is owned by %s, and the former node was %s", owner(), former)
	}
	r.finds("VD618", true)
	// The kubelet uses the Node that was there when it started: it registers with the former
	// Node's CSINode, and makes it for that Node again where the collector has removed it.
	r.do(wire.Unregister, wire.Register)
	world.await(t, "the driver to register again", func() (bool, error) { return entriesOf(r.csiNode()) == at("id-3"), nil })
	if err := world.Client.StorageV1().CSINodes().Delete(world.plane, node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.do(wire.Unregister, wire.Register)
	made := func() (*storagev1.CSINode, error) {
		return world.Client.StorageV1().CSINodes().Get(world.plane, node, metav1.GetOptions{})
	}
	world.await(t, "the CSINode to be made again", func() (bool, error) {
		got, err := made()
		return err == nil && entriesOf(got) == at("id-3"), err
	})
	if owner() != former {
		t.Errorf("the CSINode is owned by %s; a kubelet that runs on is expected to know %s", owner(), former)
	}
	r.finds("VD618", true)
	r.do(wire.Kill, wire.Start)
	world.await(t, "the CSINode to be the new node's", func() (bool, error) {
		got, err := made()
		return err == nil && got.OwnerReferences[0].UID == again.UID && entriesOf(got) == at("id-3"), err
	})
	r.finds("VD618", false)
}

// forbidCSINode keeps everybody from making or changing the CSINode, until lift is called.
func forbidCSINode(t *testing.T, name string) (lift func()) {
	t.Helper()
	rule := admissionv1.Rule{APIGroups: []string{storagev1.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"csinodes"}}
	return forbid(t, name, rule, fmt.Sprintf("object.metadata.name != %q", name), func() error {
		_, err := world.Client.StorageV1().CSINodes().Create(world.plane, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// forbidStatus keeps the kubelets from writing the status of the node, until lift is called.
func forbidStatus(t *testing.T, node string) (lift func()) {
	t.Helper()
	kubelet, err := world.Cluster.ClientFor(controlplane.UserKubelet)
	if err != nil {
		t.Fatal(err)
	}
	rule := admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes/status"}}
	return forbid(t, "status-of-"+node, rule, fmt.Sprintf("object.metadata.name != %q || request.userInfo.username != %q", node, controlplane.UserKubelet), func() error {
		_, err := kubelet.CoreV1().Nodes().Patch(world.plane, node, types.MergePatchType, []byte("{}"), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		return err
	})
}

// forbid makes the API server refuse requests that match the rule and for which the
// expression is false. It returns once try is refused; lift returns once try no longer is.
func forbid(t *testing.T, name string, rule admissionv1.Rule, allowed string, try func() error) (lift func()) {
	t.Helper()
	policies, bindings := world.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), world.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := policies.Create(world.plane, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, Rule: rule,
			}}}},
			Validations: []admissionv1.Validation{{Expression: allowed}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bindings.Create(world.plane, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await := func(forbidden bool) {
		t.Helper()
		world.await(t, "the policy to be at work, or gone", func() (bool, error) {
			err := try()
			return apierrors.IsInvalid(err) == forbidden, err
		})
	}
	await(true)
	return func() {
		t.Helper()
		if err := errors.Join(bindings.Delete(world.plane, name, metav1.DeleteOptions{}), policies.Delete(world.plane, name, metav1.DeleteOptions{})); err != nil {
			t.Fatal(err)
		}
		await(false)
	}
}

// TestCSINodeForbidden: a kubelet that cannot make its CSINode keeps its node from being
// Ready, with the CSI plugin's own message, until it can.
func TestCSINodeForbidden(t *testing.T) {
	needsKubelet(t)
	const node = "uninitialized"
	lift := forbidCSINode(t, node)
	r := newRegistrar(t, node)
	awaitReady := func(status corev1.ConditionStatus, words string) {
		t.Helper()
		world.await(t, "the node to say "+words, func() (bool, error) {
			n, err := world.Client.CoreV1().Nodes().Get(world.plane, node, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			c := facts.ReadyCondition(n)
			return c != nil && c.Status == status && strings.Contains(c.Message, words), fmt.Errorf("it says %+v", c)
		})
	}
	awaitReady(corev1.ConditionFalse, "failed to initialize CSINode")
	r.finds("VD617", true)
	lift()
	awaitReady(corev1.ConditionTrue, "posting ready status")
	r.finds("VD617", false)
	r.awaitEntries("none")
}
