package facts

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
)

// remembered caches facts that many checks ask for and that are the same for all checks of a
// report. Each is computed on first use. Callers must not change a value.
type remembered struct {
	attachments  fact[[]Attachment]
	waiting      fact[map[corev1.UniqueVolumeName][]*corev1.Pod]
	attachers    fact[[]string]
	driverNames  fact[[]string]
	attachEvents fact[sets.Set[string]]
	unclaimed    fact[[]*corev1.Pod]
	oldestEvent  fact[metav1.Time]
	pods         fact[podsByRole]
	reporting    fact[[]*corev1.Node]
	machines     fact[sets.Set[string]]
	loads        fact[map[NodeDriver]*Load]
	sameDisks    fact[sameDisks]
	danglings    fact[[]Attachment]
	annotated    fact[sets.Set[string]]

	liveDetaches fact[[]LiveDetach]
	liveDetached fact[sets.Set[string]]

	// Lookups that many objects need are indexed: in a large cluster with many faults the time
	// would otherwise grow with the square.
	byNode        fact[map[string][]Attachment]
	byVolume      fact[*index.Index[corev1.UniqueVolumeName, Attachment]]
	onNode        fact[*index.Index[string, *storagev1.VolumeAttachment]]
	ofPV          fact[*index.Index[string, *storagev1.VolumeAttachment]]
	volumesOfDisk fact[*index.Index[corev1.UniqueVolumeName, *corev1.PersistentVolume]]
	claimsNaming  fact[*index.Index[string, *corev1.PersistentVolumeClaim]]
	claimUsers    fact[map[types.NamespacedName][]*corev1.Pod]
	mounters      fact[map[corev1.UniqueVolumeName][]*corev1.Pod]
	listedOn      fact[listings]
	inUseOn       fact[listings]
	machineIDs    fact[machineIDs]
	firstHolders  facts[corev1.UniqueVolumeName, []Attachment]
	tasks         facts[string, []Task]
	leases        facts[string, *coordinationv1.Lease]
	answers       facts[string, metav1.Time]
	atWork        facts[string, bool]
	installed     facts[string, bool]
	migrated      facts[string, bool]
	served        facts[string, bool]
	noAttacher    facts[string, bool]
	writersOfList facts[string, map[string]int]
	countedWhole  fact[sets.Set[string]]
	nodeVolumes   facts[string, *nodeVolumes]
	clockBehind   facts[types.NodeName, time.Duration]
	aliveAs       facts[types.NodeName, *Alias]
	machineList   fact[[]machine]
}

// fact is computed once. Checks that run side by side wait for the first that asks.
type fact[V any] struct {
	answer[V]
	// later are the values for views of Later, where they differ.
	later facts[time.Duration, V]
}

type answer[V any] struct {
	once  sync.Once
	value V
	// left are the times after which the value changes: see View.Left.
	left sets.Set[time.Duration]
}

// of is the value for a view like v, looked at later.
func (a *answer[V]) of(v *View, later time.Duration, find func(*View) V) V {
	a.once.Do(func() {
		own := v.apart(later)
		a.value = find(own)
		a.left = own.left
	})
	v.note(a, a.left)
	return a.value
}

func (f *fact[V]) get(v *View, find func(*View) V) V {
	value := f.of(v, 0, find)
	if v.later > 0 && anyEnds(f.left, v.later) {
		value = f.later.one(v.later).of(v, v.later, find)
	}
	return value
}

// facts are facts by key.
type facts[K comparable, V any] struct {
	mutex sync.Mutex
	known map[K]*fact[V]
}

func (f *facts[K, V]) get(v *View, key K, find func(*View, K) V) V {
	return f.one(key).get(v, func(v *View) V { return find(v, key) })
}

func (f *facts[K, V]) one(key K) *fact[V] {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	one := f.known[key]
	if one == nil {
		if f.known == nil {
			f.known = map[K]*fact[V]{}
		}
		one = &fact[V]{}
		f.known[key] = one
	}
	return one
}
