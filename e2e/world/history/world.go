// Package history plays scripts and random histories in a world in virtual time, and looks
// at it with the tool while they go on.
package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/api"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/parts"
)

// Namespace has the workloads of the world.
const Namespace = "shop"

// DriverName is the name of the world's CSI driver, which nobody has written words for.
const DriverName = "disk.csi.example.com"

const storageClass = "disk"

// Size is how much there is in a world.
type Size struct {
	Nodes int `json:"nodes"`
	// Sets are StatefulSets, each with a claim for each of its replicas.
	Sets     int `json:"sets"`
	Replicas int `json:"replicas"`
	// Deployments have one replica and a claim of their own.
	Deployments int `json:"deployments"`
	// Two reports that a pod of a Deployment has a second claim, and Shared that it has two
	// replicas and volumes that several nodes may have at once.
	Two    bool `json:"two,omitempty"`
	Shared bool `json:"shared,omitempty"`
	// Real reports that the volume half of each kubelet is upstream's.
	Real bool `json:"real,omitempty"`
}

// claimsOf are the names of the claims of a Deployment.
func (s Size) claimsOf(deployment string) []string {
	if s.Two {
		return []string{deployment, deployment + "-log"}
	}
	return []string{deployment}
}

// Small is the size of the worlds of random histories.
var Small = Size{Nodes: 3, Sets: 1, Replicas: 2, Deployments: 1}

// World is a cluster in a bubble.
type World struct {
	Server   *api.Server
	Driver   *driver.Driver
	Kubelets map[string]*parts.Kubelet
	Truth    *claims.Truth

	client  kubernetes.Interface // people's
	objects *parts.Objects
	began   time.Time
	ctx     context.Context
	all     sync.WaitGroup

	manager, attacher *process

	mu      sync.Mutex
	log     []string
	acts    []claims.Act
	causes  []claims.Cause
	drained []string
	stopped map[string][]claims.Span
	undone  []undone
	cures   []claims.Try
	breaks  []claims.Try
	advice  *Advice
}

// NewWorld makes a world of the size and starts all of its parts. It must be called in a
// bubble, and all that runs ends some time after the context has.
func NewWorld(ctx context.Context, size Size) (*World, error) {
	server, err := api.New()
	if err != nil {
		return nil, err
	}
	w := &World{Server: server, Driver: driver.New(DriverName), Kubelets: map[string]*parts.Kubelet{}, Truth: claims.NewTruth(), began: time.Now(), ctx: ctx, stopped: map[string][]claims.Span{}}
	w.Driver.Shared = size.Shared
	if w.client, err = server.Client("kubectl"); err != nil {
		return nil, err
	}
	kubelets, err := server.Client("kubelet")
	if err != nil {
		return nil, err
	}
	if err := w.make(size); err != nil {
		return nil, err
	}
	if w.objects, err = parts.Watch(ctx, kubelets); err != nil {
		return nil, err
	}
	if err := w.objects.Follow(w.Truth.Pod, func(before, after *corev1.Node) {
		if before != nil && parts.IsReady(before) && (after == nil || !parts.IsReady(after)) {
			w.Truth.GiveUp(before.Name)
		}
	}); err != nil {
		return nil, err
	}
	var plugin *parts.NodePlugin
	if size.Real {
		var nodes []string
		for i := range size.Nodes {
			nodes = append(nodes, nodeName(i))
		}
		if plugin, err = parts.NewNodePlugin(ctx, w.Driver, nodes); err != nil {
			return nil, err
		}
	}
	for i := range size.Nodes {
		name := nodeName(i)
		k := parts.NewKubelet(name, kubelets, w.objects, w.Driver)
		k.Plugin = plugin
		w.Kubelets[name] = k
		w.run(func() { k.Run(ctx) })
	}
	for name, run := range map[string]func(context.Context, kubernetes.Interface, *parts.Objects){
		"kube-scheduler": parts.Scheduler,
		"csi-provisioner": func(ctx context.Context, c kubernetes.Interface, o *parts.Objects) {
			parts.Provisioner(ctx, c, o, w.Driver)
		},
	} {
		client, err := server.Client(name)
		if err != nil {
			return nil, err
		}
		w.run(func() { run(ctx, client, w.objects) })
	}
	w.manager = w.process("kube-controller-manager", parts.ManagerName, parts.Manager)
	w.attacher = w.process("csi-attacher", parts.AttacherAgent, func(ctx context.Context, c kubernetes.Interface, identity string) error {
		return parts.Attacher(ctx, c, w.Driver, identity)
	})
	return w, nil
}

// Wait waits for all that runs to end, once the context has.
func (w *World) Wait() { w.all.Wait() }

func (w *World) run(f func()) {
	w.all.Add(1)
	go func() {
		defer w.all.Done()
		f()
	}()
}

// Since is the time since the world began.
func (w *World) Since() time.Duration { return time.Since(w.began) }

// Say writes a line of the world's own log.
func (w *World) Say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, clock(w.Since())+" "+fmt.Sprintf(format, args...))
}

// Log is what was said.
func (w *World) Log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// clock is a time as people read it, 12:07.
func clock(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

// Nodes are the names of the nodes that the world began with.
func (w *World) Nodes() []string { return slices.Sorted(maps.Keys(w.Kubelets)) }

// process is a program that somebody starts again when it ends, while it is up.
type process struct {
	w      *World
	name   string
	client kubernetes.Interface
	main   func(context.Context, kubernetes.Interface, string) error

	mu     sync.Mutex
	starts int
	kill   context.CancelFunc
}

// restartDelay is how long a kubelet takes to start a container again.
const restartDelay = 2 * time.Second

func (w *World) process(name, agent string, main func(context.Context, kubernetes.Interface, string) error) *process {
	client, err := w.Server.Client(agent)
	if err != nil {
		panic(err) // the same for all agents
	}
	p := &process{w: w, name: name, client: client, main: main}
	p.Start()
	return p
}

// Start starts the process, unless it is up.
func (p *process) Start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kill != nil {
		return
	}
	ctx, cancel := context.WithCancel(p.w.ctx)
	p.kill = cancel
	p.w.run(func() {
		for ctx.Err() == nil {
			if err := p.main(ctx, p.client, p.identity()); err != nil {
				p.w.Say("%s: %v", p.name, err)
			}
			select {
			case <-time.After(restartDelay):
			case <-ctx.Done():
			}
		}
	})
}

// Kill ends the process, without a word to the others.
func (p *process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kill != nil {
		p.kill()
		p.kill = nil
	}
}

// Up reports whether the process is up.
func (p *process) Up() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kill != nil
}

func (p *process) identity() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts++
	return fmt.Sprintf("%s-0_%d", p.name, p.starts)
}

// make makes the objects that there are at the beginning.
func (w *World) make(size Size) error {
	yes, mode := true, storagev1.VolumeBindingImmediate
	for _, name := range []string{Namespace, parts.SystemNamespace, parts.LeaseNamespace} {
		if _, err := w.client.CoreV1().Namespaces().Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if _, err := w.client.StorageV1().CSIDrivers().Create(w.ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: DriverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: &yes}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: storageClass}, Provisioner: DriverName, VolumeBindingMode: &mode}
	if _, err := w.client.StorageV1().StorageClasses().Create(w.ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range size.Nodes {
		if err := w.MakeNode(nodeName(i)); err != nil {
			return err
		}
	}
	for i := range size.Sets {
		if err := w.makeSet(fmt.Sprintf("db%d", i), int32(size.Replicas)); err != nil {
			return err
		}
	}
	for i := range size.Deployments {
		if err := w.makeDeployment(fmt.Sprintf("web%d", i), size); err != nil {
			return err
		}
	}
	return nil
}

// MakeNode makes a node and its CSINode, as its kubelet does when it registers: it asks again
// where an answer was lost.
func (w *World) MakeNode(name string) error {
	nodes, csiNodes := w.client.CoreV1().Nodes(), w.client.StorageV1().CSINodes()
	var n *corev1.Node
	if err := w.untilThere(func() (err error) {
		_, made := nodes.Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels:      map[string]string{corev1.LabelHostname: name},
			Annotations: map[string]string{volumeutil.ControllerManagedAttachAnnotation: "true"},
		}}, metav1.CreateOptions{})
		n, err = nodes.Get(w.ctx, name, metav1.GetOptions{})
		return errors.Join(ignoreExists(made), err)
	}); err != nil {
		return err
	}
	if err := w.untilThere(func() error {
		return w.changeNode(name, true, func(n *corev1.Node) {
			parts.SetReady(n)
			n.Status.NodeInfo.KubeletVersion = api.Version
		})
	}); err != nil {
		return err
	}
	return w.untilThere(func() error {
		_, err := csiNodes.Create(w.ctx, &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: n.UID}}},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: DriverName, NodeID: name}}},
		}, metav1.CreateOptions{})
		return ignoreExists(err)
	})
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// untilThere does it at most five times, until it succeeds.
func (w *World) untilThere(do func() error) (err error) {
	for range 5 {
		if err = do(); err == nil {
			return nil
		}
	}
	return err
}

func claimSpec(mode corev1.PersistentVolumeAccessMode) corev1.PersistentVolumeClaimSpec {
	class := storageClass
	return corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}, StorageClassName: &class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
}

func volumeOfClaim(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

// podTemplate is the template of a pod with one container and a volume named data.
func podTemplate(app string) corev1.PodTemplateSpec {
	// What the admission plug-in DefaultTolerationSeconds adds.
	seconds := int64(300)
	var tolerations []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerations = append(tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "app", Image: "app", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}}, Tolerations: tolerations,
	}}
}

func (w *World) makeSet(name string, replicas int32) error {
	_, err := w.client.AppsV1().StatefulSets(Namespace).Create(w.ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: podTemplate(name), PodManagementPolicy: appsv1.ParallelPodManagement,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claimSpec(corev1.ReadWriteOnce)}},
	}}, metav1.CreateOptions{})
	return err
}

func (w *World) makeDeployment(name string, size Size) error {
	// The progress deadline is none: ten minutes after a pod of a Deployment that had been
	// complete is lost, the controller would look at it ten times a second.
	replicas, none, t := int32(1), int32(math.MaxInt32), podTemplate(name)
	mode := corev1.ReadWriteOnce
	if size.Shared {
		replicas, mode = 2, corev1.ReadWriteMany
	}
	t.Spec.Containers[0].VolumeMounts = nil
	for _, claim := range size.claimsOf(name) {
		if _, err := w.client.CoreV1().PersistentVolumeClaims(Namespace).Create(w.ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim}, Spec: claimSpec(mode)}, metav1.CreateOptions{}); err != nil {
			return err
		}
		t.Spec.Volumes = append(t.Spec.Volumes, volumeOfClaim(claim, claim))
		t.Spec.Containers[0].VolumeMounts = append(t.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: claim, MountPath: "/" + claim})
	}
	_, err := w.client.AppsV1().Deployments(Namespace).Create(w.ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, ProgressDeadlineSeconds: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: t}}, metav1.CreateOptions{})
	return err
}
