package explain

import (
	_ "embed" // for messages.txt
	"regexp"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
)

// The components that write the messages that people paste.
const (
	kubelet     = "the kubelet of the pod's node"
	controller  = "the attach/detach controller"
	binder      = "the persistent volume controller"
	scheduler   = "the scheduler"
	attacher    = "the driver's external-attacher"
	provisioner = "the driver's external-provisioner"
	resizer     = "the driver's external-resizer"
	snapshotter = "the driver's csi-snapshotter"
	apiServer   = "the API server"
	driver      = "the CSI driver"
	nobodyKnown = "the CSI driver, or a program that it runs: the words do not tell who speaks"
	nodeTool    = "a program on the node, which the CSI driver runs, or the kubelet where the volume has no driver"
	anybody     = "any component that waits"
	either      = "the attach/detach controller, or the kubelet of the pod's node"
	kernel      = "the kernel of the node"
	runtime     = "the container runtime of the pod's node"
	sidecar     = "a sidecar in a pod of the driver (its attacher, provisioner, resizer or registrar)"
	caller      = "whoever called the CSI driver: its attacher, a kubelet or its provisioner"
)

// sentence is a message of a component of Kubernetes itself. Where acts is "" the words do
// not show the cause, and so not who has to act.
type sentence struct {
	// words must all be in the text, in lower case.
	words []string
	by    string
	means string
	acts  string
	codes []string
}

const notInWords = "; the cause is not in these words"

//go:embed messages.txt
var messages string

// sentences are the known messages, the most specific first. reasons are the reasons of events and
// the states of pods, in lower case, for who pastes no message.
var sentences, reasons = readMessages()

func readMessages() (sentences []*sentence, reasons map[string]*sentence) {
	reasons = map[string]*sentence{}
	var s *sentence
	for line := range strings.Lines(messages) {
		line, indented := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "  ")
		reason, isReason := strings.CutPrefix(line, "reason ")
		key, value, _ := strings.Cut(line, " ")
		switch {
		case line == "" || key == "#":
		case isReason:
			s = &sentence{words: []string{reason}}
			reasons[strings.ToLower(reason)] = s
		case !indented:
			s = &sentence{words: strings.Split(line, " | ")}
			sentences = append(sentences, s)
		case key == "by":
			s.by = value
		case key == "means":
			s.means = value
		case key == "acts":
			s.acts = value
		case key == "codes":
			s.codes = strings.Fields(value)
		default:
			panic("messages.txt: no field " + key)
		}
	}
	return sentences, reasons
}

// spoken is the sentence in the text; nil where it is no component's known message.
func spoken(message string) *sentence {
	text := strings.ToLower(message)
	byDriver := driverSays(message)
	i := slices.IndexFunc(sentences, func(s *sentence) bool {
		return (!byDriver || s.by != caller) && !slices.ContainsFunc(s.words, func(w string) bool { return !strings.Contains(text, w) })
	})
	if i < 0 {
		if s, alone := reasons[strings.TrimSpace(text)]; alone {
			return s
		}
		if !isMessage(message) {
			for word := range strings.FieldsSeq(text) {
				if s, ok := reasons[word]; ok {
					return s
				}
			}
		}
		return ownOfKubelet(text)
	}
	s := *sentences[i]
	if s.by == anybody && saysMore(message) {
		return nil
	}
	switch by := frame(message); {
	case s.by == anybody && (by != anybody || byDriver): // the beginning of the message says more than its end
		s.by = by
		if byDriver {
			s.by = saidBy(message, driversOf(slices.DeleteFunc(whatItMeans(message), func(e driverwords.Entry) bool { return len(e.Drivers) == 0 })))
		}
		if code := stage(message); code != "" && !slices.Contains(s.codes, code) {
			s.codes = append([]string{code}, s.codes...)
		}
	case s.by == "" || s.by == either && by != anybody:
		s.by = by
	case s.by == caller:
		s.by = callerBehind(by)
	}
	return &s
}

// driverSays reports whether the words behind the message's first gRPC code are a CSI driver's:
// the runtime of containers and the client of a call without an answer write such codes as well.
func driverSays(message string) bool {
	return strings.Contains(strings.ToLower(message), "rpc error") && frame(message) != runtime && !kubeletwords.NoAnswer(message)
}

// isMessage reports whether the text has the form of what a program writes: a line of kubectl get,
// or what a person types, may have the same words.
func isMessage(text string) bool {
	return strings.Contains(text, "rpc error") || frame(text) != anybody || ofKernel.MatchString(text) || ofNodeTool.MatchString(text) || ofError.MatchString(text)
}

var ofError = regexp.MustCompile(`(?i)\b(?:\w*errors?|fail\w*|unable|cannot|can't|could not|couldn't|denied)\b|: `)

// callerBehind is who called the driver, where the component writes of the call.
func callerBehind(by string) string {
	switch by {
	case anybody:
		return caller
	case controller:
		return attacher
	}
	return by
}

// saysMore reports whether the text has words that tell more than that something took too long.
func saysMore(text string) bool {
	return slices.ContainsFunc(whatItMeans(text), func(e driverwords.Entry) bool { return !e.Wrapper && e.Meaning != driverwords.TimedOut })
}

// alsoSpoken are the other sentences of the scheduler in a text that begins with one: it says of
// each group of nodes why the pod cannot run there.
func alsoSpoken(text string, first *sentence) []*sentence {
	if first == nil || first.by != scheduler {
		return nil
	}
	text = strings.ToLower(text)
	var others []*sentence
	for _, s := range sentences {
		if s.by == scheduler && s.means != first.means && !slices.ContainsFunc(s.words, func(w string) bool { return !strings.Contains(text, w) }) {
			others = append(others, s)
		}
	}
	return others
}

// ownOfKubelet is the meaning of the kubelet's own words in the text; nil where the driver
// tables know the words, or where they are a driver's answer.
func ownOfKubelet(text string) *sentence {
	if e, ok := driverwords.Read("", text); ok && e.Layer.Sure() || kubeletwords.DriverAnswered(text) {
		return nil
	}
	for i, table := range [][]kubeletwords.Word{kubeletwords.MountWords, kubeletwords.WaitWords, kubeletwords.UnmountWords} {
		w, found := kubeletwords.Find(table, text)
		if !found || w.Speaker != kubeletwords.Kubelet || w.Means == "" {
			continue
		}
		s := sentence{words: []string{strings.ToLower(w.Text)}, by: kubelet, means: w.Means, codes: []string{[]string{"VD409", "VD409", "VD104"}[i]}}
		if w.Pattern != nil {
			s.words = []string{strings.ToLower(w.Pattern.FindString(text))}
		}
		if w.Permanent {
			s.codes = []string{"VD412"}
		}
		if acts, admin := strings.CutPrefix(w.Actor, "the "); admin && !strings.Contains(acts, "controller") {
			s.acts = acts
		}
		return &s
	}
	return nil
}

// beganContainer is how the kubelet begins the event of a container that could not be made or
// started, whose reason is mostly the runtime's (recordContainerEvent).
const beganContainer = `^(?:Warning\s+Failed\s.*?\s)?Error: `

// frames are the beginnings of messages, with the component that writes them and the page
// about the failing step.
var frames = []struct {
	words *regexp.Regexp
	by    string
	code  string
}{
	{regexp.MustCompile(beganContainer + `(?:secrets? "|configmaps? "|couldn't find key )`), kubelet, ""},
	{regexp.MustCompile(`(?i)\bOCI runtime\b|\bcontainerd task\b|\bfailed to generate (?:container|spec)\b|\bto rootfs\b|\bError response from daemon\b|(?-i:` + beganContainer + `)`), runtime, "VD416"},
	{regexp.MustCompile(`(?i)\bhas GET error for volume attachment\b.* no relationship found\b`), kubelet, "VD302"},
	{regexp.MustCompile(`(?i)\bDetachVolume\.|\bDetach ?Error`), controller, "VD103"},
	{regexp.MustCompile(`(?i)\bAttachVolume\.|Multi-Attach error|\bWaiting for detach for volume`), controller, "VD410"},
	{regexp.MustCompile(`(?i)\bUnm(?:ount|ap)(?:Volume|Device)\b`), kubelet, "VD104"},
	{regexp.MustCompile(`(?i)\bM(?:ount|ap)Volume\.|\bFailedMount\b|\bNodeExpandVolume|unmounted volumes=|^kubelet\b`), kubelet, "VD411"},
	{regexp.MustCompile(`(?i)nodes are available`), scheduler, ""},
	{regexp.MustCompile(`(?i)failed to provision volume`), provisioner, "VD512"},
	{regexp.MustCompile(`VolumeFailedDelete`), provisioner, "VD515"},
	{regexp.MustCompile(`(?i)\bresize volume\b.* by resizer\b|\bVolume(?:Resize|Modify)Failed\b`), resizer, "VD511"},
	{regexp.MustCompile(`(?i)\bfailed to (?:check and update|create) snapshot content\b|\bfailed to take snapshot of the volume\b`), snapshotter, "VD512"},
	{regexp.MustCompile(`(?i)\bUser \\?"system:node:`), kubelet, ""}, // the API server refuses a kubelet
}

// stage is the page about the failing step of such a message; "" where the text does not
// begin like one.
func stage(text string) string {
	for _, f := range frames {
		if f.words.MatchString(text) {
			return f.code
		}
	}
	return ""
}

// frame is the component that writes a message with this beginning.
func frame(text string) string {
	for _, f := range frames {
		if f.words.MatchString(text) {
			return f.by
		}
	}
	return anybody
}

// ofNodeTool are words of the programs that drivers and kubelets alike run on a node.
var ofNodeTool = regexp.MustCompile(`(?i)\bmount(?:\.\w+| error| failed)?(?:\(\d+\))?:|\bfsck\b|\bmkfs\b|\bwrong fs type\b`)

// ofKernel are the beginnings of the kernel's lines, behind a time or the name of the machine.
var ofKernel = regexp.MustCompile(`(?i)(?:^|\bkernel: |\] )(?:(?:xfs|ext[234]-fs|btrfs)\b[^:]*:|ext4-fs error|(?:libceph|ceph|nfs|cifs|nvme \S+|connection\d+:\d+|session\d+|device-mapper|blk_update_request|print_req_error|sd \S+|jbd2|md\S*):? |buffer i/o error|i/o error, dev|aborting journal|info: task |ext4: |xfs: )`)

// saidBy names the speaker of a driver's or tool's words, and the component that passes them
// on.
func saidBy(text string, drivers []string) string {
	says := driver
	switch len(drivers) {
	case 0:
	case 1:
		says = "the CSI driver " + drivers[0]
	default: // the words do not tell which
		says = "one of the CSI drivers " + strings.Join(drivers, ", ")
	}
	by := frame(text)
	switch {
	case by == runtime:
		return runtime
	case kubeletwords.NoAnswer(text):
		return callerBehind(by)
	case by == anybody && len(drivers) == 0 && ofKernel.MatchString(text):
		return kernel
	case by == anybody && len(drivers) == 0 && ofNodeTool.MatchString(text) && !driverSays(text):
		return nodeTool
	case by == anybody && len(drivers) == 0 && !driverSays(text):
		return nobodyKnown
	case by == anybody:
		return says
	case len(drivers) == 0 && !driverSays(text):
		if by != controller {
			return by
		}
		says = attacher
	}
	return says + "; " + by + " passes it on"
}
