package backend

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kubectlList is what "kubectl get -o json" prints.
func kubectlList(items ...string) string {
	return `{"apiVersion": "v1", "items": [` + strings.Join(items, ",\n") + `], "kind": "List", "metadata": {"resourceVersion": ""}}`
}

// lhVolume is a volume of Longhorn: spec and status are their fields.
func lhVolume(name, spec, status string) string {
	return fmt.Sprintf(`{"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": %q, "namespace": "longhorn-system"}, "spec": {%s}, "status": {%s}}`, name, spec, status)
}

// lhAttachment is Longhorn's own VolumeAttachment with one ticket.
func lhAttachment(volume, kind, node string, satisfied bool, generation int) string {
	return fmt.Sprintf(`{"apiVersion": "longhorn.io/v1beta2", "kind": "VolumeAttachment", "metadata": {"name": %q, "namespace": "longhorn-system"},
"spec": {"volume": %[1]q, "attachmentTickets": {"t": {"id": "t", "type": %q, "nodeID": %q, "generation": 1}}},
"status": {"attachmentTicketStatuses": {"t": {"id": "t", "satisfied": %t, "generation": %d}}}}`, volume, kind, node, satisfied, generation)
}

func tridentVolume(name string) string {
	return fmt.Sprintf(`{"apiVersion": "trident.netapp.io/v1", "kind": "TridentVolume", "metadata": {"name": %q, "namespace": "trident"},
"config": {"name": %[1]q, "accessMode": "ReadWriteOnce", "accessInfo": {"iscsiUsername": "planted-user", "iscsiInitiatorSecret": "planted-secret"}}, "state": "online"}`, name)
}

func publication(volume, node string) string {
	return fmt.Sprintf(`{"apiVersion": "trident.netapp.io/v1", "kind": "TridentVolumePublication", "metadata": {"name": "%s.%s", "namespace": "trident"}, "volumeID": %[1]q, "nodeID": %[2]q, "readOnly": false}`, volume, node)
}

const (
	onN1     = `"nodeID": "n1", "accessMode": "rwo"`
	onNone   = `"nodeID": "", "accessMode": "rwo"`
	attached = `"state": "attached", "robustness": "healthy", "currentNodeID": "n1"`
	detached = `"state": "detached", "robustness": "unknown", "currentNodeID": ""`
)

var (
	longhornText = kubectlList(lhVolume("pvc-1", onN1, attached), lhVolume("pvc-2", onNone, detached), lhAttachment("pvc-1", "csi-attacher", "n1", true, 1))
	tridentText  = kubectlList(tridentVolume("pvc-1"), tridentVolume("pvc-2"), publication("pvc-1", "n1"))
)

// TestLonghorn: a volume is attached where its status has followed its specification and
// Longhorn's own VolumeAttachment shows that the driver asked for it. Every other state is
// uncertain.
func TestLonghorn(t *testing.T) {
	on := func(state string) Volume {
		return Volume{State: "attached", Attachments: []Attachment{{Machine: "n1", State: state}}}
	}
	only := func(state string) Volume { // on n1, and nowhere else
		v := on(state)
		v.Only = []string{"n1"}
		return v
	}
	moving := func(state string) Volume {
		return Volume{State: state, Attachments: []Attachment{{Machine: "n1", State: state}}}
	}
	for name, row := range map[string]struct {
		items []string
		want  Volume
	}{
		"attached":                       {[]string{lhVolume("v", onN1, attached), lhAttachment("v", "csi-attacher", "n1", true, 1)}, on("")},
		"attached by a person":           {[]string{lhVolume("v", onN1, attached), lhAttachment("v", "longhorn-api", "n1", true, 1)}, on("")},
		"the attachment comes first":     {[]string{lhAttachment("v", "csi-attacher", "n1", true, 1), lhVolume("v", onN1, attached)}, on("")},
		"for a backup":                   {[]string{lhVolume("v", onN1, attached), lhAttachment("v", "backup-controller", "n1", true, 1)}, only("temporary")},
		"without its attachment":         {[]string{lhVolume("v", onN1, attached)}, only("unknown")},
		"the attachment of another":      {[]string{lhVolume("v", onN1, attached), lhAttachment("w", "csi-attacher", "n1", true, 1)}, only("unknown")},
		"asked for on another node":      {[]string{lhVolume("v", onN1, attached), lhAttachment("v", "csi-attacher", "n2", true, 1)}, on("unknown")},
		"not satisfied":                  {[]string{lhVolume("v", onN1, attached), lhAttachment("v", "csi-attacher", "n1", false, 1)}, only("unknown")},
		"satisfied before":               {[]string{lhVolume("v", onN1, attached), lhAttachment("v", "csi-attacher", "n1", true, 0)}, only("unknown")},
		"two attachments":                {[]string{lhVolume("v", onN1, attached), lhAttachment("v", "csi-attacher", "n1", true, 1), lhAttachment("v", "csi-attacher", "n1", true, 1)}, only("unknown")},
		"of an unknown version":          {[]string{lhVolume("v", onN1, attached), strings.ReplaceAll(lhAttachment("v", "csi-attacher", "n1", true, 1), "v1beta2", "v1beta9")}, only("unknown")},
		"on a node that Longhorn misses": {[]string{lhVolume("v", onN1, strings.Replace(attached, "healthy", "unknown", 1)), lhAttachment("v", "csi-attacher", "n1", true, 1)}, on("unknown")},
		"detached":                       {[]string{lhVolume("v", onNone, detached)}, Volume{State: "detached"}},
		"faulted":                        {[]string{lhVolume("v", onNone, `"state": "detached", "robustness": "faulted"`)}, Volume{State: "faulted"}},
		"detached, and wanted":           {[]string{lhVolume("v", onN1, detached)}, Volume{State: "detached", Silent: true}},
		"attaching":                      {[]string{lhVolume("v", onN1, `"state": "attaching", "currentNodeID": ""`)}, moving("attaching")},
		"detaching":                      {[]string{lhVolume("v", onNone, `"state": "detaching", "currentNodeID": "n1"`)}, moving("detaching")},
		"attached, and not wanted":       {[]string{lhVolume("v", onNone, attached)}, Volume{State: "attached", Silent: true}},
		"attached to nothing":            {[]string{lhVolume("v", onNone, `"state": "attached"`)}, Volume{State: "attached", Silent: true}},
		"migrates":                       {[]string{lhVolume("v", `"nodeID": "n1", "accessMode": "rwx", "migratable": true, "migrationNodeID": "n2"`, attached)}, Volume{State: "attached", Shared: true, Silent: true}},
		"can migrate":                    {[]string{lhVolume("v", `"nodeID": "n1", "accessMode": "rwx", "migratable": true`, attached), lhAttachment("v", "csi-attacher", "n1", true, 1)}, Volume{State: "attached", Shared: true, Attachments: on("").Attachments}},
		"shared over NFS":                {[]string{lhVolume("v", `"nodeID": "n1", "accessMode": "rwx"`, attached), lhAttachment("v", "csi-attacher", "n1", true, 1)}, Volume{State: "attached", Shared: true, Silent: true}},
		"an unknown access mode":         {[]string{lhVolume("v", `"nodeID": ""`, detached)}, Volume{State: "detached", Silent: true}},
		"an unknown state":               {[]string{lhVolume("v", onNone, `"state": "sleeping"`)}, Volume{State: "sleeping", Silent: true}},
		"no status":                      {[]string{lhVolume("v", onNone, "")}, Volume{Silent: true}},
		"an unknown version":             {[]string{strings.ReplaceAll(lhVolume("v", onN1, attached), "v1beta2", "v1beta9")}, Volume{Silent: true}},
		"being deleted":                  {[]string{strings.Replace(lhVolume("v", onNone, detached), `"name"`, `"deletionTimestamp": "2026-11-20T10:00:00Z", "name"`, 1)}, Volume{State: "detached", Silent: true}},
		"twice, with different words":    {[]string{lhVolume("v", onNone, detached), strings.Replace(lhVolume("v", onN1, attached), "longhorn-system", "other", 1)}, Volume{Silent: true}},
		"among other objects":            {[]string{`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "v"}}`, `{"apiVersion": "longhorn.io/v1beta2", "kind": "Replica", "metadata": {"name": "v"}}`, lhVolume("v", onNone, detached)}, Volume{State: "detached"}},
	} {
		row.want.ID = "v"
		if diff := cmp.Diff(&List{File: "list", Format: Longhorn, Taken: noon, Volumes: []Volume{row.want}}, read(t, kubectlList(row.items...))); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestTrident: a volume is attached to the nodes of its publications, and to none only where
// the list has publications. Nothing else of the objects is kept.
func TestTrident(t *testing.T) {
	online := Volume{State: "online"}
	silent := Volume{State: "online", Silent: true}
	on := func(state string, a ...Attachment) Volume { return Volume{State: state, Attachments: a} }
	for name, row := range map[string]struct {
		items []string
		want  Volume
	}{
		"published":                  {[]string{tridentVolume("v"), publication("v", "n1")}, on("online", Attachment{Machine: "n1"})},
		"published to two nodes":     {[]string{publication("v", "n2"), tridentVolume("v"), publication("v", "n1"), publication("v", "n1")}, on("online", Attachment{Machine: "n1"}, Attachment{Machine: "n2"})},
		"being taken back":           {[]string{tridentVolume("v"), strings.Replace(publication("v", "n1"), `"name"`, `"deletionTimestamp": "2026-11-20T12:00:00Z", "name"`, 1)}, on("online", Attachment{Machine: "n1", State: "detaching", Since: &noon})},
		"published to nothing":       {[]string{tridentVolume("v"), publication("w", "n1")}, online},
		"publications alone":         {[]string{publication("v", "n1")}, on("", Attachment{Machine: "n1"})},
		"volumes alone":              {[]string{tridentVolume("v")}, silent},
		"a publication of a version": {[]string{tridentVolume("v"), publication("w", "n1"), strings.ReplaceAll(publication("x", "n1"), "io/v1", "io/v2")}, silent},
	} {
		l := read(t, kubectlList(row.items...))
		row.want.ID = "v"
		if got, ok := l.Find("csi.trident.netapp.io", "v"); !ok || l.Format != Trident {
			t.Errorf("%s: %+v", name, l)
		} else if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if kept, _ := json.Marshal(l); strings.Contains(string(kept), "planted") {
			t.Errorf("%s: a secret is kept: %s", name, kept)
		}
	}
}

// TestObjectErrors: an error about objects says what is wrong and where.
func TestObjectErrors(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"nobody's objects", kubectlList(`{"apiVersion": "v1", "kind": "Pod"}`), "not a list of volumes that is read"},
		{"two systems", kubectlList(lhVolume("v", onNone, detached), publication("v", "n1")), "objects of two storage systems: give a list of each"},
		{"a list, and another", longhornText[:len(longhornText)-1] + `, "Volumes": [{"VolumeId": "v"}]}`, "not a list of volumes that is read"},
		{"in YAML", "apiVersion: v1\nitems: []\n", "not a list of volumes that is read"},
		{"a hostile name", kubectlList(lhVolume("a\tb", onNone, detached)), "is no id of a volume"},
		{"a hostile node", kubectlList(publication("v", "a b")), "is no machine"},
		{"no handle", kubectlList(`{"apiVersion": "trident.netapp.io/v1", "kind": "TridentVolume", "metadata": {"name": "v"}, "config": {"accessInfo": {"iscsiUsername": "planted"}}}`), `object 1: TridentVolume "v" has no config.name`},
		{"a field twice", kubectlList(strings.Replace(lhVolume("v", onNone, detached), `"state"`, `"state": "attached", "state"`, 1)), `object 1: duplicate field "status.state"`},
		{"a field of another type", kubectlList(lhVolume("v", `"nodeID": 1`, detached)), "object 1: "},
		{"cut off", longhornText[:200], "object 1: the text ends in the middle of the list"},
		{"a long object", kubectlList(lhVolume(strings.Repeat("v", maxVolume), onNone, detached)), "object 1: more than 256 KiB"},
		{"too many", kubectlList(strings.Repeat("{},", MaxVolumes) + "{}"), "more than 200000 objects"},
	} {
		_, err := Read("list", strings.NewReader(row.text), noon)
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.ContainsAny(err.Error(), "\n\t") || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v, want %s", row.name, err, row.want)
		}
	}
	if l := read(t, strings.Replace(longhornText, `"resourceVersion": ""`, `"continue": "x"`, 1)); !l.Partial {
		t.Error("a further page is not said")
	}
}

// TestObjectsOnlyAddCertainty: more kinds of a driver's objects do not change what one kind
// makes certain. They may make more certain.
func TestObjectsOnlyAddCertainty(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	certain, added := 0, 0
	for range 3000 {
		var volumes, attachments []string
		longhorn, jiva := r.IntN(3) == 0, r.IntN(3) == 0
		for i := range 1 + r.IntN(4) {
			name := fmt.Sprint("pvc-", i)
			switch {
			case longhorn:
				spec := fmt.Sprintf(`"nodeID": %q, "accessMode": %q, "migratable": %t`, pick("", "n1", "n2"), pick("rwo", "rwo", "rwx", "new"), r.IntN(2) == 0)
				status := fmt.Sprintf(`"currentNodeID": %q, "state": %q, "robustness": %q`, pick("", "n1"), pick("attached", "detached", "attaching", "new"), pick("healthy", "unknown", "faulted"))
				volumes = append(volumes, lhVolume(name, spec, status))
				if r.IntN(3) > 0 {
					attachments = append(attachments, lhAttachment(name, pick("csi-attacher", "backup-controller"), pick("n1", "n2"), r.IntN(3) > 0, r.IntN(2)))
				}
			case jiva: // a volume's own record is its only one
				volumes = append(volumes, jivaVolume(name, pick("", "n1", "n2")))
			default:
				volumes = append(volumes, tridentVolume(name))
				if r.IntN(2) == 0 {
					attachments = append(attachments, publication(name, pick("n1", "n2")))
				}
			}
		}
		all := read(t, kubectlList(append(volumes, attachments...)...))
		for _, items := range [][]string{volumes, attachments} {
			l, err := Read("list", strings.NewReader(kubectlList(items...)), noon)
			if err != nil {
				continue // without volumes there is no list
			}
			for _, v := range l.Volumes {
				whole, found := all.Find(drivers[all.Format][0], v.ID)
				if v.Settled() && (!found || !whole.Settled() || !cmp.Equal(v.Attachments, whole.Attachments)) {
					t.Fatalf("%+v is certain, and with all objects it is %+v", v, whole)
				}
				if v.Settled() {
					certain++
				} else if whole.Settled() {
					added++
				}
			}
		}
	}
	if certain < 100 || added < 100 {
		t.Errorf("%d certain alone, %d by the other objects: too few to say anything", certain, added)
	}
}

// FuzzLonghorn: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzLonghorn(f *testing.F) {
	fuzzVolume(f, longhornText, `{"apiVersion": "v1", "items": [`, `], "kind": "List", "metadata": {"resourceVersion": ""}}`)
}

// FuzzTrident: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzTrident(f *testing.F) {
	fuzzVolume(f, tridentText, `{"apiVersion": "v1", "items": [`, `], "kind": "List", "metadata": {"resourceVersion": ""}}`)
}
