package facts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// DriverSays returns what a message of the driver means, and false where nothing
// is known about its words. The package driverwords is the only reader of words; the
// entry's Layer is how it knows.
func DriverSays(driver, message string) (driverwords.Entry, bool) {
	return driverwords.Read(driver, message)
}

// MountSays is the same of a failed mount. What only the plain words of the kubelet's own
// would say of a storage system, they do not: its table has what it means by them, and
// where it makes the volume itself, of a ConfigMap or on the node, no storage system speaks.
func MountSays(table []kubeletwords.Word, message string, whose Whose) (driverwords.Entry, bool) {
	entry, known := DriverSays(whose.Driver, message)
	word, found := kubeletwords.Find(table, message)
	own := found && word.Speaker == kubeletwords.Kubelet && !word.Wraps && !kubeletwords.DriverAnswered(message)
	if !entry.Layer.Sure() && (own || whose.NoStorage) {
		return driverwords.Entry{}, false
	}
	return entry, known
}

// KnownFrom is how the meaning of an entry is known, for a report; lookUps are what the
// objects say of what the message names.
func KnownFrom(entry driverwords.Entry, lookUps ...string) *finding.KnownFrom {
	return &finding.KnownFrom{Layer: string(entry.Layer), Entry: entry.Words, Meaning: string(entry.Meaning), LookUps: lookUps}
}

// Means reports whether the driver's message has one of the meanings.
func Means(driver, message string, meanings ...driverwords.Meaning) bool {
	entry, known := DriverSays(driver, message)
	return known && slices.Contains(meanings, entry.Meaning)
}

// AttachRefusal returns what the error of an attach means, and false where nothing
// is known about its words. The CSI specification keeps the code
// ResourceExhausted of ControllerPublishVolume for a node that can take no more
// volumes; the words beside it may say otherwise.
func AttachRefusal(driver string, e *storagev1.VolumeError) (driverwords.Entry, bool) {
	if e == nil {
		return driverwords.Entry{}, false
	}
	entry, known := DriverSays(driver, e.Message)
	exhausted := e.ErrorCode != nil && *e.ErrorCode == ResourceExhausted || strings.Contains(e.Message, "code = ResourceExhausted")
	if exhausted && (!known || entry.Wrapper || !entry.Layer.Sure() && entry.Meaning == driverwords.QuotaReached) {
		about, _ := driverwords.AttachLimit.About()
		return driverwords.Entry{Words: "ResourceExhausted", Meaning: driverwords.AttachLimit, Actor: about.Actor, Helps: about.Helps, Layer: driverwords.CodeAlone}, true
	}
	return entry, known
}

// WhoAttaches is who has to act after the error of an attach, "" where its words do not
// tell, or tell of what may have ended since.
func (p *View) WhoAttaches(va *storagev1.VolumeAttachment) string {
	e := p.AttachError(va)
	entry, known := AttachRefusal(va.Spec.Attacher, e)
	if !known || !p.StillRefused(e) || p.attachedElsewhere(va) && HeldElsewhere(va.Spec.Attacher, e.Message) || p.MayHaveEnded(va, e) != nil {
		return ""
	}
	return WhoActs(entry)
}

// MayHaveEnded is the VolumeAttachment where what its error says may have ended since then
// although nobody has acted: a detach that was under way elsewhere has succeeded. Else it
// is nil. What else drivers say of an attach, only somebody who acts ends.
func (p *View) MayHaveEnded(va *storagev1.VolumeAttachment, e *storagev1.VolumeError) *Attachment {
	volume, err := p.World.AttachmentVolume(va)
	if err != nil || !HeldElsewhere(va.Spec.Attacher, e.Message) {
		return nil
	}
	held := &Attachment{VolumeAttachment: va, VolumeNode: reconcile.VolumeNode{Volume: volume, Node: types.NodeName(va.Spec.NodeName)}}
	if p.RefusedAlone(*held) {
		return nil
	}
	return held
}

// attachedElsewhere reports whether another node has a VolumeAttachment of the volume.
func (p *View) attachedElsewhere(va *storagev1.VolumeAttachment) bool {
	volume, err := p.World.AttachmentVolume(va)
	return err == nil && slices.ContainsFunc(p.AttachmentsOf(volume), func(other Attachment) bool { return other.Name != va.Name })
}

// MayBeDetached reports whether the words of a detach that failed are those of a driver
// that does not find the volume or the node, as where it has detached it already.
func MayBeDetached(driver, message string) bool {
	return Means(driver, message, driverwords.VolumeNotFound, driverwords.ObjectNotFound, driverwords.NotAttached, driverwords.NodeUnknown, driverwords.MachineGone)
}

// WhoDetaches is who has to act after the error of a detach, "" where its words do not
// tell.
func WhoDetaches(driver, message string) string {
	entry, known := DriverSays(driver, message)
	if !known || MayBeDetached(driver, message) {
		return ""
	}
	return WhoActs(entry)
}

// Throttled reports whether a driver says that a provider, or the API server's
// client, lets it make fewer calls than it would.
func Throttled(driver, message string) bool {
	return Means(driver, message, driverwords.Throttled)
}

// Unanswered reports whether a driver says that a call has no answer, or is still
// under way. A storage system that is only slow says the same.
func Unanswered(driver, message string) bool {
	return Means(driver, message, driverwords.TimedOut, driverwords.DriverUnavailable, driverwords.Unreachable, driverwords.OperationPending)
}

// CallGrace is how long a driver is granted whose calls have so far ended with the message.
func CallGrace(driver, message string) time.Duration {
	if Unanswered(driver, message) {
		return NoAnswerGrace
	}
	return RefusalGrace
}

// MachineNotFound reports whether a driver, or its attacher, says that it does not
// find the node or its machine. A volume or a secret that is missing is another
// matter. Guards rely on it: another driver's words do not count.
func MachineNotFound(driver, message string) bool {
	entry, known := DriverSays(driver, message)
	if entry.Layer == driverwords.OthersWords {
		entry, known = driverwords.Plain(message)
	}
	return known &&
		slices.Contains([]driverwords.Meaning{driverwords.NodeUnknown, driverwords.MachineGone, driverwords.NotRegistered}, entry.Meaning)
}

// HeldElsewhere reports whether a driver refuses an attach because another machine
// has the volume. For that the CSI specification has the code FailedPrecondition of
// ControllerPublishVolume, which counts where nothing is known about the words.
func HeldElsewhere(driver, message string) bool {
	entry, known := DriverSays(driver, message)
	if !known || entry.Wrapper {
		return ContainsAny(message, "code = FailedPrecondition")
	}
	return entry.Meaning == driverwords.AttachedElsewhere || entry.Meaning == driverwords.MultiAttach
}

// Clause makes a sentence part of another one: without its full stop, and in lower
// case unless it begins with an abbreviation.
func Clause(sentence string) string {
	sentence = strings.TrimSuffix(sentence, ".")
	if rest, marked := strings.CutPrefix(sentence, step.Check.Of()+" "); marked {
		return step.Check.Of() + " " + Clause(rest)
	}
	if len(sentence) > 1 && (sentence[1] < 'A' || sentence[1] > 'Z') {
		return strings.ToLower(sentence[:1]) + sentence[1:]
	}
	return sentence
}

// Heals reports whether an error that has lasted for the time usually ends without
// anybody's help. One that lasts longer than a storage system may take does not,
// whatever it is.
func Heals(entry driverwords.Entry, lasts time.Duration) bool {
	return entry.Actor.Heals() && lasts < StuckDeleting
}

// Helps is what helps with an error that has lasted for the time: past the usual end of what
// ends by itself nobody waits.
func Helps(entry driverwords.Entry, lasts time.Duration) string {
	if entry.Actor.Heals() && !Heals(entry, lasts) {
		return step.PastWait(Clause(entry.Helps))
	}
	return Clause(entry.Helps)
}

// OfController makes the log that an advice tells to read that of the driver's controller.
func OfController(helps string) string {
	return strings.ReplaceAll(helps, step.ReadLog.Of(), step.ReadLog.Of("controller"))
}

// WhatItMeans is the entry's meaning and who has to act, as a part of a sentence
// about an error that has lasted for the time.
func WhatItMeans(entry driverwords.Entry, lasts time.Duration) string {
	return Acting(WhatItSays(entry, lasts), WhoActs(entry))
}

// Acting adds to a sentence who has to act, where that is known.
func Acting(says, actor string) string {
	if actor == "" {
		return says
	}
	return says + "; " + actor + " has to act"
}

// WhatItSays is the entry's meaning, and whether it ends by itself.
func WhatItSays(entry driverwords.Entry, lasts time.Duration) string {
	about, _ := entry.Meaning.About()
	says := Clause(about.Says)
	switch {
	case entry.Wrapper && entry.Meaning == driverwords.StorageError:
		says = fmt.Sprintf("it failed (%q)", entry.Words)
	case entry.Layer == driverwords.OthersWords:
		says += fmt.Sprintf(", as %s means by the same words", entry.Driver())
	case entry.Layer == driverwords.PlainWords:
		says += ", going by its plain words"
	}
	switch {
	case Heals(entry, lasts):
		return says + "; that usually ends by itself"
	case entry.Actor.Heals():
		return fmt.Sprintf("%s; that usually ends by itself, and has not for %s", says, Rounded(lasts))
	default:
		return says
	}
}

// RefusedAttach is an attach that a driver has refused for longer than a slow
// start explains, and the pods that have waited for it as long.
type RefusedAttach struct {
	Task
	Pair reconcile.VolumeNode
	Pods []*corev1.Pod
	// Waits is when the first of the pods began to wait for it.
	Waits metav1.Time
}

// RefusedAttaches are the driver's attaches that failed, the oldest first. An error that is
// older than the longest pause between two attempts is not among them: nobody
// asks any more, which is another failure.
func (p *View) RefusedAttaches(driver string) []RefusedAttach {
	var list []RefusedAttach
	for _, t := range p.Tasks(driver) {
		pair, ok := p.TaskPair(t)
		if t.DeletionTimestamp != nil || !p.StillRefused(t.Failure) || !ok {
			continue
		}
		pods := slices.DeleteFunc(p.WaitingHere(pair), func(pod *corev1.Pod) bool {
			return p.Age(Latest(BoundAt(pod), t.CreationTimestamp)) <= CallGrace(driver, t.Failure.Message)
		})
		if len(pods) > 0 {
			list = append(list, RefusedAttach{t, pair, pods, Latest(BoundAt(pods[0]), t.CreationTimestamp)})
		}
	}
	return list
}
