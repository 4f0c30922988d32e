package kubelettrace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/link"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The drivers of the tests.
const (
	Disk  = csidriver.Name             // attached and staged
	EBS   = "ebs.csi.aws.com"          // attached and staged; its volumes are those of the in-tree plugin
	Files = "files.volume-doctor.test" // neither
	Away  = "away.volume-doctor.test"  // neither, and its node plugin does not run
)

var drivers = []string{Disk, EBS, Files, Away}

// attached reports whether the driver's volumes are attached and staged.
func attached(driver string) bool { return driver == Disk || driver == EBS }

// World is one API server with its controller, its attacher and machines.
type World struct {
	Cluster *controlplane.Cluster
	Client  kubernetes.Interface
	kubelet Kubelet
	reader  *cluster.Cluster
	plane   context.Context
	ebs     *csidriver.Driver
}

// attacher is the controller's half of a driver.
func (w *World) attacher(driver string) *csidriver.Driver {
	if driver == EBS {
		return w.ebs
	}
	return w.Cluster.Driver
}

// NewWorld makes everything that the states share; the machines run the kubelet.
func NewWorld(ctx context.Context, plane *controlplane.Cluster, kubelet Kubelet) (*World, error) {
	w := &World{Cluster: plane, Client: plane.Client(), kubelet: kubelet, plane: ctx}
	var err error
	if w.reader, err = cluster.New(plane.RESTConfig(), cluster.Options{All: true}); err != nil {
		return nil, err
	}
	if err := fixture.Storage(ctx, w.Client); err != nil {
		return nil, err
	}
	if w.ebs, err = startEBS(ctx, w); err != nil {
		return nil, err
	}
	no := false
	for _, name := range []string{Files, Away} {
		_, err := w.Client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.CSIDriverSpec{AttachRequired: &no, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{
				storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral,
			}},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
	return w, nil
}

// Machine starts a machine whose drivers, except Away, have registered.
func (w *World) Machine(t *testing.T, node string) *Machine {
	t.Helper()
	return w.machineOf(t, w.kubelet, node)
}

// machineOf is Machine with another kubelet.
func (w *World) machineOf(t *testing.T, k Kubelet, node string) *Machine {
	t.Helper()
	kubeconfig, err := w.Cluster.KubeconfigFor(controlplane.UserKubelet)
	if err != nil {
		t.Fatal(err)
	}
	line, kubeconfig, err := link.New(kubeconfig, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(line.End)
	m, err := StartMachine(k, wire.Machine{
		Node: node, Kubeconfig: kubeconfig, Labels: map[string]string{corev1.LabelTopologyZone: "east"},
		Drivers: []wire.Driver{{Name: Disk, Stages: true}, {Name: EBS, Stages: true}, {Name: Files}, {Name: Away}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.line = line
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of the kubelet of %s: %s", node, m.KeepLog())
		}
		m.Stop()
	})
	if _, err := m.Ask(wire.Request{Do: wire.SetInfo, Driver: EBS, Info: wire.Info{Topology: map[string]string{ebsZone: "east"}}}); err != nil {
		t.Fatal(err)
	}
	for _, driver := range []string{Disk, EBS, Files} {
		w.register(t, m, driver)
	}
	return m
}

func (w *World) register(t *testing.T, m *Machine, driver string) {
	t.Helper()
	if _, err := m.Ask(wire.Request{Do: wire.Register, Driver: driver}); err != nil {
		t.Fatal(err)
	}
	w.await(t, "driver "+driver+" to register on "+m.Node, func() (bool, error) { return w.registers(m.Node, driver) })
}

// registers reports whether the node's CSINode lists the driver.
func (w *World) registers(node, driver string) (bool, error) {
	registered, err := w.registered(node)
	return slices.Contains(registered, driver), err
}

// registered are the drivers that the node's CSINode lists.
func (w *World) registered(node string) (list []string, err error) {
	n, err := w.Client.StorageV1().CSINodes().Get(w.plane, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, d := range n.Spec.Drivers {
		list = append(list, d.Name)
	}
	return list, nil
}

// patience is how long the tests wait for a state: machines are slow.
const patience = time.Minute

// await waits until holds is true; the pause between two looks is short.
func (w *World) await(t *testing.T, what string, holds func() (bool, error)) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		ok, err := holds()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s: %v", patience, what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Look is the product's trace of a pod and its plan of the node, with the truth at the same
// moment.
type Look struct {
	Trace *trace.Trace
	Plan  *kubelet.Node
	Truth map[string]Truth // by the pod's own name of the volume

	snapshot *snapshot.Snapshot
	asked    bool // whether the kubelet itself was asked, too
}

// lookAt is the product's half of a look; heard is the kubelet's own report, nil where it is
// not asked.
func lookAt(s *snapshot.Snapshot, pod *corev1.Pod, plan *kubelet.Node, heard *trace.KubeletView, truth map[string]Truth) Look {
	return Look{Trace: diagnose.TracePod(s, pod, diagnose.Options{Kubelet: heard}), Plan: plan, Truth: truth, snapshot: s, asked: heard != nil}
}

// look reads the cluster as the product does, between two determinations of the truth that
// must be equal; ok is false where something changed meanwhile.
func (w *World) look(m *Machine, pod *corev1.Pod, volumes []Volume) (l Look, ok bool, err error) {
	before, err := w.see(m, volumes)
	if err != nil {
		return l, false, err
	}
	s, err := w.reader.Snapshot(w.plane)
	if err != nil {
		return l, false, err
	}
	after, err := w.see(m, volumes)
	if err != nil {
		return l, false, err
	}
	there := s.Pod(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	if there == nil {
		return l, false, fmt.Errorf("pod %s/%s is gone", pod.Namespace, pod.Name)
	}
	l = lookAt(s, there, planOf(s, m.Node, nil), nil, after.truth(pod.UID, volumes))
	return l, same(before.truth(pod.UID, volumes), l.Truth), nil
}

func same(a, b map[string]Truth) bool {
	for name, t := range a {
		if !t.equal(b[name]) {
			return false
		}
	}
	return true
}

// see asks the kubelet, the drivers and the API server about the volumes.
func (w *World) see(m *Machine, volumes []Volume) (seen, error) {
	request := wire.Request{Do: wire.Look}
	for _, v := range volumes {
		if v.Unique != "" {
			request.Volumes = append(request.Volumes, v.Unique)
		}
	}
	s := seen{}
	var err error
	if s.answer, err = m.Ask(request); err != nil {
		return s, err
	}
	if s.answer.Kubelet == nil {
		return s, fmt.Errorf("no kubelet runs on %s", m.Node)
	}
	node, err := w.Client.CoreV1().Nodes().Get(w.plane, m.Node, metav1.GetOptions{})
	if err != nil {
		return s, err
	}
	s.listed = func(name corev1.UniqueVolumeName) bool {
		return slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == name })
	}
	published, refused := map[string]bool{}, map[string]bool{}
	for _, v := range volumes {
		attacher := w.attacher(v.Driver)
		published[v.Handle] = slices.Contains(attacher.PublishedOn(v.Handle), m.Node)
		history := attacher.History(v.Handle)
		refused[v.Handle] = len(history) > 0 && history[len(history)-1].Err != nil
	}
	s.published = func(handle string) bool { return published[handle] }
	s.refused = func(handle string) bool { return refused[handle] }
	registered, err := w.registered(m.Node)
	if err != nil {
		return s, err
	}
	s.registered = func(driver string) bool { return slices.Contains(registered, driver) }
	s.silent = func(driver string) bool {
		_, err := os.Stat(m.socket(driver))
		return s.registered(driver) && os.IsNotExist(err)
	}
	s.mounts, err = m.mounts()
	return s, err
}

// truth is the truth about the volumes of one pod.
func (s seen) truth(pod types.UID, volumes []Volume) map[string]Truth {
	truth := map[string]Truth{}
	volumes = slices.Clone(volumes)
	for i := range volumes {
		volumes[i] = volumes[i].inline(pod)
	}
	for _, v := range volumes {
		if s.answer.Kubelet.Pods[pod].Terminating {
			truth[v.Name] = s.down(pod, v)
		} else {
			truth[v.Name] = s.up(pod, v)
		}
	}
	s.holdsOne(pod, volumes, truth)
	return truth
}

// inline is the volume with the handle that the kubelet makes for it, where it is an inline one
// of the pod (makeVolumeHandle, csi_mounter.go).
func (v Volume) inline(pod types.UID) Volume {
	if v.Handle == "" && v.Driver != "" {
		v.Handle = fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(pod)+v.Name)))
	}
	return v
}

// volumeName is the name of the PersistentVolume of a claim.
func volumeName(namespace, claim string) string { return "pv-" + namespace + "-" + claim }

// claim makes a claim that is bound to a volume of the driver, and returns the tests'
// knowledge about the volume. The pod's name for it is the claim's. owner, where it is not
// nil, is the pod that owns the claim.
func (w *World) claim(t *testing.T, namespace, name, driver string, change func(*corev1.PersistentVolume), owner *corev1.Pod, modes ...corev1.PersistentVolumeAccessMode) Volume {
	t.Helper()
	if len(modes) == 0 {
		modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	handle := "vol-" + namespace + "-" + name
	class, size := fixture.StorageClass, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName(namespace, name)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, StorageClassName: class, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: source(driver, handle),
		},
	}
	if change != nil {
		change(pv)
	}
	claims, volumes := w.Client.CoreV1().PersistentVolumeClaims(namespace), w.Client.CoreV1().PersistentVolumes()
	var owners []metav1.OwnerReference
	if owner != nil {
		owners = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("Pod"))}
	}
	claim, err := claims.Create(w.plane, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}, StorageClassName: &class,
			VolumeName: pv.Name, VolumeMode: pv.Spec.VolumeMode,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pv.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name, UID: claim.UID}
	if pv, err = volumes.Create(w.plane, pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pv.Status.Phase = corev1.VolumeBound
	if _, err := volumes.UpdateStatus(w.plane, pv, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: modes, Capacity: size}
	if _, err := claims.UpdateStatus(w.plane, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return Volume{Name: name, Spec: pv.Name, Driver: driver, Handle: handle, Unique: csidriver.UniqueName(driver, handle), Attachable: attached(driver), Stages: attached(driver)}
}

// unboundClaim makes a claim that names a volume, or none, and is not bound.
func (w *World) unboundClaim(t *testing.T, namespace, name, volume string) {
	t.Helper()
	class, size := fixture.StorageClass, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim, err := w.Client.CoreV1().PersistentVolumeClaims(namespace).Create(w.plane, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: size},
			StorageClassName: &class, VolumeName: volume,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.Status.Phase = corev1.ClaimPending
	if volume != "" {
		claim.Status.Phase = corev1.ClaimBound
	}
	if _, err := w.Client.CoreV1().PersistentVolumeClaims(namespace).UpdateStatus(w.plane, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// create makes a Secret, a ConfigMap and a ServiceAccount of the name.
func (w *World) create(namespace, name string) error {
	of := metav1.ObjectMeta{Name: name, Namespace: namespace}
	_, err := w.Client.CoreV1().Secrets(namespace).Create(w.plane, &corev1.Secret{ObjectMeta: of}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err = w.Client.CoreV1().ConfigMaps(namespace).Create(w.plane, &corev1.ConfigMap{ObjectMeta: of}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = w.Client.CoreV1().ServiceAccounts(namespace).Create(w.plane, &corev1.ServiceAccount{ObjectMeta: of}, metav1.CreateOptions{})
	return err
}

// empty removes the objects that a batch left in the namespace, and its volumes.
func (w *World) empty(namespace string) error {
	core, now, all := w.Client.CoreV1(), *metav1.NewDeleteOptions(0), metav1.ListOptions{}
	claims, err := core.PersistentVolumeClaims(namespace).List(w.plane, all)
	if err != nil {
		return err
	}
	for i := range claims.Items {
		if name := claims.Items[i].Spec.VolumeName; name != "" {
			if err := core.PersistentVolumes().Delete(w.plane, name, now); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return errors.Join(core.PersistentVolumeClaims(namespace).DeleteCollection(w.plane, now, all),
		core.Secrets(namespace).DeleteCollection(w.plane, now, all), core.ConfigMaps(namespace).DeleteCollection(w.plane, now, all),
		core.ServiceAccounts(namespace).DeleteCollection(w.plane, now, all),
		core.Events(namespace).DeleteCollection(w.plane, now, all))
}

// runs reports whether the pod's containers run.
func (w *World) runs(namespace, name string) (bool, error) {
	pod, err := w.Client.CoreV1().Pods(namespace).Get(w.plane, name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	return pod.Status.Phase == corev1.PodRunning, nil
}
