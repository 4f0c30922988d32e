package controllerlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const aVolume = "kubernetes.io/csi/d^v"

// paused is the kubelet's line about an operation that failed at the time of day clock on
// 2026-11-20, in the zone.
func paused(clock, zone, pod, err string) string {
	return fmt.Sprintf(`E1120 %s.000000       1 nestedpendingoperations.go:348] Operation for "{volumeName:%s podName:%s nodeName:}" failed. `+
		`No retries permitted until 2026-11-20 %s.500000001 %s m=+16.2 (durationBeforeRetry 1m4s). Error: %s`, clock, aVolume, pod, clock, zone, err)
}

// notBegunAt is the kubelet's line about an unmount that it could not begin.
func notBegunAt(clock, err string) string {
	return fmt.Sprintf(`E1120 %s.000000       1 reconciler_common.go:160] %q err=%q`, clock, "operationExecutor.UnmountVolume failed (controllerAttachDetachEnabled true) for volume : "+err, err)
}

func readKubelet(t *testing.T, lines ...string) []KubeletFailure {
	t.Helper()
	failures, err := ReadKubelet(strings.NewReader(strings.Join(lines, "\n")+"\n"), now)
	if err != nil {
		t.Fatal(err)
	}
	for i := range failures {
		failures[i].LogEnds = time.Time{} // see TestKubeletLogEnds
	}
	return failures
}

// TestKubeletLogEnds: each failure knows when the log's last line was written.
func TestKubeletLogEnds(t *testing.T) {
	setUp := `MountVolume.SetUp failed for volume "pv-1" (UniqueName: "` + aVolume + `") pod "web-0" (UID: "uid-1") : no device`
	for name, log := range map[string]string{
		"in UTC":          paused("10:40:00", "+0000 UTC", "", setUp) + "\n" + klog("10:41:30", "x"),
		"in another zone": klog("05:39:00", "x") + "\n" + paused("05:40:00", "-0500 EST", "", setUp) + "\n" + klog("05:41:30", "x"),
		"up to now":       paused("10:40:00", "+0000 UTC", "", setUp) + "\n" + klog("10:41:30", "x") + "\n" + klog("10:59:00", "x"),
	} {
		failures, err := ReadKubelet(strings.NewReader(log), now)
		if err != nil || len(failures) != 1 || !failures[0].LogEnds.Equal(*clock(10, 41, 30)) {
			t.Errorf("%s: %v %+v", name, err, failures)
		}
	}
}

// TestKubelet: the failure of each step is found, in each form in which logs come.
func TestKubelet(t *testing.T) {
	const (
		named    = `(UniqueName: "` + aVolume + `") pod "web-0" (UID: "uid-1") : rpc error: code = Internal desc = no device`
		setUp    = `MountVolume.SetUp failed for volume "pv-1" ` + named
		tearDown = `UnmountVolume.TearDown failed for volume "` + aVolume + `" (UniqueName: "` + aVolume + `") pod "uid-1" (UID: "uid-1") : rpc error: code = Internal desc = busy`
		device   = `UnmountDevice failed for volume "pv-1" (UniqueName: "` + aVolume + `") on node "n1" : rpc error: code = Internal desc = busy`
		refs     = `GetDeviceMountRefs check failed for volume "pv-1" (UniqueName: "` + aVolume + `") on node "n1" : the device mount path "/x" is still mounted by other references [/y]`
		lost     = `UnmountVolume.NewUnmounter failed for volume "pv-1" (UniqueName: "` + aVolume + `") pod "uid-1" (UID: "uid-1") : kubernetes.io/csi: unmounter failed to load volume data file`
		deviceOf = `UnmountVolume.NewDeviceUnmounter failed for volume "pv-1" (UniqueName: "` + aVolume + `") on node "n1" : no plugin`
	)
	failure := func(hour int, pod, message string) KubeletFailure {
		return KubeletFailure{At: *clock(hour, 40, 0), Pause: 64 * time.Second, Volume: aVolume, Pod: "", Message: message}.of(pod)
	}
	mount := failure(10, "uid-1", `MountVolume.SetUp failed for volume "pv-1" : rpc error: code = Internal desc = no device`)
	line := paused("10:40:00", "+0000 UTC", "", setUp)
	at := func(clock, text string) string { return "Nov 20 " + clock + " n1 kubelet[1234]: " + text }
	waited := func(err string) string {
		return klog("10:40:00", fmt.Sprintf(`"Error syncing pod, skipping" err=%q pod="a/web-0" podUID="uid-1"`, err))
	}
	stillMounted := func(volume corev1.UniqueVolumeName) KubeletFailure {
		return KubeletFailure{At: *clock(10, 40, 0), Pause: 138 * time.Second, Volume: volume, Message: "mounted volumes=[a/1 b/2]: context deadline exceeded"}.of("uid-1")
	}
	before := mount
	before.Before = true
	long := []string{paused("10:40:00", "+0000 UTC", "uid-1", strings.Replace(tearDown, "rpc error: code = Internal desc = busy", "unmount failed: exit status 32", 1)), "Unmounting arguments: /x", "Output: umount: /x: target is busy."}
	busy := failure(10, "uid-1", `UnmountVolume.TearDown failed for volume "`+aVolume+`" : unmount failed: exit status 32`+"\nUnmounting arguments: /x\nOutput: umount: /x: target is busy.")
	local := func(line string, microsecond int) string {
		line = strings.Replace(strings.Replace(line, "10:40:00", "12:40:00", 2), "+0000 UTC", "+0200 CEST", 1)
		return fmt.Sprintf("Nov 20 12:40:00.%06d n1 kubelet[1234]: %s", microsecond, line)
	}
	denied := func(second int, pod string) KubeletFailure {
		return KubeletFailure{At: *clock(10, 40, second), Pause: 40 * time.Second, Undeleted: pod, Message: `admission webhook "g" denied the request: no`}
	}
	deleting := func(clock, pod string) string {
		return klog(clock, fmt.Sprintf(`"Failed to delete status for pod" pod=%q err=%q`, pod, denied(0, pod).Message))
	}
	unbegun := func(second int, pod string) KubeletFailure {
		return KubeletFailure{At: *clock(10, 40, second), Pause: 100 * time.Millisecond, Lasted: 2 * time.Second, Volume: aVolume,
			Message: `UnmountVolume.NewUnmounter failed for volume "pv-1" : kubernetes.io/csi: unmounter failed to load volume data file`}.of(pod)
	}
	for name, row := range map[string]struct {
		lines []string
		want  []KubeletFailure
	}{
		"mount":                       {[]string{line}, []KubeletFailure{mount}},
		"affinity":                    {[]string{paused("10:40:00", "+0000 UTC", "", `MountVolume.NodeAffinity check failed for volume "pv-1" `+named)}, []KubeletFailure{failure(10, "uid-1", `MountVolume.NodeAffinity check failed for volume "pv-1" : rpc error: code = Internal desc = no device`)}},
		"unmount":                     {[]string{paused("10:40:00", "+0000 UTC", "uid-1", tearDown)}, []KubeletFailure{failure(10, "uid-1", `UnmountVolume.TearDown failed for volume "`+aVolume+`" : rpc error: code = Internal desc = busy`)}},
		"device":                      {[]string{paused("10:40:00", "+0000 UTC", "", device)}, []KubeletFailure{failure(10, "", `UnmountDevice failed for volume "pv-1" : rpc error: code = Internal desc = busy`)}},
		"references":                  {[]string{paused("10:40:00", "+0000 UTC", "", refs)}, []KubeletFailure{failure(10, "", `GetDeviceMountRefs check failed for volume "pv-1" : the device mount path "/x" is still mounted by other references [/y]`)}},
		"block device":                {[]string{paused("10:40:00", "+0000 UTC", "", strings.Replace(device, "UnmountDevice", "UnmapDevice", 1))}, []KubeletFailure{failure(10, "", `UnmapDevice failed for volume "pv-1" : rpc error: code = Internal desc = busy`)}},
		"subPath":                     {[]string{paused("10:40:00", "+0000 UTC", "uid-1", strings.Replace(tearDown, "UnmountVolume.TearDown failed", "error cleaning subPath mounts", 1))}, []KubeletFailure{failure(10, "uid-1", `error cleaning subPath mounts for volume "`+aVolume+`" : rpc error: code = Internal desc = busy`)}},
		"a step of a later release":   {[]string{paused("10:40:00", "+0000 UTC", "uid-1", strings.Replace(tearDown, "UnmountVolume.TearDown failed", "cannot say goodbye, yet", 1))}, []KubeletFailure{failure(10, "uid-1", `cannot say goodbye, yet for volume "`+aVolume+`" : rpc error: code = Internal desc = busy`)}},
		"no unmounter":                {[]string{paused("10:40:00", "+0000 UTC", "", deviceOf)}, []KubeletFailure{failure(10, "", `UnmountVolume.NewDeviceUnmounter failed for volume "pv-1" : no plugin`)}},
		"journalctl":                  {[]string{"Nov 20 10:40:00.000000 n1 kubelet[1234]: " + line, "-- Boot 12 --"}, []KubeletFailure{mount}},
		"journalctl, short":           {[]string{"Nov 20 12:40:00 n1 kubelet[1234]: " + paused("12:40:00", "+0200 CEST", "", setUp)}, []KubeletFailure{mount}},
		"journalctl, short-iso":       {[]string{"2026-11-20T12:40:00+0200 n1 kubenswrapper[1234]: " + paused("12:40:00", "+0200 CEST", "", setUp)}, []KubeletFailure{mount}},
		"rsyslog":                     {[]string{"2026-11-20T10:40:00.000000+00:00 n1 k3s[1234]: " + line}, []KubeletFailure{mount}},
		"the last first":              {[]string{"Nov 20 10:40:00.000000 n1 kubelet[1234]: " + line, "Nov 20 09:40:00.000000 n1 kubelet[1234]: " + line}, []KubeletFailure{failure(9, "uid-1", mount.Message), mount}},
		"a line by itself":            {[]string{at("10:40:00.000001", long[0]), at("10:40:00.000002", long[1]), at("10:40:00.000003", long[2])}, []KubeletFailure{busy}},
		"newest first":                {[]string{at("10:40:00.000003", long[2]), at("10:40:00.000002", long[1]), at("10:40:00.000001", long[0])}, []KubeletFailure{busy}},
		"systemd's own lines":         {[]string{at("10:40:00.000001", long[0]), "Nov 20 10:40:00.000001 n1 systemd[1]: Stopping kubelet", at("10:40:00.000002", long[1]), at("10:40:00.000003", long[2])}, []KubeletFailure{busy}},
		"another process since":       {[]string{line, strings.Replace(klog("10:41:00", "x"), "    1 file", "    2 file", 1)}, []KubeletFailure{before}},
		"started since":               {[]string{line, klog("10:41:00", `"Kubelet version" kubeletVersion="v1.37.2"`)}, []KubeletFailure{before}},
		"started since, newest first": {[]string{at("10:41:00.000001", klog("10:41:00", `"Kubelet version" kubeletVersion="v1.37.2"`)), at("10:40:00.000000", line)}, []KubeletFailure{before}},
		"started before":              {[]string{strings.Replace(klog("10:38:00", "x"), "    1 file", "    2 file", 1), klog("10:39:00", `"Kubelet version" kubeletVersion="v1.37.2"`), line, klog("10:41:00", "x")}, []KubeletFailure{mount}},
		"started since, another zone": {[]string{strings.Replace(klog("05:39:00", "x"), "    1 file", "    2 file", 1), paused("05:40:00", "-0500 EST", "", setUp)}, []KubeletFailure{mount}},
		"New Year":                    {[]string{"Dec 31 10:40:00.000000 n1 kubelet[1234]: " + line}, []KubeletFailure{{At: time.Date(2025, 12, 31, 10, 40, 0, 0, time.UTC), Pause: mount.Pause, Volume: aVolume, Pod: "uid-1", Message: mount.Message}}},
		"container":                   {[]string{"2026-11-20T10:40:00Z stderr F " + line}, []KubeletFailure{mount}},
		"journalctl, in local time":   {[]string{"Nov 20 12:40:00.000000 n1 kubelet[1234]: " + paused("12:40:00", "+0200 CEST", "", setUp)}, []KubeletFailure{mount}},
		"west of here":                {[]string{"Nov 20 05:40:00.000000 n1 kubelet[1234]: " + paused("05:40:00", "-0500 EST", "", setUp)}, []KubeletFailure{mount}},
		"in local time, newest first": {[]string{local(long[2], 3), local(long[1], 2), local(long[0], 1)}, []KubeletFailure{busy}},
		"another zone":                {[]string{paused("05:40:00", "-0500 EST", "", setUp), paused("05:40:00", "-0500 EST", "", setUp)}, []KubeletFailure{mount, mount}},
		"journalctl of another zone":  {[]string{"Nov 20 10:40:00.000000 n1 kubelet[1234]: " + paused("12:40:00", "+0200 CEST", "", setUp)}, []KubeletFailure{mount}},
		"among others":                {[]string{klog("10:00:00", "SyncLoop ADD"), "text", line, klog("10:41:00", setUp)}, []KubeletFailure{mount}},
		"later":                       {[]string{klog("10:00:00", "x"), paused("10:43:00", "+0000 UTC", "", setUp)}, nil},

		"not begun":           {[]string{notBegunAt("10:39:58", lost), notBegunAt("10:39:59", lost), line, notBegunAt("10:40:00", lost)}, []KubeletFailure{mount, unbegun(0, "uid-1")}},
		"not begun in a pass": {[]string{notBegunAt("10:40:00", lost)}, nil},
		"in two passes, and later in others": {[]string{notBegunAt("10:39:55", lost), notBegunAt("10:39:55", lost), notBegunAt("10:39:58", lost), notBegunAt("10:39:59", lost), notBegunAt("10:40:00", lost)},
			[]KubeletFailure{unbegun(0, "uid-1")}},
		"of two pods": {[]string{notBegunAt("10:39:59", lost), notBegunAt("10:40:00", strings.ReplaceAll(lost, "uid-1", "uid-2")), notBegunAt("10:40:00", lost), notBegunAt("10:40:01", lost), notBegunAt("10:40:01", strings.ReplaceAll(lost, "uid-1", "uid-2"))},
			[]KubeletFailure{unbegun(1, "uid-1")}},
		"a mount": {[]string{strings.Replace(notBegunAt("10:40:00", lost), "operationExecutor.UnmountVolume", "operationExecutor.MountVolume", 1)}, nil},

		"still mounted":         {[]string{waited("mounted volumes=[a/1 b/2]: context deadline exceeded")}, []KubeletFailure{stillMounted("a/1"), stillMounted("b/2")}},
		"another failed sync":   {[]string{waited("unprepare dynamic resources: failed"), klog("10:40:00", `"Error syncing pod, skipping" err="x" podUID="uid-1"`)}, nil},
		"a mount's failed wait": {[]string{waited("unmounted volumes=[a], unattached volumes=[], failed to process volumes=[]: context deadline exceeded")}, nil},
		"a denied deletion":     {[]string{deleting("10:40:00", "a/web-0")}, []KubeletFailure{denied(0, "a/web-0")}},
		"denied in each pass":   {[]string{deleting("10:39:50", "a/web-0"), deleting("10:40:00", "a/web-1"), deleting("10:40:01", "a/web-0")}, []KubeletFailure{denied(0, "a/web-1"), denied(1, "a/web-0")}},
		"denied, in JSON":       {[]string{`{"ts":1795171200000.0,"msg":"Failed to delete status for pod","pod":{"name":"web-0","namespace":"a"},"err":"admission webhook \"g\" denied the request: no"}`}, []KubeletFailure{denied(0, "a/web-0")}},
		"a denied status":       {[]string{strings.Replace(deleting("10:40:00", "a/web-0"), "delete status", "update status", 1)}, nil},
		"another volume":        {[]string{strings.Replace(line, aVolume+" podName", "kubernetes.io/csi/d^other podName", 1)}, nil},
		"another pod":           {[]string{paused("10:40:00", "+0000 UTC", "uid-2", tearDown)}, nil},
		"the controller's":      {[]string{strings.Replace(line, "nodeName:}", "nodeName:n1}", 1)}, nil},
		"no error":              {[]string{strings.TrimSuffix(line, setUp)}, nil},
		"in another error":      {[]string{klog("10:40:00", `"Error" err="`+strings.ReplaceAll(line, `"`, `\"`)+`"`)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, readKubelet(t, row.lines...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestKubeletOfSeveralHosts: in a log of several hosts only the lines of the node's own hosts
// count, and the lines that continue them.
func TestKubeletOfSeveralHosts(t *testing.T) {
	const setUp = `MountVolume.SetUp failed for volume "pv-1" (UniqueName: "` + aVolume + `") pod "web-0" (UID: "uid-1") : `
	failed := func(clock, why string) string { return paused(clock, "+0000 UTC", "", setUp+why) }
	for name, lines := range map[string][]string{
		"journals that were merged": {
			"Nov 20 10:40:00.000000 m0 kubenswrapper[1]: " + failed("10:40:00", "of m0"), "Nov 20 10:40:01.000000 m1.acme.io kubenswrapper[1]: " + failed("10:40:01", "of m1"),
			"	and more of it", "Nov 20 10:40:02.000000 m0 kubenswrapper[1]: " + failed("10:40:02", "of m0"), "	and more of m0's",
		},
		"files behind the names of nodes": {"m0 " + failed("10:40:00", "of m0"), "m1 " + failed("10:40:01", "of m1"), "	and more of it", "m0 " + failed("10:40:02", "of m0")},
	} {
		failures, err := ReadKubelet(strings.NewReader(strings.Join(lines, "\n")), now, "m1", "m1.acme.io")
		if err != nil || len(failures) != 1 || !strings.Contains(failures[0].Message, "of m1") || strings.Contains(failures[0].Message, "m0") {
			t.Errorf("%s: %v %+v", name, err, failures)
		}
		if _, err := ReadKubelet(strings.NewReader(strings.Join(lines, "\n")), now, "m2"); !errors.Is(err, ErrOtherHosts) {
			t.Errorf("%s: of another node: %v", name, err)
		}
	}
}

// TestKubeletZone: a journal in local time that shows its zone nowhere is not read as one of UTC.
func TestKubeletZone(t *testing.T) {
	journal := func(at, clock string) string { return "Nov 20 " + at + ".000000 n1 kubelet[1234]: " + klog(clock, "x") }
	for name, row := range map[string]struct {
		log  string
		want error
	}{
		"its end is later than the objects":      {journal("10:30:00", "10:30:00") + "\n" + journal("12:30:00", "12:30:00"), ErrZoneUnknown},
		"all of it is by more than any zone":     {"Nov 21 01:30:00.000000 n1 kubelet[1234]: " + strings.Replace(klog("01:30:00", "x"), "I1120", "I1121", 1), ErrZoneUnknown},
		"it was taken a little later":            {journal("10:30:00", "10:30:00") + "\n" + journal("10:59:00", "10:59:00"), nil},
		"a line shows it":                        {journal("12:30:00", "12:30:00") + "\n" + journal("12:35:00", "12:35:00") + "\nNov 20 12:40:00.000000 n1 kubelet[1234]: " + paused("12:40:00", "+0200 CEST", "", "x"), nil},
		"the journal is in UTC, the kubelet not": {journal("10:30:00", "12:30:00"), nil},
		"each line has its zone":                 {"2026-11-20T12:30:00+02:00 n1 kubelet[1234]: " + klog("12:30:00", "x"), nil},
		"in JSON, and taken later":               {`{"ts":1795178400000.0,"msg":"x"}`, nil},
	} {
		if _, err := ReadKubelet(strings.NewReader(row.log), now); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", name, err, row.want)
		}
	}
}

func (f KubeletFailure) of(pod string) KubeletFailure {
	f.Pod = types.UID(pod)
	return f
}

func TestKubeletHidesSecrets(t *testing.T) {
	failures := readKubelet(t, paused("10:40:00", "+0000 UTC", "", `MountVolume.SetUp failed for volume "pv-1" (UniqueName: "`+aVolume+`") pod "web-0" (UID: "uid-1") : mount -o password=hunter2 failed`))
	if len(failures) != 1 || strings.Contains(failures[0].Message, "hunter2") {
		t.Errorf("%+v", failures)
	}
}

func TestNoKubeletLog(t *testing.T) {
	for _, bad := range []string{"", "<pre>\n<a href=\"kubelet.log\">kubelet.log</a>\n</pre>\n", "-- No entries --\n", `{"kind":"Status"}`} {
		if _, err := ReadKubelet(strings.NewReader(bad), now); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzKubelet: whatever a node's log holds, the kept failures are bounded, in order and valid
// text.
func FuzzKubelet(f *testing.F) {
	f.Add(paused("10:40:00", "+0000 UTC", "", `MountVolume.SetUp failed for volume "pv-1" (UniqueName: "`+aVolume+`") pod "web-0" (UID: "uid-1") : no device`))
	f.Add("Nov 20 10:40:00.000300 n1 kubelet[1234]: " + paused("12:40:00", "+0200 CEST", "uid-1", `UnmountVolume.TearDown failed for volume "`+aVolume+`" (UniqueName: "`+aVolume+`") pod "uid-1" (UID: "uid-1") : busy`))
	f.Add(paused("10:40:00", "-0330 NST", "", `UnmountDevice failed for volume "pv-1" (UniqueName: "`+aVolume+`") on node "n1" : busy`))
	f.Add(paused("10:40:00", "+0000 UTC", "", `MountVolume.SetUp failed for volume "pv-`+"\xe7\xe7"+`" (UniqueName: "`+aVolume+`") pod "web-0" (UID: "uid-1") : no device`))
	f.Fuzz(func(t *testing.T, text string) {
		failures, err := ReadKubelet(strings.NewReader(text), now)
		if err != nil {
			return
		}
		for i, f := range failures {
			if f.Volume == "" && f.Undeleted == "" || len(f.Message) > 3*maxError || !utf8.ValidString(f.Message) || i > 0 && f.At.Before(failures[i-1].At) {
				t.Errorf("%+v", f)
			}
		}
	})
}

// TestKubeletKeepsTheReason: a text with long paths goes on in further lines, and the last one
// says why. A text that is longer than what is kept loses its middle, and no secret with it.
func TestKubeletKeepsTheReason(t *testing.T) {
	path := "/var/lib/kubelet/pods/" + strings.Repeat("uid-1", 8) + "/volume-subpaths/" + strings.Repeat("pv-1", 30)
	cleaning := func(path string) []string {
		return []string{
			paused("10:40:00", "+0000 UTC", "uid-1", `error cleaning subPath mounts for volume "`+aVolume+`" (UniqueName: "`+aVolume+`") pod "uid-1" (UID: "uid-1") : `+
				"error processing "+path+"/main: error cleaning subpath mount "+path+"/main/0: unmount failed: exit status 32"),
			"Unmounting arguments: " + path + "/main/0", "Output: umount: " + path + "/main/0: target is busy.",
		}
	}
	for name, path := range map[string]string{"long": path, "longer": path + strings.Repeat("/long", 200), "with a secret": path + strings.Repeat("/é password=hunter2", 60)} {
		failures := readKubelet(t, cleaning(path)...)
		if len(failures) != 1 || !strings.HasPrefix(failures[0].Message, "error cleaning subPath mounts for volume") || !strings.HasSuffix(failures[0].Message, "target is busy.") {
			t.Fatalf("%s: %+v", name, failures)
		}
		if m := failures[0].Message; len(m) > 2*maxError || strings.Contains(m, "hunter2") || !utf8.ValidString(m) {
			t.Errorf("%s: %d bytes: %s", name, len(m), m)
		}
	}
}
