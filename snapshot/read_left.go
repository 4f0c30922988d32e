package snapshot

import (
	"cmp"
	"io"
	"iter"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/intern"
	corev1 "k8s.io/api/core/v1"
)

// left are the pods that were read and not kept: of a large cluster most are of no use
// for any question about volumes, and they take most of the memory.
type left struct {
	// ofUse is nil where every pod is kept.
	ofUse func(*Objects) func(*corev1.Pod) bool
	// wants is by the objects that came before the first pod.
	wants func(*corev1.Pod) bool
	pods  []leftPod
	taken [][]leftPod // over from other collectors
}

func (l *left) all() iter.Seq[leftPod] {
	return func(yield func(leftPod) bool) {
		for _, pods := range append(l.taken, l.pods) {
			for _, p := range pods {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// leftPod is by what an object of another kind may ask for the pod.
type leftPod struct{ namespace, name, node string }

func (p leftPod) identity() identity { return identity{Pods, p.namespace, p.name} }

// leftOneError says that an object that came after a pod may ask for it.
type leftOneError struct {
	// wants is by all objects; nil where not all were read.
	wants func(*corev1.Pod) bool
}

func (leftOneError) Error() string { return "a pod was left that may be of use" }

// again are the options with which the input is read once more.
func (e leftOneError) again(opts ReadOptions) ReadOptions {
	opts.PodsOfUse = nil
	if e.wants != nil {
		opts.PodsOfUse = func(*Objects) func(*corev1.Pod) bool { return e.wants }
	}
	return opts
}

// order is the order of a file that snapshot wrote: by kind, namespace and name. As long as
// it holds, no object is there twice, none of those that ask for pods comes after them,
// and nothing has to be remembered of the objects that are left.
type order struct {
	// may says that the file can be read once more where the order ends.
	may, holds bool
	last       identity
}

// next reports whether the order holds with one object more.
func (o *order) next(key identity) bool {
	last := o.last
	o.last = key
	if last.kind == key.kind {
		return cmp.Or(cmp.Compare(last.namespace, key.namespace), cmp.Compare(last.name, key.name)) < 0
	}
	rank := func(kind Kind) int { return slices.IndexFunc(resources, func(r *row) bool { return r.Kind == kind }) }
	return rank(last.kind) < rank(key.kind)
}

// leaves reports whether the pod is not kept.
func (l *left) leaves(pod *corev1.Pod, others *Objects, ordered bool, sharer *intern.Interner) bool {
	if l.ofUse == nil {
		return false
	}
	if l.wants == nil {
		l.wants = l.ofUse(others)
	}
	if l.wants(pod) {
		return false
	}
	if ordered {
		return true
	}
	p := leftPod{pod.Namespace, pod.Name, pod.Spec.NodeName}
	sharer.Text(&p.namespace)
	sharer.Text(&p.node)
	l.pods = append(l.pods, p)
	return true
}

// check is an error where one of the pods that were left is of use.
func (l *left) check(others *Objects) error {
	if l.ofUse == nil {
		return nil
	}
	wants := l.ofUse(others)
	var pod corev1.Pod
	for p := range l.all() {
		pod.Namespace, pod.Name, pod.Spec.NodeName = p.namespace, p.name, p.node
		if wants(&pod) {
			return leftOneError{wants}
		}
	}
	return nil
}

// rereadable is the reader where it can be read once more from where it stands, which
// is start.
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
