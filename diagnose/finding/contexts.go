package finding

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Everything is the kind of a gap for a whole cluster that could not be read.
const Everything snapshot.Kind = "*"

// Merge makes one report of those on several clusters, each under its source's context, without
// what leaveOut hides. It has the time of the oldest one. same maps each context that was not
// examined to the one with the same server and user.
func Merge(reports []*Report, same map[string]string, leaveOut LeaveOut) *Report {
	all := &Report{
		APIVersion: APIVersion, Kind: "Report", Complete: true, SameContexts: same,
		Sources: []snapshot.Source{}, Gaps: []snapshot.Gap{}, SkippedChecks: []SkippedCheck{}, Checks: []Code{},
		Findings: []Finding{}, Waiting: []Waiting{}, Volumes: []VolumeRecord{}, Scope: Scope{Objects: map[snapshot.Kind]int{}},
	}
	for _, r := range reports {
		r := r.in(r.Source.Context)
		switch {
		case r.TakenAt.IsZero(): // that cluster could not be reached
		case all.TakenAt.IsZero():
			all.TakenAt, all.KubernetesVersion = r.TakenAt, r.KubernetesVersion
		default:
			if r.TakenAt.Before(&all.TakenAt) {
				all.TakenAt = r.TakenAt
			}
			if r.KubernetesVersion != all.KubernetesVersion {
				all.KubernetesVersion = "" // each source has its own
			}
		}
		all.Complete = all.Complete && r.Complete
		all.Sources = append(all.Sources, r.Source)
		all.Gaps = append(all.Gaps, r.Gaps...)
		all.SkippedChecks = append(all.SkippedChecks, r.SkippedChecks...)
		all.Checks = append(all.Checks, r.Checks...)
		all.Findings = append(all.Findings, r.Findings...)
		all.Waiting = append(all.Waiting, r.Waiting...)
		all.OmittedCauses = append(all.OmittedCauses, r.OmittedCauses...)
		all.Volumes = append(all.Volumes, r.Volumes...)
		for kind, n := range r.Scope.Objects {
			all.Scope.Objects[kind] += n
		}
		for _, pod := range r.Scope.PodsOnSilentNodes {
			all.Scope.PodsOnSilentNodes = append(all.Scope.PodsOnSilentNodes, pod+" in "+r.Source.Context)
		}
		for _, name := range r.Scope.AttachedToNoNode {
			all.Scope.AttachedToNoNode = append(all.Scope.AttachedToNoNode, name+" in "+r.Source.Context)
		}
		all.Suppressed += r.Suppressed
		all.SuppressedBy = cmp.Or(all.SuppressedBy, r.SuppressedBy)
		all.Known += r.Known
	}
	all.Scope.PodsWithAttachedVolume = withAttached(reports)
	slices.Sort(all.Checks)
	all.Checks = slices.Compact(all.Checks)
	all.Scope.Checks = len(all.Checks)
	slices.SortStableFunc(all.Volumes, func(a, b VolumeRecord) int { return cmp.Compare(a.Volume, b.Volume) })
	all.recount()
	return all.Without(leaveOut)
}

// withAttached is the sum of Scope.PodsWithAttachedVolume; nil unless it is known of each.
func withAttached(reports []*Report) *int {
	sum := 0
	for _, r := range reports {
		if r.Scope.PodsWithAttachedVolume == nil {
			return nil
		}
		sum += *r.Scope.PodsWithAttachedVolume
	}
	return &sum
}

// in is the report with the cluster entered in each of its parts, and in the messages that
// people read.
func (r Report) in(context string) Report {
	r.Findings, r.OmittedCauses, r.Waiting = slices.Clone(r.Findings), slices.Clone(r.OmittedCauses), slices.Clone(r.Waiting)
	r.Gaps, r.SkippedChecks, r.Volumes = slices.Clone(r.Gaps), slices.Clone(r.SkippedChecks), slices.Clone(r.Volumes)
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Context = context
		f.Message = InContext(context, f.Message)
		f.Fingerprint, f.CausedBy = fingerprintIn(context, f.Fingerprint), fingerprintIn(context, f.CausedBy)
	}
	for i := range r.OmittedCauses {
		c := &r.OmittedCauses[i]
		c.Message = InContext(context, c.Message)
		c.Fingerprint = fingerprintIn(context, c.Fingerprint)
	}
	for i := range r.Waiting {
		r.Waiting[i].Context = context
	}
	for i := range r.Gaps {
		r.Gaps[i].Context = context
	}
	for i := range r.SkippedChecks {
		r.SkippedChecks[i].Context = context
	}
	for i := range r.Volumes {
		r.Volumes[i].Context = context
	}
	return r
}

// InContext is the message with the cluster that it is about.
func InContext(context, message string) string { return fmt.Sprintf("in %s: %s", context, message) }

// fingerprintIn distinguishes equal findings of two clusters: an object without a UID, such as a
// missing node, may have the same name in both.
func fingerprintIn(context, fingerprint string) string {
	if fingerprint == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(context + "\x00" + fingerprint))
	return hex.EncodeToString(sum[:8])
}
