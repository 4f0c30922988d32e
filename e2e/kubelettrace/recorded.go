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

// Recorded is a look at a machine with which the model agreed, so that a later model can be
// compared with the same kubelet without running it.
type Recorded struct {
	Release string `json:"release"`
	Node    string `json:"node"`
	// When is what had happened to the machine.
	When string `json:"when"`
	// Snapshot is the API server's objects, in the command's format.
	Snapshot string        `json:"snapshot"`
	Pods     []RecordedPod `json:"pods"`
	// Listed reports whether the kubelet's volumes in use are compared, too. Answer is the
	// machine's answer, and Registered are the drivers that its CSINode lists.
	Listed     bool        `json:"listed"`
	Answer     wire.Answer `json:"answer"`
	Registered []string    `json:"registered"`
}

// RecordedPod is a pod that was compared.
type RecordedPod struct {
	Pod     types.NamespacedName `json:"pod"`
	Volumes []Volume             `json:"volumes"`
	Truth   map[string]Truth     `json:"truth"`
	// MayCome reports whether it would be wrong to call the pod stuck.
	MayCome bool `json:"mayCome"`
}

// record makes the record of a look at the snapshot.
func record(s *snapshot.Snapshot, release, node, when string) (Recorded, error) {
	var text bytes.Buffer
	if err := snapshot.Write(&text, s); err != nil {
		return Recorded{}, err
	}
	return Recorded{Release: release, Node: node, When: when, Snapshot: text.String()}, nil
}

// Compare compares the present model with the look, and returns the number of compared
// volumes and where the model is wrong.
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

// mayCome is the text about a verdict that says stuck too early.
const mayCome = "it may still come, and the verdict is stuck: "

// looksFile has one look a line.
const looksFile = "testdata/looks.json.gz"

// looksOf identifies the code that draws the states, that replays them with the kubelets of
// the releases, and that determines the truth. It must be called in the package's folder.
func looksOf() (string, error) {
	return recorded.Fingerprint("generate.go", "world.go", "machine.go", "hold.go", "migrated.go", "kubelet.go", "truth.go", "../conformance/build.go", "../conformance/kubelets.go",
		"../kubeletoracle/*.go", "../kubeletoracle/*/*.go", "../kubeletoracle/*.mod", "../oracle/*.mod")
}

// Recorder writes looks to looksFile, from any goroutine. A nil one writes nothing.
type Recorder struct {
	mu   sync.Mutex
	file *recorded.Writer
}

// NewRecorder creates the file.
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

// Close finishes the file.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	return r.file.Close()
}

// forRecord is the answer of a machine without the parts that nothing compares.
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
