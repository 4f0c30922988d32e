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

// remembered are facts that many checks ask for, some of them for every object,
// and that are the same for all checks of a report. Each is found out when it is
// first asked for. Who gets one must not write to it.
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

	// What would be searched for once for each of many objects is kept by what it
	// is asked for: of a large cluster in which much is broken the time would
	// otherwise grow with the square.
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
}

// fact is found out once. Checks that run side by side wait for the one that was
// the first to ask.
type fact[V any] struct {
	answer[V]
	// later are the answers of views of Later that have another one.
	later facts[time.Duration, V]
}

type answer[V any] struct {
	once  sync.Once
	value V
	// left is what ends some time: see View.Left.
	left sets.Set[time.Duration]
}

// of is the answer for a view like v that later has passed for.
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

// facts are one for each key.
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
