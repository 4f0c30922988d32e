package diagnose

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// APIVersion is that of every document that volume-doctor writes.
const APIVersion = "volume-doctor/v1"

// Report is what every output format prints. Its JSON is a contract: fields
// are added, never changed.
type Report struct {
	APIVersion        string          `json:"apiVersion"`
	Kind              string          `json:"kind"`
	TakenAt           metav1.Time     `json:"takenAt"`
	KubernetesVersion string          `json:"kubernetesVersion,omitempty"`
	Source            snapshot.Source `json:"source"`
	// Sources are the clusters of a report on several, in place of Source.
	Sources []snapshot.Source `json:"sources,omitempty"`
	// Complete says that everything was read: there are no gaps.
	Complete      bool           `json:"complete"`
	Gaps          []snapshot.Gap `json:"gaps"`
	SkippedChecks []SkippedCheck `json:"skippedChecks"`
	// Checks are the codes of the checks that ran, in their order.
	Checks  []Code  `json:"checks"`
	Summary Summary `json:"summary"`
	// Suppressed counts the findings that somebody has decided to live with, and
	// Known those that the baseline has already. Neither are among Findings.
	Suppressed int `json:"suppressed,omitempty"`
	Known      int `json:"known,omitempty"`
	// Findings are sorted: errors first, then what most follows from, then by code
	// and subject. What follows from another stands behind it, and lends it its
	// severity.
	Findings []Finding `json:"findings"`
	// OmittedCauses are what the CausedBy of a narrowed report names beyond it.
	OmittedCauses []OmittedCause `json:"omittedCauses,omitempty"`
	// Volumes are what the objects say of the volumes that findings are about;
	// sorted.
	Volumes []VolumeRecord `json:"volumes"`
}

// OmittedCause is a finding that another one follows from and that nobody asked
// for.
type OmittedCause struct {
	Code        Code     `json:"code"`
	Check       string   `json:"check"`
	Severity    Severity `json:"severity"`
	Message     string   `json:"message"`
	Subject     Object   `json:"subject"`
	Fingerprint string   `json:"fingerprint"`
}

// SkippedCheck is a check that a gap kept from running.
type SkippedCheck struct {
	Code  Code   `json:"code"`
	Check string `json:"check"`
	// Because is the first kind that it needs and that was not read.
	Because snapshot.Kind `json:"because"`
	// Context is the cluster, in a report on several.
	Context string `json:"context,omitempty"`
}

// Summary counts the findings by severity.
type Summary struct {
	Error   int `json:"error"`
	Warning int `json:"warning"`
	Info    int `json:"info"`
}

// Object names an API object.
type Object struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
}

// String is the object as kubectl takes it, with its namespace before it.
func (o Object) String() string {
	name := strings.ToLower(o.Kind) + "/" + o.Name
	if o.Namespace != "" {
		return o.Namespace + " " + name
	}
	return name
}

// Finding is one failure, with all that a person needs to act on it. Fields
// that do not apply are empty.
type Finding struct {
	Code     Code     `json:"code"`
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Context is the cluster, in a report on several.
	Context string `json:"context,omitempty"`
	// Message is one sentence that says what is wrong and where.
	Message string `json:"message"`
	// Cause says how it came about, as far as the objects show.
	Cause string `json:"cause,omitempty"`
	// UpstreamBug is the bug of Kubernetes behind it where the release has one.
	UpstreamBug *UpstreamBug `json:"upstreamBug,omitempty"`
	Subject     Object       `json:"subject"`

	Volume corev1.UniqueVolumeName `json:"volume,omitempty"`
	Node   types.NodeName          `json:"node,omitempty"`
	// Holder is another node that has the volume and keeps it from Node.
	Holder           types.NodeName `json:"holder,omitempty"`
	PersistentVolume string         `json:"persistentVolume,omitempty"`
	VolumeAttachment string         `json:"volumeAttachment,omitempty"`
	// Pods are the pods that wait or would suffer, as namespace/name; sorted.
	Pods []string `json:"pods,omitempty"`
	// Workloads made the pods, as namespace/Kind/name; sorted.
	Workloads []string `json:"workloads,omitempty"`
	// Claims lead the pods to the volume, as namespace/name; sorted.
	Claims []string `json:"claims,omitempty"`

	// Since is when it began, or the earliest moment that the objects prove.
	Since     *metav1.Time `json:"since,omitempty"`
	Evidence  []Evidence   `json:"evidence"`
	SelfHeals SelfHeals    `json:"selfHeals"`
	// Advice is what a person does about it where no Repair can.
	Advice string `json:"advice,omitempty"`
	// Repair is null where nothing that this tool writes can help.
	Repair *Repair `json:"repair"`
	// Fingerprint names the finding across runs: it is made of the code, the
	// subject with its UID, the volume and the node.
	Fingerprint string `json:"fingerprint"`
	// CausedBy is the fingerprint of the nearest finding that this one follows
	// from; where one cause shows in many findings and has none of its own, that
	// is the one which stands for it.
	CausedBy string `json:"causedBy,omitempty"`
	// Consequences counts the findings of the report that follow from this one,
	// directly or not.
	Consequences int `json:"consequences,omitempty"`
}

// Pair is the volume and node that the finding is about.
func (f Finding) Pair() reconcile.VolumeNode {
	return reconcile.VolumeNode{Volume: f.Volume, Node: f.Node}
}

// Evidence is one fact that the finding rests on.
type Evidence struct {
	// Object is "kind/name", with the namespace between them where it has one.
	Object string `json:"object"`
	Field  string `json:"field"`
	Value  string `json:"value"`
}

// SelfHeals says whether the finding goes away by itself.
type SelfHeals struct {
	Will bool `json:"will"`
	// After is the time from the snapshot, as Go writes durations; "" where no
	// bound is known.
	After   string `json:"after"`
	Because string `json:"because"`
}

// Repair is the correction that --apply would make.
type Repair struct {
	Kind       string `json:"kind"`
	Risk       string `json:"risk"`
	Reversible bool   `json:"reversible"`
	// BlockedBy is the guard that refuses the repair now, and why.
	BlockedBy string `json:"blockedBy"`
	// Commands do the same by hand.
	Commands []string `json:"commands"`
	// Lower are the less risky kinds of repair that were passed over, and why.
	Lower []LowerRung `json:"lower,omitempty"`
}

// LowerRung is a kind of repair that will not do for a finding.
type LowerRung struct {
	Kind    string `json:"kind"`
	Because string `json:"because"`
}

func fingerprint(f Finding) string {
	parts := []string{string(f.Code), f.Subject.String(), string(f.Subject.UID), string(f.Volume), string(f.Node)}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}
