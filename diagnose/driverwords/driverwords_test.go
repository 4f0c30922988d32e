package driverwords

import (
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheTableIsLarge(t *testing.T) {
	entries, drivers := Entries(), map[string]int{}
	for _, e := range entries {
		drivers[e.Driver()]++
	}
	delete(drivers, "")
	if len(drivers) < 25 || len(entries) < 250 {
		t.Errorf("the table has %d drivers and %d entries, want at least 25 and 250", len(drivers), len(entries))
	}
	for driver, count := range drivers {
		if count < 3 {
			t.Errorf("%s has %d entries, want at least 3", driver, count)
		}
	}
}

// sourceForm is "owner/repository path@ref", one or several, or the address of a
// thread.
var sourceForm = regexp.MustCompile(`^(https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+|[\w.-]+/[\w.-]+ [\w./-]+@[\w.-]+(, [\w.-]+/[\w.-]+ [\w./-]+@[\w.-]+)*)$`)

func TestEntriesAreWellFormed(t *testing.T) {
	actors := []Actor{StorageAdmin, ClusterAdmin, NodeAdmin, WorkloadOwner, Nobody}
	for _, e := range Entries() {
		about, known := e.Meaning.About()
		if !known {
			t.Errorf("%q: no meaning %q", e.Words, e.Meaning)
		}
		if !slices.Contains(actors, e.Actor) {
			t.Errorf("%q: no actor %q", e.Words, e.Actor)
		}
		if !sourceForm.MatchString(e.Source) {
			t.Errorf("%q: source %q has not the form of one", e.Words, e.Source)
		}
		if !isSentence(step.Plain(e.Helps)) || !isSentence(about.Says) {
			t.Errorf("%q: %q and %q should be sentences on one line", e.Words, e.Helps, about.Says)
		}
		for _, literal := range compile(e.Words).literals {
			if strings.TrimSpace(literal) == "" && literal != " " {
				t.Errorf("%q begins or ends with a placeholder, or has two in a row", e.Words)
			}
		}
		if p := compile(e.Words); len(p.literals[p.anchor]) < gramLength {
			t.Errorf("%q has no literal that is long enough to be found", e.Words)
		}
	}
}

func isSentence(text string) bool {
	return text != "" && strings.HasSuffix(text, ".") && text == strings.TrimSpace(text) && !strings.Contains(text, "\n")
}

func TestEveryMeaningIsInUse(t *testing.T) {
	used := map[Meaning]bool{
		NodeGone:      true, // no words mean it: the objects do (facts.View.Settled)
		MapperMissing: true, // the device that the words name shows it
	}
	for _, e := range Entries() {
		used[e.Meaning] = true
	}
	for _, tool := range tools {
		for _, n := range numbers[tool.name] {
			used[n.meaning] = true
		}
	}
	for meaning := range meanings {
		if !used[meaning] {
			t.Errorf("no entry means %s", meaning)
		}
	}
}

func TestNoWordsTwice(t *testing.T) {
	type key struct{ driver, words string }
	seen := map[key]bool{}
	for _, e := range Entries() {
		drivers := e.Drivers
		if len(drivers) == 0 {
			drivers = []string{""}
		}
		for _, driver := range drivers {
			k := key{driver, strings.ToLower(e.Words)}
			if seen[k] {
				t.Errorf("%q says %q twice", driver, e.Words)
			}
			seen[k] = true
		}
	}
}

func TestDriverNames(t *testing.T) {
	const message = `rpc error: code = Internal desc = rbd image replicapool/csi-vol-1 is still being used`
	for driver, want := range map[string]bool{
		"rbd.csi.ceph.com":           true,
		"rook-ceph.rbd.csi.ceph.com": true,
		"xrbd.csi.ceph.com":          false,
		"rbd.csi.ceph.com.example":   false,
		"":                           false,
	} {
		if e, ok := Find(driver, message); (ok && e.Driver() == "rbd.csi.ceph.com") != want {
			t.Errorf("%q: found %q of %q, want the entry of rbd: %v", driver, e.Words, e.Driver(), want)
		}
	}
	if e, ok := Find("org.democratic-csi.truenas-iscsi", "unable to attach any iscsi devices"); !ok || e.Driver() != "org.democratic-csi.*" {
		t.Errorf("found %+v for a named instance of democratic-csi", e)
	}
}

func TestTheMostSpecificEntryIsFound(t *testing.T) {
	for _, c := range []struct {
		name, driver, message string
		meaning               Meaning
	}{
		{"own words go before those for any driver", "rbd.csi.ceph.com",
			"rpc error: code = Internal desc = rbd: map failed with error an error (exit status 108) occurred while running rbd args: [map p/i]: permission denied", ClientBlocked},
		{"what the tool says goes before the driver's wrapper", "rbd.csi.ceph.com",
			"rpc error: code = Internal desc = rbd: map failed with error an error (exit status 6) occurred while running rbd args: [map p/i], rbd error output: RBD image feature set mismatch", NodeIncompatible},
		{"the longer text goes before the shorter one", "efs.csi.aws.com",
			"rpc error: code = Internal desc = mount failed: exit status 32 Output: mount.nfs: access denied by server while mounting 10.0.0.1:/s: permission denied", PermissionDenied},
		{"a code is the last resort", "unknown.example.com", "rpc error: code = Unavailable desc = words of nobody", DriverUnavailable},
		{"a driver's entry is not for others", "other.example.com", "rpc error: code = Unavailable desc = failed to publish volume: server is locked", DriverUnavailable},
		{"a Secret that may not be read is not a missing one", "",
			`failed to load secret "rook-ceph/s1": secrets "s1" is forbidden: User "system:serviceaccount:rook-ceph:sa" cannot get resource "secrets" in API group ""`, PermissionDenied},
		{"a driver's socket that refuses is no network", "ebs.csi.aws.com",
			`rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /csi/csi.sock: connect: connection refused"`, DriverUnavailable},
		{"an address that refuses is the network", "ebs.csi.aws.com", "rpc error: code = Internal desc = dial tcp 10.0.0.1:443: connect: connection refused", Unreachable},
	} {
		if e, ok := Find(c.driver, c.message); !ok || e.Meaning != c.meaning {
			t.Errorf("%s: found %q, which means %s; want %s", c.name, e.Words, e.Meaning, c.meaning)
		}
	}
	if e, ok := Find("ebs.csi.aws.com", "all is well"); ok {
		t.Errorf("found %q in a message without an error", e.Words)
	}
}

func TestPlaceholders(t *testing.T) {
	p := compile("volume {} on node {} failed: {...}, giving up")
	for message, want := range map[string]bool{
		"volume a on node b failed: no route, giving up":                         true,
		"a volume a on node b failed: no\nroute, giving up now":                  true,
		"volume a b on node c failed: x, giving up":                              false,
		"volume on node b failed: x, giving up":                                  false,
		"myvolume a on node b failed: x, giving up":                              false,
		"volume a on node b failed: x, giving upwards":                           false,
		"volume a on node b failed: , giving up":                                 false,
		"volume x volume a on node b failed: x, giving up":                       true,
		"volume a on node b failed: x, giving u, giving up":                      true,
		"volume a on node b failed: " + strings.Repeat("x", 500) + ", giving up": false,
	} {
		found := false
		for at := range message {
			found = found || strings.HasPrefix(message[at:], p.literals[p.anchor]) && p.matches(message, at)
		}
		if found != want {
			t.Errorf("%q: matches %v, want %v", message, found, want)
		}
	}
}

// Whatever values a driver puts into its words, they are found: by their entry or
// by a more specific one.
func TestWordsAreFoundWithAnyValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, len(table)-1).Draw(t, "entry")
		words := placeholders.ReplaceAllStringFunc(table[n].Words, func(placeholder string) string {
			if placeholder == anyText {
				return rapid.StringMatching(`[a-z]( ?[A-Za-z0-9:"]){0,60}`).Draw(t, "text")
			}
			return rapid.StringMatching(`[A-Za-z0-9/_."'-]{1,60}`).Draw(t, "value")
		})
		driver := strings.TrimSuffix(table[n].Driver(), "*")
		message := rapid.StringMatching(`([a-z]{1,9} ){0,9}`).Draw(t, "before") + words + rapid.StringMatching(`( [a-z]{1,9}){0,9}`).Draw(t, "after")
		got, ok := Find(driver, message)
		found := slices.IndexFunc(table, func(e Entry) bool { return e.Words == got.Words && e.Driver() == got.Driver() })
		if !ok || found != n && !moreSpecific(found, n) {
			t.Errorf("%q of %q explains %q, want %q", got.Words, got.Driver(), message, table[n].Words)
		}
	})
}

// No message makes Find fail.
func TestFindTakesAnyMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.Map(rapid.IntRange(0, len(table)-1), func(n int) string {
			return placeholders.ReplaceAllString(table[n].Words, "")
		})), 0, 5).Draw(t, "pieces")
		driver, message := rapid.String().Draw(t, "driver"), strings.Join(pieces, "")
		one, found := Find(driver, message)
		if two, again := Find(driver, message); found != again || one.Words != two.Words {
			t.Errorf("%q is explained by %q and by %q", message, one.Words, two.Words)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	const message = `AttachVolume.Attach failed for volume "pvc-0b1c" : rpc error: code = Internal desc = Could not attach volume "vol-0dd1" to node "i-0aa2": ` +
		`attachment of disk "vol-0dd1" failed, expected device to be attached but was attaching`
	for b.Loop() {
		if _, ok := Find("ebs.csi.aws.com", message); !ok {
			b.Fatal("nothing found")
		}
	}
}

// TestHelpSaysWhatItRestarts: of each help that deletes or restarts something it is known
// what that is, and so whom it can hit.
func TestHelpSaysWhatItRestarts(t *testing.T) {
	steps := 0
	check := func(help string) {
		steps += len(step.Kinds(help))
	}
	for _, e := range Entries() {
		check(e.Helps)
	}
	for _, about := range meanings {
		check(about.Helps)
	}
	if steps < 30 {
		t.Errorf("only %d steps are told", steps)
	}
}
