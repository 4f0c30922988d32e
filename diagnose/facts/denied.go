package facts

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Denial describes how the API server kept somebody from writing an object.
type Denial struct {
	Kind DenialKind
	// Name is the name of the policy or of the webhook; empty for DeniedByRole.
	Name string
	// Says is the reason in the API server's words; "" where it gave none.
	Says  string
	Event *corev1.Event
}

// DenialKind names the part of the API server that denies a request.
type DenialKind string

// The kinds of denials.
const (
	DeniedByPolicy  DenialKind = "admission policy"
	DeniedByWebhook DenialKind = "admission webhook"
	// WebhookSilent is a webhook that has to be called and does not answer.
	WebhookSilent DenialKind = "silent admission webhook"
	DeniedByRole  DenialKind = "role"
)

// notCreated begins the controller's message where it could not create a VolumeAttachment; the
// API server's message follows (csi_attacher.go, Attach). A driver's answer lacks it.
const notCreated = "attacher.Attach failed: "

// denials match the API server's messages, with the name and the reason as groups (apiserver:
// policy/validating/dispatcher.go, webhook/errors/statuserror.go, util/webhook/error.go,
// endpoints/handlers/responsewriters/errors.go).
var denials = []struct {
	kind  DenialKind
	words *regexp.Regexp
}{
	{DeniedByPolicy, regexp.MustCompile(`(?s)ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']+')? denied request: (.*)`)},
	{DeniedByWebhook, regexp.MustCompile(`(?s)admission webhook "([^"]+)" denied the request(?:: (.*)| without explanation)`)},
	{WebhookSilent, regexp.MustCompile(`(?s)failed calling webhook "([^"]+)"(?:: (.*))?`)},
	{DeniedByRole, regexp.MustCompile(`is forbidden: ()(User "(?:[^"]+" cannot [a-z]+ resource "volumeattachments"|system:node:[^"]+" cannot [a-z]+ resource "(?:pods|csinodes)"))`)},
}

// AttachDenied is why the pod's volume has no VolumeAttachment, where the last event about its
// attach reports that the API server denied its creation. volume is the name of the
// PersistentVolume.
func (p *View) AttachDenied(pod *corev1.Pod, volume string) (Denial, bool) {
	last := p.LastAttachEvent(pod, volume, AttachFailedReason, AttachSucceededReason)
	if last == nil {
		return Denial{}, false
	}
	_, words, found := strings.Cut(last.Message, notCreated)
	if !found {
		return Denial{}, false
	}
	d, denied := DeniedBy(words)
	d.Event = last
	return d, denied
}

// DeniedBy reads the API server's words about a write that it denied: of a VolumeAttachment, or one of a
// kubelet. A driver's message quotes such words about its own ServiceAccount.
func DeniedBy(words string) (Denial, bool) {
	for _, d := range denials {
		if m := d.words.FindStringSubmatch(words); m != nil {
			return Denial{Kind: d.kind, Name: m[1], Says: m[2]}, true
		}
	}
	return Denial{}, false
}

// Text is a clause: who denies it, and why.
func (d Denial) Text() string {
	var text string
	switch d.Kind {
	case DeniedByPolicy, DeniedByWebhook:
		text = d.Actor() + " denies it"
	case WebhookSilent:
		text = d.Actor() + " cannot be asked"
	case DeniedByRole:
		text = "it lacks the right"
	}
	if d.Says != "" {
		text += ": " + strings.TrimSuffix(d.Says, ".")
	}
	return text
}

// Actor is who can end the denial.
func (d Denial) Actor() string {
	switch d.Kind {
	case DeniedByRole:
		return "the cluster admin"
	case WebhookSilent:
		return string(DeniedByWebhook) + " " + d.Name
	default:
		return string(d.Kind) + " " + d.Name
	}
}
