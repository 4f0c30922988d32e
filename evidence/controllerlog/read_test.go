package controllerlog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var now = time.Date(2026, 11, 20, 10, 42, 0, 0, time.UTC)

// klog is a text line with klog's header at a time of day of now.
func klog(clock, rest string) string { return "I1120 " + clock + ".000000       1 file.go:1] " + rest }

func structured(clock, msg, rest string) string {
	return klog(clock, fmt.Sprintf(`%q logger="persistentvolume-attach-detach-controller" %s`, msg, rest))
}

const (
	of        = `volumeName="kubernetes.io/csi/d^v" node="n1"`
	forVolume = `for volume "pv" (UniqueName: "kubernetes.io/csi/d^v")`
)

var (
	flagV2   = klog("09:00:00", `FLAG: --v="2"`)
	begins   = structured("09:00:01", starting, "")
	attach   = structured("10:00:00", attachStarted, `volumeName="kubernetes.io/csi/d^v" nodeName="n1" scheduledPods=["default/p"]`)
	attached = klog("10:00:02", attachSucceeded+" "+forVolume+` from node "n1" `)
	refused  = klog("10:41:51", `Operation for "{volumeName:kubernetes.io/csi/d^v podName: nodeName:}" failed. No retries permitted until `+
		`2026-11-20 10:42:07.5 +0000 UTC m=+6126.5 (durationBeforeRetry 16s). Error: AttachVolume.Attach failed `+forVolume+` from node "n1" : rpc error: the disk is in use`)
	detach   = structured("10:10:00", detachStarted, of)
	detached = klog("10:10:02", detachSucceeded+" "+forVolume+` on node "n1" `)
)

func read(t *testing.T, lines ...string) *snapshot.Controller {
	t.Helper()
	c, err := Read(strings.NewReader(strings.Join(lines, "\n")+"\n"), Options{Now: now, Release: "v1.36.3"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// one is the only pair that the log mentions.
func one(t *testing.T, c *snapshot.Controller) snapshot.RememberedPair {
	t.Helper()
	if len(c.Pairs) != 1 || c.Pairs[0].Volume != "kubernetes.io/csi/d^v" || c.Pairs[0].Node != "n1" {
		t.Fatalf("pairs: %+v", c.Pairs)
	}
	return c.Pairs[0]
}

func clock(hour, minute, second int) *time.Time {
	at := time.Date(2026, 11, 20, hour, minute, second, 0, time.UTC)
	return &at
}

// TestMemory: what single lines, and their order, prove about a pair.
func TestMemory(t *testing.T) {
	const (
		absent, unsure, sure = snapshot.RememberedAbsent, snapshot.RememberedUncertain, snapshot.RememberedAttached
	)
	tests := []struct {
		name  string
		lines []string
		want  []snapshot.Remembered
		since *time.Time
	}{
		{"attach begun", []string{begins, attach}, []snapshot.Remembered{absent, unsure}, clock(10, 0, 0)},
		{"attached", []string{flagV2, begins, attach, attached}, []snapshot.Remembered{sure}, clock(10, 0, 2)},
		{"attached, and a log without the lines about what is forgotten", []string{begins, attach, attached}, []snapshot.Remembered{absent, sure}, clock(10, 0, 2)},
		{"the line about the begin comes late", []string{flagV2, begins, attached, structured("10:00:02", attachStarted, `volumeName="kubernetes.io/csi/d^v" nodeName="n1"`)},
			[]snapshot.Remembered{sure}, clock(10, 0, 2)},
		{"attach refused", []string{begins, attach, refused}, []snapshot.Remembered{unsure}, clock(10, 41, 51)},
		{"detach begun", []string{flagV2, begins, detach}, []snapshot.Remembered{unsure, sure}, clock(10, 10, 0)},
		{"detach begun after an attach", []string{flagV2, begins, attach, attached, detach}, []snapshot.Remembered{sure}, clock(10, 0, 2)},
		{"detached", []string{begins, detach, detached}, []snapshot.Remembered{absent}, clock(10, 10, 2)},
		{"forgotten", []string{begins, klog("10:20:00", `VerifyVolumesAreAttached determined volume "kubernetes.io/csi/d^v" (spec.Name: "pv") is no longer attached to node "n1", therefore it was marked as detached.`)},
			[]snapshot.Remembered{absent}, clock(10, 20, 0)},
		{"found when it started", []string{begins, structured("09:00:02", uncertain, of)}, []snapshot.Remembered{unsure}, clock(9, 0, 2)},
		{"holds another back", []string{flagV2, begins, structured("10:30:00", multiAttach+"volume is already used by pods", `pods=["default/p"] attachedTo=["n1"] volume={"VolumeName":"kubernetes.io/csi/d^v","NodeName":"n2"}`)},
			[]snapshot.Remembered{sure}, clock(10, 30, 0)},
		{"only forVolume", []string{begins, structured("10:30:00", alreadyAdded, of)}, nil, nil},
		{"started again", []string{attach, attached, structured("10:30:00", starting, ""), structured("10:30:00", alreadyAdded, of)}, nil, nil},
		{"up to 1.26", []string{klog("09:00:00", starting),
			klog("10:30:00", `"attacherDetacher.DetachVolume started" volume={AttachedVolume:{VolumeName:kubernetes.io/csi/d^v VolumeSpec:0xc0 NodeName:n1 PluginIsAttachable:true} MountedByNode:false}`),
			klog("10:30:01", detachSucceeded+" "+forVolume+` on node "n1" `)}, []snapshot.Remembered{absent}, clock(10, 30, 1)},
		{"up to 1.26, found when it started", []string{klog("09:00:00", starting), klog("09:00:01", `Marking volume attachment as uncertain as volume:"kubernetes.io/csi/d^v" ("n1") is not attached (Detached)`)},
			[]snapshot.Remembered{unsure}, clock(9, 0, 1)},
		{"in JSON", []string{`{"ts":1795168800000.5,"caller":"a/b.go:1","msg":"Starting attach detach controller","logger":"l","v":0}`,
			`{"ts":1795168860000,"msg":"attacherDetacher.DetachVolume started","node":{"name":"n1"},"volumeName":"kubernetes.io/csi/d^v","v":0}`,
			`{"ts":1795168861000,"msg":"DetachVolume.Detach succeeded for volume \"pv\" (UniqueName: \"kubernetes.io/csi/d^v\") on node \"n1\" \n","v":0}`},
			[]snapshot.Remembered{absent}, new(time.UnixMilli(1795168861000).UTC())},
		{"from a container's file", []string{"2026-11-20T09:00:01.5Z stderr F " + begins, "2026-11-20T10:10:02.000000005Z stderr F " + detached}, []snapshot.Remembered{absent},
			new(time.Date(2026, 11, 20, 10, 10, 2, 5, time.UTC))},
		{"from kubectl logs --prefix --timestamps", []string{"[pod/kcm/kcm] 2026-11-20T12:10:02+02:00 " + detached}, []snapshot.Remembered{absent}, clock(10, 10, 2)},
		{"from Docker", []string{`{"log":"` + strings.ReplaceAll(detached, `"`, `\"`) + `\n","stream":"stderr","time":"2026-11-20T10:10:02Z"}`}, []snapshot.Remembered{absent}, clock(10, 10, 2)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := one(t, read(t, test.lines...))
			if !slices.Equal(p.States, test.want) || !cmp.Equal(p.Since, test.since) {
				t.Errorf("%v since %v, want %v since %v", p.States, p.Since, test.want, test.since)
			}
		})
	}
}

// TestFailedDetachByRelease: the state after a failed detach changed in a patch release; the
// log's own release takes precedence over the API server's.
func TestFailedDetachByRelease(t *testing.T) {
	failed := strings.ReplaceAll(strings.ReplaceAll(refused, "AttachVolume.Attach", "DetachVolume.Detach"), "from node", "on node")
	for release, want := range map[string][]snapshot.Remembered{
		"v1.36.3": {snapshot.RememberedUncertain},
		"v1.28.2": {snapshot.RememberedAttached},
		"":        {snapshot.RememberedUncertain, snapshot.RememberedAttached},
	} {
		text := strings.Join([]string{flagV2, begins, attach, attached, detach, failed}, "\n")
		c, err := Read(strings.NewReader(text), Options{Now: now, Release: release})
		if err != nil {
			t.Fatal(err)
		}
		if p := one(t, c); !slices.Equal(p.States, want) || p.LastError != "rpc error: the disk is in use" {
			t.Errorf("%q: %+v, want %v", release, p, want)
		}
	}
	own := read(t, flagV2, klog("08:59:59", `"Starting" version="v1.28.2"`), begins, attach, attached, detach, failed)
	if p := one(t, own); own.Release != "v1.28.2" || p.States[0] != snapshot.RememberedAttached {
		t.Errorf("%s: %v", own.Release, p.States)
	}
}

// TestNextAttempt: when the next attempt is, for which nodes, and what ends the pause.
func TestNextAttempt(t *testing.T) {
	until := time.Date(2026, 11, 20, 10, 42, 7, 500_000_000, time.UTC)
	refusedOn := func(node, spec string) string {
		return strings.Replace(strings.Replace(refused, "nodeName:}", "nodeName:"+node+"}", 1), `"pv"`, `"`+spec+`"`, 1)
	}
	elsewhere := structured("10:41:55", attachStarted, `volumeName="kubernetes.io/csi/d^v" nodeName="n2"`)
	tests := []struct {
		name  string
		lines []string
		want  []snapshot.BackOff
	}{
		{"for all nodes", []string{attach, refused}, []snapshot.BackOff{{Volume: "kubernetes.io/csi/d^v", Operation: snapshot.AttachOperation, Until: until}}},
		{"for one node", []string{attach, refusedOn("n1", "pv")}, []snapshot.BackOff{{Volume: "kubernetes.io/csi/d^v", Node: "n1", Operation: snapshot.AttachOperation, Until: until}}},
		{"tried again", []string{refused, strings.Replace(attach, "10:00:00", "10:42:00", 1)}, nil},
		{"it went well after all", []string{refused, strings.Replace(attached, "10:00:02", "10:42:00", 1)}, nil},
		{"another operation begins anew", []string{refused, strings.Replace(detach, "10:10:00", "10:41:58", 1)}, nil},
		{"one for many nodes goes on elsewhere", []string{refusedOn("n1", "pv"), elsewhere}, []snapshot.BackOff{{Volume: "kubernetes.io/csi/d^v", Node: "n1", Operation: snapshot.AttachOperation, Until: until}}},
		{"one of unknown kind goes on elsewhere", []string{refusedOn("n1", "nil"), elsewhere},
			[]snapshot.BackOff{{Volume: "kubernetes.io/csi/d^v", Node: "n1", Operation: snapshot.AttachOperation, Until: until, Doubtful: true}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := read(t, append([]string{flagV2, begins}, test.lines...)...)
			if diff := cmp.Diff(test.want, c.BackOffs); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestZone: klog's times have none, and a back-off's has one.
func TestZone(t *testing.T) {
	at := strings.NewReplacer("10:42:07.5 +0000 UTC m=+6126.5", "12:42:07.5 +0200 CEST", "1120 10:", "1120 12:", "1120 09:", "1120 11:")
	c, err := Read(strings.NewReader(at.Replace(begins+"\n"+refused)), Options{Now: now.Add(3 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Started.Equal(*clock(9, 0, 1)) || !c.Last.Equal(*clock(10, 41, 51)) || !c.BackOffs[0].Until.Equal(time.Date(2026, 11, 20, 10, 42, 7, 5e8, time.UTC)) {
		t.Errorf("started %s, last %s, until %s", c.Started, c.Last, c.BackOffs[0].Until)
	}
}

// TestYear: a log of New Year's Eve, read after it.
func TestYear(t *testing.T) {
	text := "I1231 23:59:59.000000 1 a.go:1] \"Starting attach detach controller\"\nI0101 00:00:01.000000 1 a.go:1] \"x\"\n"
	c, err := Read(strings.NewReader(text), Options{Now: time.Date(2027, 1, 1, 0, 10, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Started.Year() != 2026 || c.Last.Year() != 2027 || c.Last.Sub(*c.Started) != 2*time.Second {
		t.Errorf("%s to %s", c.Started, c.Last)
	}
}

// TestWhatIsNotProven: a log that begins late, ends early or goes back in time proves less.
func TestWhatIsNotProven(t *testing.T) {
	if c := read(t, attach); c.Started != nil {
		t.Errorf("a log without the start has one: %s", c.Started)
	}
	if c := read(t, begins, attach, structured("10:05:00", shutdown, "")); c.Started != nil || len(c.Pairs) > 0 {
		t.Errorf("a controller that has ended remembers: %+v", c)
	}
	if c := read(t, begins, attach, attached, structured("10:50:00", detachStarted, of), detached); len(c.Pairs) != 1 || c.Pairs[0].Running != "" || !c.Last.Equal(*clock(10, 0, 2)) {
		t.Errorf("what was logged after the objects were read counts: %+v", c)
	}
	if c := read(t, begins, attach, attached, klog("09:30:00", "another process")); c.Started != nil || len(c.Pairs) > 0 {
		t.Errorf("two logs put together prove something: %+v", c)
	}
	if c := read(t, begins, structured("10:00:00", "something new", `claim="x" target="kubernetes.io/csi/d^v2"`)); !slices.Contains(c.Unclear, "kubernetes.io/csi/d^v2") {
		t.Errorf("a volume in a line that is not known is not noticed: %+v", c)
	}
}

// TestHostile: a driver's hostile text, and hostile files.
func TestHostile(t *testing.T) {
	said := refused + "\x1b[31m password=hunter2 " + strings.Repeat("long ", 1000)
	c := read(t, begins, attach, said, strings.Repeat("x", 10<<20), "I1120 99:99:99.999999 1 a.go:1] x", "\x00\xff\xfe")
	p := one(t, c)
	if len(p.LastError) > maxError+10 || strings.Contains(p.LastError, "hunter2") || !utf8.ValidString(p.LastError) {
		t.Errorf("kept of the error: %q", p.LastError)
	}
	c = read(t, begins, `I1120 10:00:00.000000 1 a.go:1] "attacherDetacher.AttachVolume started" x="volumeName=\"kubernetes.io/csi/d^forged\" nodeName=\"n9\""`)
	if len(c.Pairs) > 0 {
		t.Errorf("a key within a value is taken for one: %+v", c.Pairs)
	}
	for _, bad := range []string{"", "hello\n", `{"apiVersion":"v1"}`, "I1120 10:50:00.000000 1 a.go:1] later\n", strings.Repeat("\n", 1000)} {
		if _, err := Read(strings.NewReader(bad), Options{Now: now}); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzRead reads any file: the kept memory is bounded, sorted and valid text.
func FuzzRead(f *testing.F) {
	f.Add(strings.Join([]string{flagV2, begins, attach, attached, detach, detached, refused}, "\n"))
	f.Add(`{"ts":1795168860000,"msg":"attacherDetacher.DetachVolume started","node":{"name":"n1"},"volumeName":"kubernetes.io/csi/d^v","v":2}`)
	f.Add(`{"log":"` + strings.ReplaceAll(detached, `"`, `\"`) + `\n","stream":"stderr","time":"2026-11-20T10:10:02Z"}`)
	f.Add("2026-11-20T10:10:02Z stderr F " + structured("10:00:00", multiAttach, `attachedTo=["n1"] volume={"VolumeName":"kubernetes.io/csi/d^v"}`))
	f.Add(structured("10:00:00", "x", "err=<\n\tkubernetes.io/csi/d^v\n >"))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Read(strings.NewReader(text), Options{Now: now})
		if err != nil {
			return
		}
		if c.Last.After(now) || c.Last.Before(c.First) {
			t.Errorf("from %s to %s, read at %s", c.First, c.Last, now)
		}
		if !slices.IsSortedFunc(c.Pairs, func(a, b snapshot.RememberedPair) int {
			return strings.Compare(string(a.Volume)+"\x00"+string(a.Node), string(b.Volume)+"\x00"+string(b.Node))
		}) {
			t.Errorf("not sorted: %v", c.Pairs)
		}
		for _, p := range c.Pairs {
			if p.Volume == "" || p.Node == "" || len(p.LastError) > maxError+10 || !utf8.ValidString(p.LastError) || len(p.States) > 2 {
				t.Errorf("%+v", p)
			}
			if (p.LastError == "") != (p.LastErrorAt == nil) || (p.Running == "") != (p.RunningSince == nil) || (p.States == nil) != (p.Since == nil) {
				t.Errorf("%+v", p)
			}
		}
	})
}
