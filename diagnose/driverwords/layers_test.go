package driverwords

import (
	"slices"
	"strings"
	"testing"
)

// reading is how one example is read without the entries that are made for it.
type reading struct {
	example example
	want    Meaning
	got     Entry
	result  string // right, near, wrong, or not at all
}

const (
	right    = "right"
	nearly   = "near"
	wrong    = "wrong"
	notAtAll = "not at all"
)

// judge compares the reading with the meaning. "It failed, and not why" is not at all.
func judge(want Meaning, got Entry, ok bool) string {
	switch {
	case !ok || got.Wrapper && got.Meaning == StorageError && want != StorageError:
		return notAtAll
	case got.Meaning == want:
		return right
	case Near(got.Meaning, want):
		return nearly
	default:
		return wrong
	}
}

// leftOut reads the examples of all families for which keep holds, each without its
// family's own entries, and those of tools without all exit codes.
func leftOut(t *testing.T, keep func(family) bool) []reading {
	t.Helper()
	examples := readExamples(t)
	var list []reading
	for _, f := range families {
		if !keep(f) {
			continue
		}
		leave := &without{numbers: len(f.drivers) == 0, entries: func(e Entry) bool {
			return slices.ContainsFunc(f.entries, func(own Entry) bool { return own.Words == e.Words }) && slices.Equal(e.Drivers, f.drivers)
		}}
		for _, e := range f.entries {
			e.Drivers = f.drivers
			if e.Wrapper && e.Meaning == StorageError {
				continue // its words say no more than that it failed
			}
			for _, x := range examples {
				if x.isFor(e) {
					got, ok := read(x.driver, x.says, leave)
					list = append(list, reading{x, e.Meaning, got, judge(e.Meaning, got, ok)})
				}
			}
		}
	}
	return list
}

func percent(list []reading, results ...string) float64 {
	count := 0
	for _, r := range list {
		if slices.Contains(results, r.result) {
			count++
		}
	}
	return 100 * float64(count) / float64(len(list))
}

func logReadings(t *testing.T, what string, list []reading) {
	t.Helper()
	t.Logf("%s: %d examples: right %.0f %%, near %.0f %%, wrong %.0f %%, not at all %.0f %%", what, len(list),
		percent(list, right), percent(list, nearly), percent(list, wrong), percent(list, notAtAll))
	for _, r := range list {
		if r.result == wrong {
			t.Logf("wrong: %s of %q is %s, read as %s (%s: %q)", r.example.says, r.example.driver, r.want, r.got.Meaning, r.got.Layer, r.got.Words)
		}
	}
}

// Each family of drivers' examples, read without its own entries.
func TestLeaveOneFamilyOut(t *testing.T) {
	list := leftOut(t, func(f family) bool { return len(f.drivers) > 0 })
	logReadings(t, "families", list)
	if good, bad := percent(list, right, nearly), percent(list, wrong); good < 60 || bad > 5 {
		t.Errorf("without the family's own entries %.1f %% are right or near and %.1f %% wrong, want at least 60 and at most 5", good, bad)
	}
}

// Each tool's examples, read without its own entries and without exit codes; and all
// messages that have a number of the tool, without its numbers alone.
func TestLeaveOneToolOut(t *testing.T) {
	list := leftOut(t, func(f family) bool { return strings.HasPrefix(f.file, "any-") && f.file != "any-kubernetes.txt" })
	logReadings(t, "tools", list)
	if good, bad := percent(list, right, nearly), percent(list, wrong); good < 60 || bad > 5 {
		t.Errorf("without the tool's own entries %.1f %% are right or near and %.1f %% wrong, want at least 60 and at most 5", good, bad)
	}
	for _, tool := range tools {
		var numbered []reading
		for _, x := range readExamples(t) {
			if !slices.ContainsFunc(Apart(x.says).Exits, func(e Exit) bool { return e.Tool == tool.name && numbers[tool.name][e.Number].meaning != "" }) {
				continue
			}
			for _, e := range Entries() {
				if x.isFor(e) {
					got, ok := read(x.driver, x.says, &without{tool: tool.name})
					numbered = append(numbered, reading{x, e.Meaning, got, judge(e.Meaning, got, ok)})
				}
			}
		}
		if len(numbered) == 0 {
			continue
		}
		logReadings(t, "numbers of "+tool.name, numbered)
		if good, bad := percent(numbered, right, nearly), percent(numbered, wrong); good < 60 || bad > 5 {
			t.Errorf("without the numbers of %s %.1f %% are right or near and %.1f %% wrong, want at least 60 and at most 5", tool.name, good, bad)
		}
	}
}

// A number stays with its tool: the same one means something else, or nothing, of another.
func TestNumbersStayWithTheirTool(t *testing.T) {
	for _, c := range []struct {
		message string
		meaning Meaning // "" where only a code or nothing is known
	}{
		{"rpc error: code = Internal desc = iscsiadm: login failed (exit status 15)", SessionExists},
		{"rpc error: code = Internal desc = iscsiadm: login failed (exit status 19)", PathsMissing},
		{"rpc error: code = Internal desc = iscsi: error logging in target: exit status 20", ToolMissing},
		{"rpc error: code = Internal desc = iscsiadm: nothing (exit status 21)", PathsMissing},
		{"rpc error: code = Internal desc = fsck of /dev/sdb: exit status 4", FilesystemDamaged},
		{"rpc error: code = Internal desc = fsck of /dev/sdb: exit status 8", DeviceMissing},
		{"rpc error: code = Internal desc = mkfs of /dev/sdb: exit status 4", ""},
		{"rpc error: code = Internal desc = something: exit status 15", ""},
		{"rpc error: code = Internal desc = something: exit status 20", ""},
		{"rpc error: code = Internal desc = an error (exit status 108) occurred while running rbd args: [map p/i]", ClientBlocked},
		{"rpc error: code = Internal desc = an error (exit status 2) occurred while running rbd args: [map p/i]", VolumeNotFound},
		{"rpc error: code = Internal desc = mount error(2): no", VolumeNotFound},
		{"rpc error: code = Internal desc = stderr: mount error 22 = Invalid argument", BadParameters},
		{"rpc error: code = Internal desc = stderr: mount error 13 = Permission denied", PermissionDenied},
		{"CIFS: VFS: cifs_mount failed w/return code = -2", VolumeNotFound},
		{"rpc error: code = Internal desc = smb mapping failed: HRESULT 0x80070035", Unreachable},
		{"rpc error: code = Internal desc = smb mapping failed: Windows System Error 1326", PermissionDenied},
		{"rpc error: code = Internal desc = sh: x: exit status 127", ToolMissing},
		{"rpc error: code = Internal desc = array answered HTTP 429", Throttled},
		{"rpc error: code = Internal desc = array answered HTTP 500", ""},
	} {
		if e, _ := Read("driver.example.com", c.message); e.Meaning != c.meaning {
			t.Errorf("%q means %q (%s, %q), want %q", c.message, e.Meaning, e.Layer, e.Words, c.meaning)
		}
	}
}

// TestANameAloneSaysNothing: a message that only names a part of the storage system says
// nothing of what is wrong with it.
func TestANameAloneSaysNothing(t *testing.T) {
	for _, message := range []string{
		"rpc error: code = Unavailable desc = backend said: try another time",
		"rpc error: code = Internal desc = backend: the third gate does not open",
		"rpc error: code = Internal desc = call to backend store-1 failed",
	} {
		if entry, known := Read("disk.csi.example.com", message); known && !entry.Wrapper {
			t.Errorf("%q means %s, as %q says", message, entry.Meaning, entry.Words)
		}
	}
}
