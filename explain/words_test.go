package explain

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
)

var placeholder = regexp.MustCompile(`\{(?:\.\.\.)?\}`)

// TestExplainKnowsAllWords: an event line with the words of any entry is explained as Find
// explains it for the entry's driver. Words that only wrap a cause, and those of Kubernetes
// itself, get no driver's verdict; each word has a speaker.
func TestExplainKnowsAllWords(t *testing.T) {
	for _, e := range driverwords.Entries() {
		line := `Warning  FailedMount  kubelet  MountVolume.SetUp failed for volume "pv-1" : ` + placeholder.ReplaceAllString(e.Words, "x1")
		want, _ := driverwords.Find(strings.TrimSuffix(e.Driver(), "*"), line)
		about, _ := want.Meaning.About()
		var out bytes.Buffer
		if !sayMeaning(&out, line) {
			t.Errorf("%q is not explained", line)
		}
		if want.Wrapper && slices.ContainsFunc(whatItMeans(line), func(e driverwords.Entry) bool { return !e.Wrapper }) {
			continue // the wrapped words are known
		}
		parts := []string{"Said by   ", about.Says, whoActs(want, line), step.Plain(want.Helps), "explain VD411"}
		if s := spoken(line); s != nil {
			parts = []string{"Said by   " + s.by, s.means, "kubectl volume-doctor diagnose pod/NAME"}
		} else if want.Wrapper {
			parts = []string{"Said by   ", saysOf(want), "The cause is not in these words", "kubectl volume-doctor diagnose pod/NAME"}
			if strings.Contains(out.String(), "Who acts") || strings.Contains(out.String(), "Reading from or writing to the storage") {
				t.Errorf("%q wraps a cause, and gets a verdict:\n%s", e.Words, out.String())
			}
		}
		for _, part := range parts {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%q of %s: no %q in\n%s", e.Words, e.Driver(), part, out.String())
			}
		}
	}
}

// TestEventsHaveTheirCauseFirst: of a pasted list of events the first card is the cause, with the
// page of its own step; a wait, and what is Normal, come behind it or not at all.
func TestEventsHaveTheirCauseFirst(t *testing.T) {
	const cause = `  Warning  FailedAttachVolume  90s (x12 over 12m)  attachdetach-controller  AttachVolume.Attach failed for volume "pvc-1" : rpc error: code = NotFound desc = Volume "vol-1" not found` + "\n"
	const wait = `  Warning  FailedMount         60s (x5 over 10m)   kubelet                  Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data]: timed out waiting for the condition` + "\n"
	const normal = "Events:\n  Type     Reason              Age                   From                     Message\n" +
		"  Normal   Scheduled           12m                 default-scheduler        Successfully assigned shop/web-0 to n1\n"
	for _, events := range []string{normal + cause + wait, normal + wait + cause + wait, cause} {
		var out bytes.Buffer
		if err := Words(&out, events); err != nil {
			t.Fatal(err)
		}
		first, rest, _ := strings.Cut(out.String(), "\n\n\"")
		if !strings.Contains(first, "the attach/detach controller passes it on") || !strings.Contains(first, "explain VD410\n") || strings.Contains(first, "explain VD411\n") {
			t.Errorf("the first card is not the cause's:\n%s", first)
		}
		if waits := strings.Count(rest, "it waited in vain"); waits != min(1, strings.Count(events, "unmounted volumes=")) {
			t.Errorf("%d cards of the wait:\n%s", waits, rest)
		}
	}
}

func TestExplainWordsNamesPages(t *testing.T) {
	for line, want := range map[string]string{
		`AttachVolume.Attach failed for volume "pv-1" : rpc error: code = Internal desc = UnauthorizedOperation: You are not authorized to perform this operation`: "VD410",
		`FailedAttachVolume AttachVolume.Attach failed for volume "pv-1" : CSINode n1 does not contain driver ebs.csi.aws.com`:                                     "VD602",
		`detachError: rpc error: code = NotFound desc = node n1 was not found`:                                                                                     "VD103",
		`MountVolume.SetUp failed for volume "settings" : configmap "app" not found`:                                                                               "VD411",
		`rpc error: code = Internal desc = rbd image pool/csi-vol-1 is still being used`:                                                                           "VD404",
		`csi.trident.netapp.io says AttachVolume.Attach failed for volume "pv-1" : rpc error: code = NotFound desc = node worker-1 was not found`:                  "VD620",
	} {
		var out bytes.Buffer
		sayMeaning(&out, line)
		if !strings.Contains(out.String(), "explain "+want+"\n") {
			t.Errorf("%q: no page %s in\n%s", line, want, out.String())
		}
	}
	if sayMeaning(&bytes.Buffer{}, "all is well") {
		t.Error("words without an error are explained")
	}
	for meaning, code := range pagesOfMeanings {
		if !slices.ContainsFunc(diagnose.Checks(), func(c check.Check) bool { return c.Code == finding.Code(code) }) {
			t.Errorf("%s: there is no page %s", meaning, code)
		}
	}
}

// TestSaid: each entry is on its driver's page, with its meaning and source; each number is
// on its tool's page; and every name leads to a page.
func TestSaid(t *testing.T) {
	all, _ := Said(driversPage)
	for _, e := range driverwords.Entries() {
		page := all
		if len(e.Drivers) > 0 {
			page, _ = Said(e.Driver())
		}
		for _, part := range []string{e.Words, string(e.Meaning), string(e.Actor), step.Plain(e.Helps), e.Source} {
			if !strings.Contains(page, part) {
				t.Errorf("%q of %s: its page lacks %q", e.Words, e.Driver(), part)
			}
		}
	}
	drivers, tools := driverwords.Speakers()
	for _, name := range slices.Concat(drivers, tools) {
		if page, ok := Said(name); !ok || !strings.Contains(all, "\n- "+name+"\n") || strings.Count(page, "\n") < 4 {
			t.Errorf("%s has no page", name)
		}
	}
	if page, _ := Said("iscsiadm"); !strings.Contains(page, "iscsiadm 15, ") {
		t.Error(page)
	}
	if page, ok := Said("rook-ceph.rbd.csi.ceph.com"); !ok || !strings.Contains(page, "rbd") {
		t.Error(page)
	}
	if _, ok := Said("no.such.driver"); ok {
		t.Error("a driver whose words nobody knows has a page")
	}
}

// TestMessages: each message of a component names a known speaker, its meaning and a page.
func TestMessages(t *testing.T) {
	all := slices.AppendSeq(slices.Clone(sentences), maps.Values(reasons))
	for _, s := range all {
		if !slices.Contains(slices.Collect(maps.Values(speakers)), s.by) || s.means == "" || len(s.codes) == 0 || slices.Contains(s.words, "") {
			t.Errorf("%+v", *s)
		}
	}
	if len(all) < 90 {
		t.Errorf("only %d messages", len(all))
	}
}
