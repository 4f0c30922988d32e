package facts

import (
	"fmt"
	"regexp"
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

// DriverSays returns the meaning of a driver's message; false where it is not known. Only package
// driverwords interprets messages; the entry's Layer is how the meaning is known.
func DriverSays(driver, message string) (driverwords.Entry, bool) {
	return driverwords.Read(driver, message)
}

// MountSays is the same for a failed mount. Where a driver mounts the volume and has not answered, the
// kubelet speaks, and only words of Kubernetes' own programs count, unless it passes on an error of the
// volume's files. A meaning that was guessed from plain words does not count where the kubelet itself
// speaks: its table has the meaning. Nor does it count where the kubelet makes the volume itself: no
// storage system speaks then.
func MountSays(table []kubeletwords.Word, message string, whose Whose) (driverwords.Entry, bool) {
	entry, known := DriverSays(whose.Driver, message)
	word, found := kubeletwords.Find(table, message)
	answered := kubeletwords.DriverAnswered(message)
	own := found && word.Speaker == kubeletwords.Kubelet && !word.Wraps && !answered
	ofKubelet := whose.Driver != "" && !answered && !word.Wraps && !entry.Kubernetes
	if word.Own || ofKubelet || !entry.Layer.Sure() && (own || whose.NoStorage) {
		return driverwords.Entry{}, false
	}
	return entry, known
}

// KnownFrom is how the meaning of an entry is known, for a report; lookUps are the clauses
// about the objects that the message names.
func KnownFrom(entry driverwords.Entry, lookUps ...string) *finding.KnownFrom {
	return &finding.KnownFrom{Layer: string(entry.Layer), Entry: entry.Words, Meaning: string(entry.Meaning), LookUps: lookUps}
}

// Means reports whether the driver's message has one of the meanings.
func Means(driver, message string, meanings ...driverwords.Meaning) bool {
	entry, known := DriverSays(driver, message)
	return known && slices.Contains(meanings, entry.Meaning)
}

// OwnCheck is where the driver's own entry for the message tells a person to look, as a clause; ""
// where it does not.
func OwnCheck(driver, message string) string {
	entry, known := DriverSays(driver, message)
	usual, _ := entry.Meaning.About()
	if !known || entry.Layer != driverwords.OwnWords || entry.Helps == usual.Helps || !strings.HasPrefix(entry.Helps, step.Check.Of()) {
		return ""
	}
	return Clause(entry.Helps)
}

// AttachRefusal returns the meaning of an attach's error; false where it is not known. The CSI
// specification reserves the code ResourceExhausted of ControllerPublishVolume for a node that
// can take no more volumes, but the message beside it may say otherwise.
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

// MayHaveEnded is the attachment, where the cause of its error may have ended by itself: a detach
// elsewhere that has succeeded since. Otherwise it is nil, as any other cause of an attach error
// ends only when somebody acts.
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

// MayBeDetached reports whether the driver did not find the volume or the node, as after a detach
// that has already succeeded.
func MayBeDetached(driver, message string) bool {
	return Means(driver, message, driverwords.VolumeNotFound, driverwords.ObjectNotFound, driverwords.NotAttached, driverwords.NodeUnknown, driverwords.MachineGone)
}

// WhoDetaches is who has to act after the error of a detach; "" where its message does not show
// it.
func WhoDetaches(driver, message string) string {
	entry, known := DetachMeans(driver, message)
	if !known || MayBeDetached(driver, message) {
		return ""
	}
	return WhoActs(entry)
}

// Throttled reports whether the driver reports that a provider, or the API server's client,
// limits its calls.
func Throttled(driver, message string) bool {
	return Means(driver, message, driverwords.Throttled)
}

// Unanswered reports whether the driver reports that a call has no answer or is still under
// way. A storage system that is merely slow causes the same.
func Unanswered(driver, message string) bool {
	return Means(driver, message, driverwords.TimedOut, driverwords.DriverUnavailable, driverwords.Unreachable, driverwords.OperationPending)
}

// CallGrace is how long a driver may take whose calls end with the message.
func CallGrace(driver, message string) time.Duration {
	if Unanswered(driver, message) {
		return NoAnswerGrace
	}
	return RefusalGrace
}

// MachineNotFound reports whether a driver, or its attacher, does not find the node or its
// machine. A missing volume or secret does not count. Guards rely on it: the meaning of another
// driver's message does not count either.
func MachineNotFound(driver, message string) bool {
	entry, known := DriverSays(driver, message)
	if entry.Layer == driverwords.OthersWords {
		entry, known = driverwords.Plain(message)
	}
	return known &&
		slices.Contains([]driverwords.Meaning{driverwords.NodeUnknown, driverwords.MachineGone, driverwords.NotRegistered}, entry.Meaning)
}

// HeldElsewhere reports whether a driver refuses an attach because another machine has the
// volume. The CSI specification has the code FailedPrecondition of ControllerPublishVolume for
// that, which counts where the message is not known.
func HeldElsewhere(driver, message string) bool {
	entry, known := DriverSays(driver, message)
	if !known || entry.Wrapper {
		return ContainsAny(message, "code = FailedPrecondition")
	}
	return entry.Meaning == driverwords.AttachedElsewhere || entry.Meaning == driverwords.MultiAttach
}

// Clause makes a sentence part of another one: without its full stop, and beginning in lower
// case unless it begins with an abbreviation.
func Clause(sentence string) string {
	sentence = strings.TrimSuffix(sentence, ".")
	if mark, rest, _ := strings.Cut(sentence, "} "); strings.HasPrefix(mark, "{") && rest != "" {
		return mark + "} " + Clause(rest)
	}
	if len(sentence) > 1 && (sentence[1] < 'A' || sentence[1] > 'Z') {
		return strings.ToLower(sentence[:1]) + sentence[1:]
	}
	return sentence
}

// Heals reports whether an error that has lasted for that time usually ends by itself. After
// StuckDeleting none does.
func Heals(entry driverwords.Entry, lasts time.Duration) bool {
	return entry.Actor.Heals() && lasts < StuckDeleting
}

// Helps is the advice about an error that has lasted for that time. It advises to wait only until
// the usual end.
func Helps(entry driverwords.Entry, lasts time.Duration) string {
	if entry.Actor.Heals() && !Heals(entry, lasts) {
		if past := step.PastWait(Clause(entry.Helps)); !slices.Contains(step.Marks(past), step.Mark{Kind: step.Wait}) {
			return past
		}
		return step.ReadLog.Of() + " for what keeps it"
	}
	return Clause(entry.Helps)
}

// OfController makes an advice about a call to the driver's node plugin one about a call to its
// controller.
func OfController(helps string) string {
	return strings.NewReplacer(step.ReadLog.Of(), step.ReadLog.Of("controller"), step.Place.Of(), step.Place.Of("controller")).Replace(helps)
}

// WhatItMeans is the entry's meaning and who has to act, as a clause about an error that has
// lasted for that time.
func WhatItMeans(entry driverwords.Entry, lasts time.Duration) string {
	return Acting(WhatItSays(entry, lasts), WhoActs(entry))
}

// theNode matches the words for a finding's node in an advice. Behind a noun, "on the node that"
// means another one.
var theNode = regexp.MustCompile(`(?i)\b((?:check|count|find|look|read|see) )?((?:on|of|to|cordon) )(?:the|this) node\b( that\b)?`)

// nodeNamed names the finding's node in its advice, once.
func nodeNamed(advice string, node types.NodeName) string {
	named := node == ""
	return theNode.ReplaceAllStringFunc(advice, func(words string) string {
		m := theNode.FindStringSubmatch(words)
		if named || m[1] == "" && m[3] != "" {
			return words
		}
		named = true
		return m[1] + m[2] + string(node) + m[3]
	})
}

// Acting adds who has to act to a sentence, where that is known.
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
		says += ", if it means what another driver means by these words"
	case entry.Layer == driverwords.PlainWords:
		says += ", as its plain words read"
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

// RefusedAttach is an attach that a driver has refused for longer than a slow start explains,
// with the pods that wait for it.
type RefusedAttach struct {
	Task
	Pair reconcile.VolumeNode
	Pods []*corev1.Pod
	// Waits is when the first of the pods began to wait for the attach.
	Waits metav1.Time
}

// RefusedAttaches are the driver's refused attaches, the oldest first. An error that is older
// than the longest pause between two attempts does not count: nobody tries any more, which is
// another failure.
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
