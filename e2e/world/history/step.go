package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/api"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/parts"
)

// Step is something that is done to the world at a time, and for a while.
type Step struct {
	At time.Duration `json:"at"`
	// Do is a key of deeds.
	Do string `json:"do"`
	// Node is a node, or "@CLAIM", which is the one of the pod with that claim, or offNode.
	Node string `json:"node,omitempty"`
	// Claim is one of those of the workloads, whose names do not change.
	Claim string `json:"claim,omitempty"`
	// Code is the code of the finding whose advice is taken.
	Code finding.Code `json:"code,omitempty"`
	// Fault is the fault of "break". Its volume and node come from Claim and Node.
	Fault driver.Fault `json:"fault,omitzero"`
	// For is how long it lasts; 0 is for good.
	For time.Duration `json:"for,omitempty"`
}

func (s Step) String() string {
	text := clock(s.At) + " " + s.Do
	if s.Do == "break" {
		text += ": " + s.Fault.String()
	}
	for _, part := range []struct{ name, value string }{{"claim", s.Claim}, {"node", s.Node}} {
		if part.value != "" {
			text += ", " + part.name + " " + part.value
		}
	}
	if s.For > 0 {
		text += ", for " + s.For.String()
	}
	return text
}

// offNode stands for the first node whose machine is off.
const offNode = "@off"

// deed is what can be done. It returns how it is undone; nil where it cannot be.
type deed func(w *World, s Step) (undo func(*World) error, err error)

// errNothing says that there is now no object for the step.
var errNothing = errors.New("nothing to do it to")

// deeds are what steps can do.
var deeds = map[string]deed{
	"drain":                 drain,
	"stop the kubelet":      stopKubelet,
	"switch off":            switchOff,
	"break":                 breakDriver,
	"delete the pod":        deletePod(30),
	"force-delete the pod":  deletePod(0),
	"keep the containers":   keepContainers,
	"stop the manager":      stop(func(w *World) *process { return w.manager }),
	"stop the attacher":     stop(func(w *World) *process { return w.attacher }),
	"delete the attachment": deleteAttachment,
	"strip the attachment":  stripAttachment,
	"drop the entry":        dropEntry,
	"delete the node":       deleteNode,
	"remake the claim":      remakeClaim,
	"cut all watches":       func(w *World, _ Step) (func(*World) error, error) { w.Server.CutWatches(nil); return nil, nil },
	"taint out-of-service":  outOfService,
	"evict for pressure":    endPod(corev1.PodFailed, "Evicted", "The node was low on resource: memory."),
	"refuse evictions":      refuseEvictions,
	"run a job":             runJob,
	"run a second pod":      runSecondPod,
	"slow requests":         slowRequests,
	"edit the claimRef":     changeVolume(editClaimRef),
	"edit the access modes": changeVolume(editModes),
	"delete the CSIDriver":  deleteCSIDriver,
	"take the annotation":   takeAnnotation,
	"delete the claim":      deleteClaim,
	"delete the volume":     deleteVolume,
}

// heeding is what only copies of a history do: what the tool says.
const heeding = "do what the tool says"

// do does the step and, after its time, undoes it.
func (w *World) do(ctx context.Context, s Step) {
	if s.Node != "" {
		node, err := w.nodeOf(s.Node)
		if err != nil {
			w.Say("%s: %v", s, err)
			return
		}
		s.Node = node
	}
	acted := w.act(s.String())
	ended := w.cause(s)
	act := deeds[s.Do]
	if s.Do == heeding {
		act = advised
	}
	undo, err := act(w, s)
	w.isDone(acted)
	if err != nil {
		w.Say("%s: %v", s.Do, err)
	}
	if undo == nil || s.For == 0 {
		return
	}
	select {
	case <-time.After(s.For):
	case <-ctx.Done():
		return
	}
	acted = w.act("no longer: " + s.String())
	err = undo(w)
	w.isDone(acted)
	if err != nil {
		w.Say("undo %s: %v", s.Do, err)
		if apierrors.IsNotFound(err) { // what it was done to is gone, for good
			return
		}
	}
	ended()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undone = append(w.undone, undone{acted, s})
}

// act writes down that somebody acts now, and returns the number of the act.
func (w *World) act(what string) int {
	w.Say("* %s", what)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts = append(w.acts, claims.Act{At: time.Now(), What: what, Shown: time.Now()})
	return len(w.acts) - 1
}

// isDone takes in that the act is done: its requests may be slow.
func (w *World) isDone(act int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts[act].Shown = time.Now()
}

// undone is a step that has been undone, with the number of the act.
type undone struct {
	act  int
	step Step
}

// reportTime is what a kubelet that begins to work takes until its node's status shows it.
const reportTime = 3 * time.Second

// askTime is what a kubelet takes until its node's status shows that it asks for a volume.
const askTime = 12 * time.Second

// shown sets when the objects could first show that something was undone.
func (w *World) shown() {
	for _, u := range w.undone {
		a := &w.acts[u.act]
		switch u.step.Do {
		case "keep the containers":
			a.Shown = a.Shown.Add(LookEvery)
		case "stop the kubelet", "switch off", "delete the node":
			a.Shown = a.Shown.Add(reportTime)
		case "edit the claimRef":
			a.Shown = a.Shown.Add(askTime)
		case "stop the manager", "stop the attacher":
			a.Shown = a.Shown.Add(claims.ElectionTime)
		}
	}
}

// cause writes down what is wrong with the world from now on.
func (w *World) cause(s Step) (ended func()) {
	volume := ""
	if s.Claim != "" && s.Do != "keep the containers" { // a pod keeps all of its volumes
		if pv, err := w.volumeOf(s.Claim); err == nil {
			volume = pv.Spec.CSI.VolumeHandle
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.causes)
	c := claims.Cause{Span: claims.Span{From: time.Now()}, Kind: s.kind(), Volume: volume, Node: s.Node}
	if s.Do == "run a second pod" { // its claim may be made again
		c.Claim = s.Claim
	}
	w.causes = append(w.causes, c)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.causes[i].To = time.Now()
	}
}

// kindOf names a fault as the judges of causes know it.
func kindOf(f driver.Fault) string {
	switch {
	case f.Hangs:
		return string(f.Call) + " hangs"
	case f.Words != "":
		return string(f.Call) + " refuses"
	default:
		return string(f.Call) + " is slow"
	}
}

// nodeOf resolves the node of a step.
func (w *World) nodeOf(name string) (string, error) {
	claim, ofClaim := strings.CutPrefix(name, "@")
	switch off := w.off(); {
	case !ofClaim:
		return name, nil
	case name == offNode && len(off) > 0:
		return off[0], nil
	}
	p, err := w.podOf(claim)
	if err != nil {
		return "", err
	}
	if p.Spec.NodeName == "" {
		return "", errNothing
	}
	return p.Spec.NodeName, nil
}

// podOf is the pod with the claim: the one that has not ended and is not being deleted,
// where there are two.
func (w *World) podOf(claim string) (*corev1.Pod, error) {
	pods, err := w.objects.Pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var found *corev1.Pod
	for _, p := range pods {
		has := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
		})
		if has && (found == nil || found.DeletionTimestamp != nil || ended(found)) {
			found = p
		}
	}
	if found == nil {
		return nil, errNothing
	}
	return found, nil
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// volumeOf is the volume of the claim.
func (w *World) volumeOf(claim string) (*corev1.PersistentVolume, error) {
	c, err := w.objects.Claims.PersistentVolumeClaims(Namespace).Get(claim)
	if err != nil {
		return nil, err
	}
	return w.objects.Volumes.Get(c.Spec.VolumeName)
}

// attachmentOf is the oldest VolumeAttachment of the claim's volume. Their names, which are
// hashes of random ones, tell nothing.
func (w *World) attachmentOf(claim string) (*storagev1.VolumeAttachment, error) {
	pv, err := w.volumeOf(claim)
	if err != nil {
		return nil, err
	}
	all, err := w.client.StorageV1().VolumeAttachments().List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var oldest *storagev1.VolumeAttachment
	for i, va := range all.Items {
		if name := va.Spec.Source.PersistentVolumeName; name != nil && *name == pv.Name && (oldest == nil || va.CreationTimestamp.Before(&oldest.CreationTimestamp)) {
			oldest = &all.Items[i]
		}
	}
	if oldest == nil {
		return nil, errNothing
	}
	return oldest, nil
}

// changeNode changes a node, as somebody with kubectl does.
func (w *World) changeNode(name string, status bool, change func(*corev1.Node)) error {
	nodes := w.client.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := nodes.Get(w.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(n)
		if status {
			_, err = nodes.UpdateStatus(w.ctx, n, metav1.UpdateOptions{})
		} else {
			_, err = nodes.Update(w.ctx, n, metav1.UpdateOptions{})
		}
		return err
	})
}

// drain cordons the node and evicts its pods, as kubectl drain does: it asks again every
// five seconds for those that a budget keeps, until the drain is over.
func drain(w *World, s Step) (func(*World) error, error) {
	if err := w.changeNode(s.Node, false, func(n *corev1.Node) { n.Spec.Unschedulable = true }); err != nil {
		return nil, err
	}
	undo := func(w *World) error {
		return w.changeNode(s.Node, false, func(n *corev1.Node) { n.Spec.Unschedulable = false })
	}
	pods, err := w.client.CoreV1().Pods(Namespace).List(w.ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + s.Node})
	if err != nil {
		return undo, err
	}
	over := time.Now().Add(s.For)
	for _, p := range pods.Items {
		w.run(func() {
			for {
				err := w.client.CoreV1().Pods(Namespace).EvictV1(w.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: Namespace}})
				if refused := apierrors.IsTooManyRequests(err); !refused && s.Do != "" { // not what a finding says to do
					w.mu.Lock()
					defer w.mu.Unlock()
					w.drained = append(w.drained, p.Namespace+"/"+p.Name)
					return
				} else if !refused || time.Now().After(over) {
					return
				}
				select {
				case <-time.After(5 * time.Second):
				case <-w.ctx.Done():
					return
				}
			}
		})
	}
	return undo, nil
}

// endPod ends the pod of the claim as its kubelet does.
func endPod(phase corev1.PodPhase, reason, message string) deed {
	return func(w *World, s Step) (func(*World) error, error) {
		p, err := w.podOf(s.Claim)
		if err != nil {
			return nil, err
		}
		k := w.Kubelets[p.Spec.NodeName]
		if k == nil || !k.Alive() || p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
			return nil, errNothing
		}
		return nil, retry.RetryOnConflict(retry.DefaultRetry, func() error {
			p, err := w.client.CoreV1().Pods(Namespace).Get(w.ctx, p.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			p.Status.Phase, p.Status.Reason, p.Status.Message = phase, reason, message
			for i := range p.Status.ContainerStatuses {
				c := &p.Status.ContainerStatuses[i]
				c.Ready, c.State = false, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.Now()}}
			}
			_, err = w.client.CoreV1().Pods(Namespace).UpdateStatus(w.ctx, p, metav1.UpdateOptions{})
			return err
		})
	}
}

// refuseEvictions makes a budget that lets nobody evict the pod of the claim.
func refuseEvictions(w *World, s Step) (func(*World) error, error) {
	p, err := w.podOf(s.Claim)
	if err != nil {
		return nil, err
	}
	budgets := w.client.PolicyV1().PodDisruptionBudgets(Namespace)
	one := intstr.FromInt32(1)
	b, err := budgets.Create(w.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{GenerateName: s.Claim + "-"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	b.Status.ObservedGeneration, b.Status.CurrentHealthy, b.Status.DesiredHealthy, b.Status.ExpectedPods = b.Generation, 1, 1, 1
	_, err = budgets.UpdateStatus(w.ctx, b, metav1.UpdateOptions{})
	return func(w *World) error { return budgets.Delete(w.ctx, b.Name, metav1.DeleteOptions{}) }, err
}

// runJob makes a pod with a claim of its own that nobody replaces. Undone, it has completed.
func runJob(w *World, _ Step) (func(*World) error, error) {
	name := fmt.Sprintf("job%d", int(w.Since().Seconds()))
	if _, err := w.client.CoreV1().PersistentVolumeClaims(Namespace).Create(w.ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec(corev1.ReadWriteOnce)}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	t := podTemplate(name)
	t.Spec.RestartPolicy, t.Spec.Volumes = corev1.RestartPolicyNever, []corev1.Volume{volumeOfClaim("data", name)}
	_, err := w.client.CoreV1().Pods(Namespace).Create(w.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: t.Labels}, Spec: t.Spec}, metav1.CreateOptions{})
	return func(w *World) error {
		_, err := endPod(corev1.PodSucceeded, "", "")(w, Step{Claim: name})
		return err
	}, err
}

// runSecondPod makes a pod on another node that wants the claim, too. Undone, it is deleted.
func runSecondPod(w *World, s Step) (func(*World) error, error) {
	p, err := w.podOf(s.Claim)
	if err != nil {
		return nil, err
	}
	nodes := w.Nodes()
	i := slices.IndexFunc(nodes, func(n string) bool { return n != p.Spec.NodeName && w.Kubelets[n].Alive() })
	if p.Spec.NodeName == "" || i < 0 {
		return nil, errNothing
	}
	name := fmt.Sprintf("second%d", int(w.Since().Seconds()))
	t := podTemplate(name)
	t.Spec.NodeName, t.Spec.Volumes = nodes[i], []corev1.Volume{volumeOfClaim("data", s.Claim)}
	_, err = w.client.CoreV1().Pods(Namespace).Create(w.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: t.Labels}, Spec: t.Spec}, metav1.CreateOptions{})
	return func(w *World) error {
		return w.client.CoreV1().Pods(Namespace).Delete(w.ctx, name, metav1.DeleteOptions{})
	}, err
}

// slowRequests makes requests take up to three seconds, and loses the answers of some that
// write. The tool's lists are not of one moment then; they arrive. The manager's requests for one
// node are never slow: the node lifecycle controller holds a lock while it taints a node
// (RateLimitedTimedQueue.Try), and a bubble's clock stands while anything waits for a lock.
func slowRequests(w *World, s Step) (func(*World) error, error) {
	drawn := rand.New(rand.NewPCG(uint64(s.At), 0))
	draw := func(below int) int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return drawn.IntN(below)
	}
	w.Server.SetFault(func(r *http.Request) (api.Effect, time.Duration) {
		locks := r.UserAgent() == parts.ManagerName && path.Dir(r.URL.Path) == "/api/v1/nodes"
		switch n := draw(20); {
		case n == 0 && r.Method != http.MethodGet:
			return api.Lose, 0
		case n < 10 && !locks:
			return api.Delay, time.Duration(draw(3000)) * time.Millisecond
		default:
			return api.None, 0
		}
	})
	return func(w *World) error { w.Server.SetFault(nil); return nil }, nil
}

func stopKubelet(w *World, s Step) (func(*World) error, error) {
	return w.silence(s.Node, (*parts.Kubelet).Start)
}

func switchOff(w *World, s Step) (func(*World) error, error) {
	return w.silence(s.Node, (*parts.Kubelet).Reboot)
}

// silence stops the node's kubelet until it comes back in that way.
func (w *World) silence(node string, back func(*parts.Kubelet)) (func(*World) error, error) {
	k := w.Kubelets[node]
	if k == nil || !k.Alive() {
		return nil, errNothing
	}
	k.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.stopped[node])
	w.stopped[node] = append(w.stopped[node], claims.Span{From: time.Now()})
	return func(w *World) error {
		back(k)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stopped[node][i].To = time.Now()
		return nil
	}, nil
}

func breakDriver(w *World, s Step) (func(*World) error, error) {
	f := s.Fault
	f.Node = s.Node
	if s.Claim != "" {
		pv, err := w.volumeOf(s.Claim)
		if err != nil {
			return nil, err
		}
		f.Volume = pv.Spec.CSI.VolumeHandle
	}
	w.Driver.Break(f)
	note := func(to *[]claims.Try) {
		w.mu.Lock()
		defer w.mu.Unlock()
		*to = append(*to, claims.Try{At: time.Now(), Call: string(f.Call), Volume: f.Volume, Node: f.Node})
	}
	note(&w.breaks)
	return func(w *World) error {
		w.Driver.Cure(f)
		note(&w.cures)
		return nil
	}, nil
}

func deletePod(grace int64) deed {
	return func(w *World, s Step) (func(*World) error, error) {
		p, err := w.podOf(s.Claim)
		if err != nil {
			return nil, err
		}
		return nil, w.client.CoreV1().Pods(Namespace).Delete(w.ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	}
}

func keepContainers(w *World, s Step) (func(*World) error, error) {
	p, err := w.podOf(s.Claim)
	if err != nil || w.Kubelets[p.Spec.NodeName] == nil {
		return nil, errors.Join(err, errNothing)
	}
	k, name := w.Kubelets[p.Spec.NodeName], p.Namespace+"/"+p.Name
	k.KeepContainers(name, true)
	return func(*World) error { k.KeepContainers(name, false); return nil },
		w.client.CoreV1().Pods(Namespace).Delete(w.ctx, p.Name, metav1.DeleteOptions{})
}

func stop(which func(*World) *process) deed {
	return func(w *World, _ Step) (func(*World) error, error) {
		if !which(w).Up() {
			return nil, errNothing
		}
		which(w).Kill()
		return func(w *World) error { which(w).Start(); return nil }, nil
	}
}

func deleteAttachment(w *World, s Step) (func(*World) error, error) {
	va, err := w.attachmentOf(s.Claim)
	if err != nil {
		return nil, err
	}
	return nil, w.client.StorageV1().VolumeAttachments().Delete(w.ctx, va.Name, metav1.DeleteOptions{})
}

func stripAttachment(w *World, s Step) (func(*World) error, error) {
	va, err := w.attachmentOf(s.Claim)
	if err != nil {
		return nil, err
	}
	if err := w.client.StorageV1().VolumeAttachments().Delete(w.ctx, va.Name, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	_, err = w.client.StorageV1().VolumeAttachments().Patch(w.ctx, va.Name, types.MergePatchType, noFinalizers, metav1.PatchOptions{})
	return nil, err
}

// dropEntry takes the volume out of the node's volumesAttached.
func dropEntry(w *World, s Step) (func(*World) error, error) {
	pv, err := w.volumeOf(s.Claim)
	if err != nil {
		return nil, err
	}
	p, err := w.podOf(s.Claim)
	if err != nil || p.Spec.NodeName == "" {
		return nil, errors.Join(err, errNothing)
	}
	name := parts.UniqueName(pv)
	return nil, w.changeNode(p.Spec.NodeName, true, func(n *corev1.Node) {
		n.Status.VolumesAttached = slices.DeleteFunc(n.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == name })
	})
}

// deleteNode deletes a node, whose machine is off, and its CSINode; it comes back as
// another one of the same name.
func deleteNode(w *World, s Step) (func(*World) error, error) {
	back, err := switchOff(w, s)
	if err != nil {
		return nil, err
	}
	undo := func(w *World) error { return errors.Join(w.MakeNode(s.Node), back(w)) }
	return undo, errors.Join(
		w.client.CoreV1().Nodes().Delete(w.ctx, s.Node, metav1.DeleteOptions{}),
		w.client.StorageV1().CSINodes().Delete(w.ctx, s.Node, metav1.DeleteOptions{}),
	)
}

// remakeClaim deletes the claim, and the pod that protects it. A StatefulSet makes both
// again.
func remakeClaim(w *World, s Step) (func(*World) error, error) {
	p, err := w.podOf(s.Claim)
	if err != nil {
		return nil, err
	}
	undo, err := w.dropClaim(s.Claim)
	return undo, errors.Join(err, w.client.CoreV1().Pods(Namespace).Delete(w.ctx, p.Name, metav1.DeleteOptions{}))
}

// outOfService puts the taint on the node that lets its volumes be detached by force.
func outOfService(w *World, s Step) (func(*World) error, error) {
	if w.Kubelets[s.Node] == nil || w.Kubelets[s.Node].Alive() {
		return nil, errNothing
	}
	taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	return func(w *World) error {
			return w.changeNode(s.Node, false, func(n *corev1.Node) {
				n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint.Key })
			})
		}, w.changeNode(s.Node, false, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, taint)
		})
}
