package controllerlog

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The controller's log messages, by the functions that log them. Up to 1.26 all of them go
// through klog's package functions, from 1.27 on many are structured.
const (
	starting  = "Starting attach detach controller"      // attachDetachController.Run
	shutdown  = "Shutting down attach detach controller" // the same
	uncertain = "Marking volume attachment as uncertain as volume is not attached"
	// uncertainText is the message uncertain up to 1.26 (processVolumeAttachments).
	uncertainText = "Marking volume attachment as uncertain as volume:"
	attachStarted = "attacherDetacher.AttachVolume started" // reconciler.attachDesiredVolumes
	// detachStarted also begins the line about a forced detach (reconciler.reconcile).
	detachStarted = "attacherDetacher.DetachVolume started"
	attachDidNot  = "attacherDetacher.AttachVolume failed to start"
	detachDidNot  = "attacherDetacher.DetachVolume failed to start"
	statusFailed  = "UpdateNodeStatusForNode failed while attempting to report volume as attached"
	// AddVolumeNode
	alreadyAdded    = "Volume is already added to attachedVolume list to node, update device path"
	attachSucceeded = "AttachVolume.Attach succeeded"     // GenerateAttachVolumeFunc
	detachSucceeded = "DetachVolume.Detach succeeded"     // GenerateDetachVolumeFunc
	verifiedSafe    = "Verified volume is safe to detach" // verifyVolumeIsSafeToDetach
	attachFailed    = "AttachVolume.Attach failed"
	detachFailed    = "DetachVolume.Detach failed"
	forgotten       = "VerifyVolumesAreAttached determined volume " // GenerateVolumesAreAttachedFunc
	operationFailed = `Operation for "`                             // ExponentialBackoff.GenerateNoRetriesPermittedMsg
	multiAttach     = "Multi-Attach error: "                        // reconciler.reportMultiAttachError
	waitingDetach   = "Waiting for detach: "                        // the same, from 1.37 on
	flagLine        = "FLAG: --"                                    // cli/flag.PrintFlags, at --v=1
)

// flags are the settings of kube-controller-manager that are kept.
var flags = append([]string{"v"}, snapshot.Settings...)

// take replays a line.
func (m *memory) take(e *entry) {
	if !m.follows(e.at) {
		return
	}
	m.verbose = m.verbose || e.detailed
	switch msg := e.msg; {
	case msg == starting:
		m.forgetAll()
		m.begun = e.at
	case msg == shutdown:
		m.forgetAll()
	case msg == "Starting" && strings.HasPrefix(e.value("version"), "v1."):
		m.setRelease(e.value("version"))
	case strings.HasPrefix(msg, "Version: v1."):
		m.setRelease(strings.TrimPrefix(msg, "Version: "))
	case strings.HasPrefix(msg, flagLine):
		m.setFlag(strings.TrimPrefix(msg, flagLine))
	case msg == "Event occurred" && strings.HasSuffix(e.value("message"), " became leader"):
		m.setIdentity(e)
	case msg == uncertain, strings.HasPrefix(msg, uncertainText):
		m.verbose = true
		if pair, ok := e.pair(); ok {
			m.set(pair, isUncertain, e.at)
		}
	case msg == attachStarted:
		m.started(e, snapshot.AttachOperation)
	case strings.HasPrefix(msg, detachStarted):
		m.started(e, snapshot.DetachOperation)
	case msg == attachDidNot, msg == detachDidNot, msg == statusFailed:
		m.failedToStart(e)
	case msg == alreadyAdded:
		m.verbose = true
		m.mention(e)
	case strings.HasPrefix(msg, verifiedSafe):
		m.mention(e)
	case strings.HasPrefix(msg, attachSucceeded):
		m.succeeded(e, snapshot.AttachOperation, isAttached)
	case strings.HasPrefix(msg, detachSucceeded):
		m.succeeded(e, snapshot.DetachOperation, isAbsent)
	case strings.HasPrefix(msg, forgotten):
		m.verbose = true
		if pair, ok := e.pair(); ok {
			m.set(pair, isAbsent, e.at)
		}
	case strings.HasPrefix(msg, operationFailed):
		m.operationFailed(e)
	case strings.HasPrefix(msg, multiAttach), strings.HasPrefix(msg, waitingDetach):
		m.held(e)
	default:
		m.mention(e)
	}
}

var (
	// structInDump matches the volume in a line as 1.26 prints it: with all its fields.
	structInDump = regexp.MustCompile(`\bVolumeName:(\S+) VolumeSpec:\S+ NodeName:(\S+)[ }]`)
	// dumpedName matches the volume's name in a printed cache.VolumeToAttach.
	dumpedName = regexp.MustCompile(`\bVolumeName"?:"?([^"\s,]+)`)
	// inText match a volume and a node in a formatted line.
	inText = []*regexp.Regexp{
		regexp.MustCompile(`\(UniqueName: ("(?:[^"\\]|\\.)*")\) (?:from|on) node ("(?:[^"\\]|\\.)*")`),
		regexp.MustCompile(`^` + forgotten + `("(?:[^"\\]|\\.)*") \(spec\.Name: "(?:[^"\\]|\\.)*"\) is no longer attached to node ("(?:[^"\\]|\\.)*")`),
		regexp.MustCompile(`^` + uncertainText + `("(?:[^"\\]|\\.)*") \(("(?:[^"\\]|\\.)*")\)`),
		regexp.MustCompile(`^Volume ("(?:[^"\\]|\\.)*") is already added to attachedVolume list to node ("(?:[^"\\]|\\.)*")`),
	}
	operationKey = regexp.MustCompile(`^\{volumeName:(\S+) podName: nodeName:(\S*)\}$`)
	notBefore    = regexp.MustCompile(`^ failed\. No retries permitted until (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4}) .{0,60}?\(durationBeforeRetry ([0-9.a-zµ]{2,20})\)\. Error: `)
	csiName      = regexp.MustCompile(`kubernetes\.io/csi/[^\s"'\\,;)}\]]+`)
)

// pair is the volume and the node that a line is about.
func (e *entry) pair() (reconcile.VolumeNode, bool) {
	if e.structured {
		volume, node := e.value("volumeName"), cmp.Or(e.value("node"), e.value("nodeName"))
		if volume == "" || node == "" {
			if found := structInDump.FindStringSubmatch(e.raw("volume")); found != nil {
				volume, node = found[1], found[2]
			}
		}
		if named(volume, node) {
			return pairOf(volume, node), true
		}
	}
	for _, format := range inText {
		found := format.FindStringSubmatch(e.msg)
		if found == nil {
			continue
		}
		volume, err1 := strconv.Unquote(found[1])
		node, err2 := strconv.Unquote(found[2])
		return pairOf(volume, node), err1 == nil && err2 == nil && named(volume, node)
	}
	return reconcile.VolumeNode{}, false
}

// named reports whether these can be the names of a volume and a node: a node's is a DNS
// name, a volume's has a handle of at most 128 bytes by CSI, or a little longer with other
// plugins.
func named(volume, node string) bool {
	return volume != "" && len(volume) <= 1024 && utf8.ValidString(volume) && node != "" && len(node) <= 253 && utf8.ValidString(node)
}

func pairOf(volume, node string) reconcile.VolumeNode {
	return reconcile.VolumeNode{Volume: corev1.UniqueVolumeName(volume), Node: types.NodeName(node)}
}

// failure is a failed operation, as a line reports it.
type failure struct {
	backedOff
	// node is the node of the back-off; "" where it is for all nodes.
	node string
	// pair and operation say what failed.
	pair      reconcile.VolumeNode
	operation snapshot.Operation
	// withSpec reports whether the controller knew whether the volume is for one node or for
	// many.
	withSpec bool
	// tried reports whether the driver, or the check before a detach, was called.
	tried bool
}

// failure reads the line that is logged when an operation fails; false where the line is not
// about an operation of this controller.
func (e *entry) failure() (f failure, ok bool) {
	b, ok := e.backedOff()
	of := operationKey.FindStringSubmatch(b.key)
	if !ok || of == nil {
		return f, false
	}
	f = failure{backedOff: b, node: of[2]}
	switch {
	case strings.HasPrefix(f.err, "AttachVolume."):
		f.operation, f.tried = snapshot.AttachOperation, strings.HasPrefix(f.err, attachFailed)
	case strings.HasPrefix(f.err, "DetachVolume."):
		f.operation, f.tried = snapshot.DetachOperation, strings.HasPrefix(f.err, detachFailed)
	default:
		return f, false
	}
	found := inText[0].FindStringSubmatchIndex(f.err)
	if found == nil {
		return f, false
	}
	volume, _ := strconv.Unquote(f.err[found[2]:found[3]])
	node, _ := strconv.Unquote(f.err[found[4]:found[5]])
	f.pair = pairOf(volume, node)
	f.withSpec = !strings.Contains(f.err[:found[0]], ` for volume "nil" `)
	f.err = strings.TrimLeft(f.err[found[1]:], " :")
	return f, volume == of[1] && named(volume, node) && (f.node == "" || f.node == node)
}

// backedOff is the content of the line that ExponentialBackoff.GenerateNoRetriesPermittedMsg
// makes.
type backedOff struct {
	// key is the key of the pause.
	key string
	// until is the time before which the operation is not tried again, after a pause.
	until time.Time
	pause time.Duration
	err   string
}

// backedOff parses the line that is logged when an operation with a volume fails.
func (e *entry) backedOff() (b backedOff, ok bool) {
	text := strings.TrimPrefix(e.msg, operationFailed[:len(operationFailed)-1])
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return b, false
	}
	rest := text[len(quoted):]
	span := notBefore.FindStringSubmatch(rest)
	if span == nil {
		return b, false
	}
	until, err1 := time.Parse("2006-01-02 15:04:05 -0700", span[1])
	pause, err2 := time.ParseDuration(span[2])
	b = backedOff{until: until, pause: pause, err: rest[len(span[0]):]}
	b.key, _ = strconv.Unquote(quoted)
	return b, err1 == nil && err2 == nil
}

// holders are the nodes that have the volume, by a line about a multi-attach.
func (e *entry) holders() (volume string, nodes []string) {
	list, dump := e.raw("attachedTo"), e.raw("volume")
	if e.values != nil {
		list, dump = string(e.values["attachedTo"]), string(e.values["volume"])
	}
	if json.NewDecoder(strings.NewReader(list)).Decode(&nodes) != nil {
		return "", nil
	}
	if found := dumpedName.FindStringSubmatch(dump); found != nil {
		volume = found[1]
	}
	return volume, nodes
}
