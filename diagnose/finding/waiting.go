package finding

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WaitState says whether a pod waits for a volume.
type WaitState string

// The answers.
const (
	NoWait   WaitState = "none"      // it waits for no volume
	InFlight WaitState = "in-flight" // it waits, not longer than is usual
	Stuck    WaitState = "stuck"     // it waits for longer than is usual, or in vain
	Unsure   WaitState = "unknown"   // what could be read does not tell
)

// Waiting is a pod that waits for a volume, or whose end waits for one.
type Waiting struct {
	// Context is the cluster, in a report on several.
	Context string `json:"context,omitempty"`
	// Pod is namespace/name.
	Pod     string    `json:"pod"`
	Node    string    `json:"node,omitempty"`
	Verdict WaitState `json:"verdict"`
	// Volume is the pod's own name of the volume that it waits for.
	Volume string `json:"volume,omitempty"`
	// Volumes are all that it may wait for, where no object tells for which.
	Volumes []string `json:"volumes,omitempty"`
	Stage   string   `json:"stage,omitempty"`
	// Stages are all that it may be in, where no object tells in which.
	Stages []string `json:"stages,omitempty"`
	// Actor is who has to act, and Said the words of those who work on it.
	Actor string       `json:"actor,omitempty"`
	Said  string       `json:"said,omitempty"`
	Since *metav1.Time `json:"since,omitempty"`
	// DueAt is when a wait that is in flight counts as stuck.
	DueAt *metav1.Time `json:"dueAt,omitempty"`
	// Findings are the fingerprints of those that name the pod.
	Findings []string `json:"findings"`
}

// About are the pods that the finding names, as namespace/name.
func (f Finding) About() []string {
	if f.Subject.Kind != "Pod" {
		return f.Pods
	}
	if subject := f.Subject.Namespace + "/" + f.Subject.Name; !slices.Contains(f.Pods, subject) {
		return append(slices.Clone(f.Pods), subject)
	}
	return f.Pods
}

// Names reports whether the finding is about the pod.
func (f Finding) Names(pod string) bool { return slices.Contains(f.About(), pod) }

// nameFindings writes into each entry the findings that the report has about its
// pod.
func (r *Report) nameFindings() {
	about := map[string][]string{}
	for _, f := range r.Findings {
		for _, pod := range f.About() {
			key := f.Context + " " + pod
			about[key] = append(about[key], f.Fingerprint)
		}
	}
	for i, w := range r.Waiting {
		r.Waiting[i].Findings = append([]string{}, about[w.Context+" "+w.Pod]...)
	}
}

// KeepWaiting is the report with the entries for which keep is true alone.
func (r *Report) KeepWaiting(keep func(Waiting) bool) *Report {
	kept := *r
	kept.Waiting = slices.DeleteFunc(slices.Clone(r.Waiting), func(w Waiting) bool { return !keep(w) })
	return &kept
}

// WaitingFor are the entries that any of the findings names.
func (r *Report) WaitingFor(findings []Finding) []Waiting {
	in := fingerprints(findings)
	var pods []Waiting
	for _, w := range r.Waiting {
		if in.HasAny(w.Findings...) {
			pods = append(pods, w)
		}
	}
	return pods
}

// LongestWait is the entry that began first, as far as that is known; a zero entry of
// none.
func LongestWait(pods []Waiting) Waiting {
	var first Waiting
	for i, w := range pods {
		if i == 0 || w.Since != nil && (first.Since == nil || w.Since.Before(first.Since)) {
			first = w
		}
	}
	return first
}
