package finding

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WaitState is whether a pod waits for a volume.
type WaitState string

// The answers.
const (
	NoWait   WaitState = "none"      // it waits for no volume
	InFlight WaitState = "in-flight" // it waits, within the usual time
	Stuck    WaitState = "stuck"     // it waits beyond the usual time, or in vain
	Unsure   WaitState = "unknown"   // the objects that could be read do not show it
)

// Waiting is a pod that waits for a volume, or whose end waits for one.
type Waiting struct {
	// Context is the cluster, in a report on several.
	Context string `json:"context,omitempty"`
	// Pod is namespace/name.
	Pod     string    `json:"pod"`
	Node    string    `json:"node,omitempty"`
	Verdict WaitState `json:"verdict"`
	// Volume is the pod's name for the volume that it waits for.
	Volume string `json:"volume,omitempty"`
	// Volumes are all volumes that it may wait for, where no object shows which.
	Volumes []string `json:"volumes,omitempty"`
	Stage   string   `json:"stage,omitempty"`
	// Stages are all stages in which it may wait, where no object shows which.
	Stages []string `json:"stages,omitempty"`
	// Actor is who has to act, and Said is the last message about the wait.
	Actor string       `json:"actor,omitempty"`
	Said  string       `json:"said,omitempty"`
	Since *metav1.Time `json:"since,omitempty"`
	// DueAt is when a wait that is in flight will count as stuck.
	DueAt *metav1.Time `json:"dueAt,omitempty"`
	// Findings are the fingerprints of the findings that name the pod.
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

// nameFindings enters in each entry the findings of the report about its pod.
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

// KeepWaiting is the report with only the entries for which keep is true.
func (r *Report) KeepWaiting(keep func(Waiting) bool) *Report {
	kept := *r
	kept.Waiting = slices.DeleteFunc(slices.Clone(r.Waiting), func(w Waiting) bool { return !keep(w) })
	return &kept
}

// WaitingFor are the entries that list any of the findings.
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

// LongestWait is the entry that began first, as far as that is known; the zero value without
// entries.
func LongestWait(pods []Waiting) Waiting {
	var first Waiting
	for i, w := range pods {
		if i == 0 || w.Since != nil && (first.Since == nil || w.Since.Before(first.Since)) {
			first = w
		}
	}
	return first
}
