package controllerlog

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// KubeletFailure is a failed operation of a kubelet with a volume, or a failed deletion of the
// object of a pod that has ended. The kubelet logs each failure before it pauses, also those of
// unmounting, about which it writes no event. It logs an unmount that it could not begin in each
// pass of its reconciler, and a failed deletion in each pass of its status manager; of equal ones
// only the last is kept.
type KubeletFailure struct {
	At time.Time
	// Pause is how long the kubelet waits before it tries again.
	Pause time.Duration
	// Lasted is for how long an unmount that could not begin was logged in each pass; zero for other
	// operations.
	Lasted time.Duration
	Volume corev1.UniqueVolumeName
	// Pod is the UID of the pod for which the operation ran; "" for an operation on the
	// device.
	Pod types.UID
	// Undeleted is the namespace and the name of the pod whose object could not be deleted, as in
	// "shop/web-0"; "" for an operation with a volume.
	Undeleted string
	// Message says what failed and why, in the words of the kubelet's events:
	// `MountVolume.SetUp failed for volume "pv-1" : rpc error: ...`.
	Message string
	// LogEnds is when the last line of the log was written.
	LogEnds time.Time
	// Before reports whether a kubelet logged it that has started again since.
	Before bool
}

// StillMounted begins the kubelet's error about a pod that has ended while some of its volumes are
// mounted (WaitForUnmount, volume_manager.go). The failure stands once for each of the volumes, by its
// name in the pod up to 1.34 and its unique name since.
const StillMounted = "mounted volumes=["

// waitsAgain is when the kubelet has waited again after that error: its longest back-off
// (completeWork, pod_workers.go) and its podAttachAndMountTimeout.
const waitsAgain = 15*time.Second + 2*time.Minute + 3*time.Second

// reconcilerPass is the kubelet's reconcilerLoopSleepPeriod (volume_manager.go): the pause
// after an operation that could not begin.
const reconcilerPass = 100 * time.Millisecond

// unbegun is how long an unmount is logged in each pass until it counts as one that cannot begin. Up
// to 1.31 the reconciler tries one again beside the one that runs, and in every release it may come to
// one that has just ended: it then finds the volume's file gone for a pass or two.
const unbegun = 20 * reconcilerPass

// statusPass is the longest pause between two tries of the kubelet to delete a pod object: its
// syncPeriod (status_manager.go), and a webhook that takes its longest time to deny it.
const statusPass = 10*time.Second + 30*time.Second

// undeleted is the kubelet's message about a pod object that it could not delete (syncPod,
// status_manager.go). It deletes one only when SyncTerminatedPod is through with the pod.
const undeleted = "Failed to delete status for pod"

// kubeletStarts is the first message of a kubelet (run, cmd/kubelet/app/server.go).
const kubeletStarts = "Kubelet version"

// samePass is how many failures back the same failure of the previous pass is looked for.
const samePass = 256

// MaxKubeletFailures bounds the failures that are kept of a log; the last ones are kept.
const MaxKubeletFailures = 10_000

// maxReversed bounds a log that has its newest line first; the newest lines are read.
const maxReversed = 32 << 20

var (
	// journalPrefix matches the prefix of a line from journalctl, in its formats short and
	// short-iso and their precise variants, or from syslog: the time, the host, the program.
	// The kubelet's log query has short-precise, in UTC (getLoggingCmd,
	// kubelet_server_journal_linux.go); journalctl by itself has the machine's own zone.
	journalPrefix = regexp.MustCompile(`^(?:([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)(\.\d{6})?|(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[-+]\d\d:?\d\d))) (\S+) ([\w.-]+)(?:\[\d+\])?: `)
	// notBegun matches the line in which the kubelet's reconciler logs that an unmount could
	// not begin (unmountVolumes and unmountDetachDevices, reconciler_common.go).
	notBegun = regexp.MustCompile(`^operationExecutor\.Unmount(?:Volume|Device) failed `)
	// kubeletKey matches the key under which the kubelet keeps a pause.
	kubeletKey = regexp.MustCompile(`^\{volumeName:(\S+) podName:(\S*) nodeName:\}$`)
	// inKubelet matches the volume and the pod in an error (GenerateMsg of VolumeToMount and
	// MountedVolume, and of AttachedVolume for a device, operation_executor.go). The failed
	// step stands before them, in words of no fixed form: "UnmountVolume.TearDown failed",
	// "UnmountDevice failed", "error cleaning subPath mounts".
	inKubelet = regexp.MustCompile(`^([A-Za-z][\w.:,/ ]{1,99} for volume "(?:[^"\\]|\\.)*") \(UniqueName: ("(?:[^"\\]|\\.)*")\) (?:pod "(?:[^"\\]|\\.)*" \(UID: ("(?:[^"\\]|\\.)*")\)|on node "(?:[^"\\]|\\.)*") `)
)

// ErrOtherHosts is the error about a log that has no line of the given hosts.
var ErrOtherHosts = errors.New("no line of the node's in it")

// ErrNoLine is the error about a text without any line of a log.
var ErrNoLine = errors.New("no line begins as klog's do, in text or JSON")

// ErrZoneUnknown is the error about a log that is later than now by its clock, where no line shows
// its time zone.
var ErrZoneUnknown = errors.New("no line shows its time zone, and in UTC it would be later than the objects")

// ReadKubelet reads the failed operations, oldest first, from the log of a kubelet, in a form
// that Read takes or as journalctl prints it. From a log of several hosts it reads only the
// lines of the given hosts. Lines that were logged after now are left out; where that may be due to
// the log's time zone, the error is ErrZoneUnknown. Every error is one line.
func ReadKubelet(r io.Reader, now time.Time, hosts ...string) ([]KubeletFailure, error) {
	p := &parser{program: "the kubelet", journal: true, hosts: hosts, now: now, zone: time.UTC}
	var failures []KubeletFailure
	r, err := p.oldestFirst(r)
	if err != nil {
		return nil, err
	}
	var began, ends time.Time // began is when the process that wrote the last line wrote its first
	process := ""
	for e, err := range p.entries(r) {
		if err != nil {
			return nil, err
		}
		by := p.learnZone(e)
		for i := range failures {
			failures[i].At = failures[i].At.Add(by)
		}
		began = began.Add(by)
		e.at = e.at.Add(by)
		ends = e.at
		if e.process != process || e.msg == kubeletStarts {
			began, process = e.at, e.process
		}
		if f, ok := e.kubeletFailure(); ok {
			failures = withLatest(failures, f)
		}
		for _, f := range e.stillMounted() {
			failures = withLatest(failures, f)
		}
		if pod := e.value("pod"); e.msg == undeleted && pod != "" {
			failures = withLatest(failures, KubeletFailure{At: e.at, Pause: statusPass, Undeleted: pod, Message: cutError(e.value("err"))})
		}
	}
	if p.zoneUnknown() && (p.over || ends.Sub(now) > leastZone) {
		return nil, ErrZoneUnknown
	}
	var until []KubeletFailure
	for _, f := range failures {
		if !f.At.After(now) && (f.Pause != reconcilerPass || f.Lasted >= unbegun) { // in the zone that a later line has shown
			f.Before, f.LogEnds = f.At.Before(began), ends
			until = append(until, f)
		}
	}
	slices.SortStableFunc(until, func(a, b KubeletFailure) int { return a.At.Compare(b.At) })
	return until[max(0, len(until)-MaxKubeletFailures):], nil
}

// oldestFirst returns the log with its oldest line first. journalctl prints the newest first where it
// has to search and to count lines, as for the kubelet's log query: then the lines of one text come
// in reverse, too.
func (p *parser) oldestFirst(r io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(r, maxLine)
	head, _ := in.Peek(maxLine)
	var first, last time.Time
	for line := range strings.Lines(string(head)) {
		text, of := p.fromJournal(line, true)
		at, text := p.unwrap(text)
		if at.IsZero() {
			at, _, _, _ = p.header(text)
		}
		if of && !at.IsZero() {
			if last = at; first.IsZero() {
				first = at
			}
		}
	}
	if !first.After(last) {
		return in, nil
	}
	text, err := io.ReadAll(io.LimitReader(in, maxReversed))
	lines := strings.Split(string(text), "\n")
	slices.Reverse(lines)
	return strings.NewReader(strings.Join(lines, "\n")), err
}

// fromJournal is a line of journalctl's as a container runtime would write it; "" for
// the messages of journalctl and systemd. of reports whether the line comes from one of the hosts: a line
// that names no host continues the line before it, for which before was the answer.
func (p *parser) fromJournal(text string, before bool) (line string, of bool) {
	if strings.HasPrefix(text, "-- ") {
		return "", before
	}
	prefix := journalPrefix.FindStringSubmatch(text)
	if prefix == nil {
		host, line, _ := strings.Cut(text, " ") // as oc adm node-logs --path prints it
		if _, _, _, begins := p.header(line); begins && len(p.hosts) > 0 {
			return line, p.of(host)
		}
		return text, before
	}
	short, fraction, iso, host, program, line := prefix[1], prefix[2], prefix[3], prefix[4], prefix[5], text[len(prefix[0]):]
	if !p.of(host) {
		return "", false
	}
	if program == "systemd" {
		return "", true
	}
	var at time.Time
	var err error
	switch {
	case iso != "" && strings.Count(iso, ":") > 2:
		at, err = time.Parse(time.RFC3339, iso)
	case iso != "":
		at, err = time.Parse("2006-01-02T15:04:05Z0700", iso)
	case fraction == "": // in the machine's own zone, like klog's time
		return line, true
	default:
		at, err = time.Parse("2006 Jan _2 15:04:05", strconv.Itoa(p.now.UTC().Year())+" "+short+fraction)
		if at.Sub(p.now) > 24*time.Hour {
			at = at.AddDate(-1, 0, 0)
		}
		if logged, _, _, ok := p.header(line); ok && sameClock(at, logged) {
			return line, true
		}
	}
	if err != nil {
		return text, true
	}
	return at.Format(time.RFC3339Nano) + " " + line, true
}

// sameClock reports whether both times are one time of day, whatever their zones: then the journal
// has klog's zone, which another line may show.
func sameClock(journal, logged time.Time) bool {
	_, ahead := logged.Zone()
	return journal.Sub(logged.Add(time.Duration(ahead)*time.Second)).Abs() < time.Minute
}

// of reports whether lines of the host count, also under its full name.
func (p *parser) of(host string) bool {
	first, _, _ := strings.Cut(host, ".")
	return len(p.hosts) == 0 || slices.Contains(p.hosts, host) || slices.Contains(p.hosts, first)
}

// kubeletFailure returns the failure that the line reports.
func (e *entry) kubeletFailure() (f KubeletFailure, ok bool) {
	b, ok := e.backedOff()
	of := kubeletKey.FindStringSubmatch(b.key)
	switch {
	case ok && of != nil:
		f, ok = failedFor(b.err)
		f.At, f.Pause = e.at, b.pause
		return f, ok && string(f.Volume) == of[1] && (of[2] == "" || of[2] == string(f.Pod))
	case !ok && notBegun.MatchString(e.msg):
		f, ok = failedFor(e.value("err"))
		f.At, f.Pause = e.at, reconcilerPass
		return f, ok
	}
	return f, false
}

// stillMounted returns a failure for each volume that, by the line, the kubelet has waited to be
// unmounted.
func (e *entry) stillMounted() (list []KubeletFailure) {
	if e.msg != "Error syncing pod, skipping" { // podWorkerLoop, pod_workers.go
		return nil
	}
	err := e.value("err")
	names, waited := strings.CutPrefix(err, StillMounted)
	names, _, ended := strings.Cut(names, "]: ")
	pod := e.value("podUID")
	for name := range strings.FieldsSeq(names) {
		if waited && ended && pod != "" {
			list = append(list, KubeletFailure{At: e.at, Pause: waitsAgain, Volume: corev1.UniqueVolumeName(name), Pod: types.UID(pod), Message: cutError(err)})
		}
	}
	return list
}

// failedFor returns the volume and the pod that the error is about.
func failedFor(err string) (f KubeletFailure, ok bool) {
	found := inKubelet.FindStringSubmatchIndex(err)
	if found == nil {
		return f, false
	}
	text := func(group int) string {
		if found[2*group] < 0 {
			return ""
		}
		unquoted, _ := strconv.Unquote(err[found[2*group]:found[2*group+1]])
		return unquoted
	}
	return KubeletFailure{Volume: corev1.UniqueVolumeName(text(2)), Pod: types.UID(text(3)), Message: cut(err[:found[3]], maxError) + " " + cutError(err[found[1]:])}, true
}

// withLatest adds a failure. One that is logged in each pass replaces the same failure of the
// previous pass.
func withLatest(failures []KubeletFailure, f KubeletFailure) []KubeletFailure {
	if f.Pause == reconcilerPass || f.Undeleted != "" {
		for i := len(failures) - 1; i >= max(0, len(failures)-samePass); i-- {
			if old := failures[i]; old.Volume == f.Volume && old.Pod == f.Pod && old.Undeleted == f.Undeleted && old.Message == f.Message {
				if since := f.At.Sub(old.At); f.Undeleted == "" && since < unbegun {
					f.Lasted = old.Lasted + since
				}
				failures = slices.Delete(failures, i, i+1)
				break
			}
		}
	}
	if failures = append(failures, f); len(failures) > 2*MaxKubeletFailures {
		failures = slices.Clone(failures[MaxKubeletFailures:])
	}
	return failures
}
