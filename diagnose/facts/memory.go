package facts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// ControllerLog is the object of evidence from the controller's log.
const ControllerLog = finding.ControllerLog

// Remembered is the evidence of the controller's log about the pair, without what the objects
// contradict and what is over.
func (p *View) Remembered(pair reconcile.VolumeNode) []finding.Evidence {
	memory := p.World.Memory
	known := memory.Pair(pair)
	if known == nil {
		return nil
	}
	var list []finding.Evidence
	add := func(field, format string, args ...any) {
		list = append(list, finding.Evidence{Object: ControllerLog, Field: field, Value: fmt.Sprintf(format, args...)})
	}
	at := func(t *time.Time) string { return Stamp(metav1.NewTime(*t)) }
	if known.Since != nil && !p.contradicts(pair, known) {
		states := make([]string, 0, len(known.States))
		for _, s := range known.States {
			states = append(states, string(s))
		}
		add("remembers it as", "%s since %s", strings.Join(states, " or "), at(known.Since))
	}
	if known.RunningSince != nil {
		add("at work", "%s since %s", known.Running, at(known.RunningSince))
	}
	if known.LastErrorAt != nil {
		add("last error", "at %s: %s", at(known.LastErrorAt), known.LastError)
	}
	for _, operation := range []snapshot.Operation{snapshot.AttachOperation, snapshot.DetachOperation} {
		if next := memory.NextAttempt(pair, operation); !next.IsZero() {
			add("next attempt", "%s not before %s", operation, Stamp(metav1.NewTime(next)))
		}
	}
	if len(list) > 0 {
		add("as of", "%s, its last line", Stamp(metav1.NewTime(memory.Last)))
	}
	return list
}

// contradicts reports whether the objects have an attachment that is detached by the log: a
// detach ends with the deletion of its VolumeAttachment.
func (p *View) contradicts(pair reconcile.VolumeNode, known *snapshot.RememberedPair) bool {
	va := p.Snapshot.VolumeAttachment(AttachmentName(pair))
	return va != nil && va.CreationTimestamp.Time.Before(*known.Since) && slices.Equal(known.States, []snapshot.Remembered{snapshot.RememberedAbsent})
}
