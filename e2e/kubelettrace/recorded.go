package kubelettrace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/recorded"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Recorded is a look at a machine with which the model agreed, so that a later one is held
// against the same kubelet without it.
type Recorded struct {
	Release string `json:"release"`
	Node    string `json:"node"`
	// When says what had happened to the machine.
	When string `json:"when"`
	// Snapshot is what the API server had, as the command writes it.
	Snapshot string        `json:"snapshot"`
	Pods     []RecordedPod `json:"pods"`
	// Listed says that what the kubelet had in use is compared, too. Answer is the
	// machine's, and Registered are the drivers that its CSINode lists.
	Listed     bool        `json:"listed"`
	Answer     wire.Answer `json:"answer"`
	Registered []string    `json:"registered"`
}

// RecordedPod is a pod that was compared.
type RecordedPod struct {
	Pod     types.NamespacedName `json:"pod"`
	Volumes []Volume             `json:"volumes"`
	Truth   map[string]Truth     `json:"truth"`
	// MayCome says that it would be wrong to call the pod stuck.
	MayCome bool `json:"mayCome"`
}

// record begins a look that was made of the snapshot.
func record(s *snapshot.Snapshot, release, node, when string) (Recorded, error) {
	var text bytes.Buffer
	if err := snapshot.Write(&text, s); err != nil {
		return Recorded{}, err
	}
	return Recorded{Release: release, Node: node, When: when, Snapshot: text.String()}, nil
}

// Compare holds the model that the program was built with against the look, and returns
// how many volumes it compared and where the model is wrong.
func (r Recorded) Compare() (volumes int, wrong []string, err error) {
	s, _, err := snapshot.Read("look.json", strings.NewReader(r.Snapshot), snapshot.ReadOptions{})
	if err != nil {
		return 0, nil, err
	}
	plan := planOf(s, r.Node, nil)
	for _, p := range r.Pods {
		pod := s.Pod(p.Pod)
		if pod == nil {
			return volumes, nil, fmt.Errorf("pod %s is not in the snapshot", p.Pod)
		}
		l := lookAt(s, pod, plan, nil, p.Truth)
		wrong = slices.Concat(wrong, l.Compare(p.Volumes), l.CompareRows(p.Volumes))
		if p.MayCome && l.Trace.Verdict.State == finding.Stuck {
			wrong = append(wrong, mayCome+l.Trace.Verdict.Message)
		}
		volumes += len(p.Volumes)
	}
	if r.Listed {
		rows, differ := CompareLeftovers(plan, seen{answer: r.Answer, registered: func(driver string) bool { return slices.Contains(r.Registered, driver) }}, false)
		volumes += rows
		wrong = append(wrong, differ...)
	}
	return volumes, wrong, nil
}

// mayCome is said of a verdict that is stuck too early.
const mayCome = "it may still come, and the verdict is stuck: "

// looksFile has one look a line.
const looksFile = "testdata/looks.json.gz"

// looksOf identifies what draws the states and has the kubelets of the releases live
// through them, and what tells the truth of it. It must be called in the package's folder.
func looksOf() (string, error) {
	return recorded.Fingerprint("generate.go", "world.go", "machine.go", "hold.go", "migrated.go", "kubelet.go", "truth.go", "../conformance/build.go",
		"../kubeletoracle/*.go", "../kubeletoracle/*/*.go", "../oracle/*.mod")
}

// Recorder writes looks to looksFile, from any goroutine. A nil one writes nothing.
type Recorder struct {
	mu   sync.Mutex
	file *recorded.Writer
}

// NewRecorder makes the file.
func NewRecorder() (*Recorder, error) {
	fingerprint, err := looksOf()
	if err != nil {
		return nil, err
	}
	file, err := recorded.Create(looksFile, fingerprint)
	return &Recorder{file: file}, err
}

// Add writes the look.
func (r *Recorder) Add(look Recorded) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Encode(look)
}

// Close ends the file.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	return r.file.Close()
}

// forRecord is the answer of a machine without what nobody compares.
func (s seen) forRecord() (answer wire.Answer, registered []string) {
	answer = wire.Answer{Calls: s.answer.Calls, Kubelet: &wire.Kubelet{InUse: slices.Clone(s.answer.Kubelet.InUse)}}
	if answer.Kubelet.InUse == nil {
		answer.Kubelet.InUse = []corev1.UniqueVolumeName{}
	}
	for _, driver := range drivers {
		if s.registered(driver) {
			registered = append(registered, driver)
		}
	}
	return answer, registered
}
