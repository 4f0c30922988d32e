package snapshot

import (
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/intern"
)

// left are the pods that were read and not kept. In a large cluster most pods matter to no question
// about volumes, and they take most of the memory.
type left struct {
	// ofUse is ReadOptions.PodsOfUse; nil if every pod is kept.
	ofUse func(*Objects) func(*corev1.Pod) bool
	// wants is the decision based on the objects that came before the first pod.
	wants func(*corev1.Pod) bool
	pods  []leftPod
	// some are the first pod that runs in each namespace and on each node, and the first that does not
	// run, each without its spec: they show as well as all pods do that an object is missing.
	some            []*corev1.Pod
	spaces, onNodes sets.Set[string]
	// other reports whether some has one that does not run.
	other bool
	// replicas counts them.
	replicas replicas
}

// leftPod holds the fields by which an object of another kind may refer to the pod.
type leftPod struct{ namespace, name, node string }

func (p leftPod) identity() identity { return identity{Pods, p.namespace, p.name} }

// leftOneError is the error if an object after a pod may refer to that pod, which was not kept.
type leftOneError struct {
	// wants is the decision based on all objects; nil if not all were read.
	wants func(*corev1.Pod) bool
}

func (leftOneError) Error() string { return "a pod was left that may be of use" }

// again returns the options for the second reading of the input.
func (e leftOneError) again(opts ReadOptions) ReadOptions {
	opts.PodsOfUse = nil
	if e.wants != nil {
		opts.PodsOfUse = func(*Objects) func(*corev1.Pod) bool { return e.wants }
	}
	return opts
}

// leaves reports whether the pod is not kept.
func (l *left) leaves(pod *corev1.Pod, others *Objects, sharer *intern.Interner) bool {
	if l.ofUse == nil {
		return false
	}
	if l.wants == nil {
		l.wants = l.ofUse(others)
	}
	if l.wants(pod) {
		return false
	}
	l.sample(pod)
	l.replicas.add(pod)
	p := leftPod{pod.Namespace, pod.Name, pod.Spec.NodeName}
	sharer.Text(&p.namespace)
	sharer.Text(&p.node)
	l.pods = append(l.pods, p)
	return true
}

// sample keeps the pod in some if it is the first of its namespace, of its node, or that does not run.
func (l *left) sample(pod *corev1.Pod) {
	if l.spaces == nil {
		l.spaces, l.onNodes = sets.New[string](), sets.New[string]()
	}
	switch isRunning := pod.Status.Phase == corev1.PodRunning; {
	case isRunning && l.spaces.Has(pod.Namespace) && l.onNodes.Has(pod.Spec.NodeName), !isRunning && l.other:
		return
	case isRunning:
		l.spaces.Insert(pod.Namespace)
		l.onNodes.Insert(pod.Spec.NodeName)
	default:
		l.other = true
	}
	l.some = append(l.some, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp},
		Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase},
	})
}

// take adds the notes of another collector about pods that it did not keep.
func (l *left) take(o *left) {
	l.some = append(l.some, o.some...)
	for of, n := range o.replicas {
		l.replicas[of] += n
	}
}

// drop forgets the pods that gone reports.
func (l *left) drop(gone func(identity) bool) {
	l.pods = slices.DeleteFunc(l.pods, func(p leftPod) bool { return gone(p.identity()) })
	l.some = slices.DeleteFunc(l.some, func(pod *corev1.Pod) bool { return gone(identity{Pods, pod.Namespace, pod.Name}) })
}

// check returns an error if one of the pods that were not kept is wanted after all.
func (l *left) check(others *Objects) error {
	if l.ofUse == nil {
		return nil
	}
	wants := l.ofUse(others)
	var pod corev1.Pod
	for _, p := range l.pods {
		pod.Namespace, pod.Name, pod.Spec.NodeName = p.namespace, p.name, p.node
		if wants(&pod) {
			return leftOneError{wants}
		}
	}
	return nil
}

// rereadable returns the reader as a Seeker and its current position, or nil if it cannot be read
// twice.
func rereadable(r io.Reader) (again io.Seeker, start int64) {
	seeker, ok := r.(io.Seeker)
	if !ok {
		return nil, 0
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, 0
	}
	return seeker, start
}
