package kubeletwords

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// unheard are the texts that no kubelet has written in the runs of the oracle, each with the
// reason.
var unheard = map[string]string{
	"AllProcessed":    "a kubelet of 1.27 and older says it of a wait that merely timed out, and none of those is asked",
	"AttachTimeout":   "it takes ten minutes",
	"AttacherTimeout": "it takes ten minutes",
	"OfAttacher":      "it takes ten minutes",
	"NoCSIDriver":     "all drivers of the machines have a CSIDriver",
	"NotPermitted":    "the machines' user has its rights from a role, and not from the node authorizer",
	"OwnershipFailed": "nothing on the machines keeps the kubelet from changing an owner",
	"GrowthReadOnly":  "the drivers of the machines expand no volume",
	"WhileExpanding":  "the drivers of the machines expand no volume",
	"NoNodeExpansion": "the drivers of the machines expand no volume",
	"NotInjected":     "the drivers of the machines need no sidecar in the pod",
	"NoSidecar":       "the drivers of the machines need no sidecar in the pod",
	"CachesEmpty":     "the caches of the machines fill within a second",
	"NoMountOptions":  "no volume of the machines asks for options that its plugin does not take",
	"DeviceOpen":      "nothing on the machines holds a device open",
	"NoToken":         "the drivers of the machines ask for no token",
	"LabelsCollide":   "the machines have no SELinux",
	"LabelMounted":    "the machines have no SELinux",
	"LabelsInPod":     "the machines have no SELinux",
	"OfSELinux":       "the machines have no SELinux",
}

// texts are the constants of the package, by name.
func texts(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "kubeletwords.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, d := range file.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		for _, spec := range d.Specs {
			v := spec.(*ast.ValueSpec)
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found[v.Names[0].Name] = text
		}
	}
	return found
}

// heard returns the lines that `make kubelet-oracle` has recorded. A line has the releases that
// wrote a text, a tab, the reason of the event (or "log"), and the text.
func heard(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../testdata/kubelet/said.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// TestTextsWereHeard compares each text with what real kubelets have written: a text that none
// has written may be misspelt or out of date.
func TestTextsWereHeard(t *testing.T) {
	said := strings.ToLower(strings.Join(heard(t), "\n"))
	all := texts(t)
	for name, text := range all {
		switch why := unheard[name]; {
		case strings.Contains(said, strings.ToLower(text)) && why != "":
			t.Errorf("%s was heard; it is listed as unheard: %s", name, why)
		case !strings.Contains(said, strings.ToLower(text)) && why == "":
			t.Errorf("no kubelet has said %s, %q", name, text)
		}
	}
	for name := range unheard {
		if all[name] == "" {
			t.Errorf("%s is no text", name)
		}
	}
	for _, step := range StagingSteps {
		if unheardSteps[step] == "" != strings.Contains(said, strings.ToLower("Volume."+step)) {
			t.Errorf("step %s: said %t, unheard because %q", step, strings.Contains(said, strings.ToLower("Volume."+step)), unheardSteps[step])
		}
	}
}

// TestStepsDownWereHeard: in the log, the words before the volume depend on the step, and the
// reader of the log knows none of them. These are the ones that kubelets write.
func TestStepsDownWereHeard(t *testing.T) {
	said := strings.Join(heard(t), "\n")
	for _, step := range []string{"UnmountVolume.TearDown failed", "UnmountDevice failed", "GetDeviceMountRefs check failed", "UnmapDevice failed", "UnmapDevice.TearDownDevice failed", "error cleaning subPath mounts"} {
		if !strings.Contains(said, "log "+step+` for volume "`) {
			t.Errorf("no kubelet has logged %q", step)
		}
	}
}

// unheardSteps are the steps for which no failure was recorded, each with the reason.
var unheardSteps = map[string]string{
	"MountOptionSupport": "no volume of the machines asks for options that its plugin does not take",
	"GetDeviceMountPath": "it reads what was made right before",
	"GetGlobalMapPath":   "it reads what was made right before",
}

// rare are the expressions that match texts which only some runs of the oracle produce, each
// with the reason.
var rare = map[string]string{
	"DirectoryGone": "a kubelet of 1.30 said it once of 1,700 pods: two of them that share a Block volume have to meet",
}

func TestExpressionsMatchWhatWasHeard(t *testing.T) {
	for name, e := range map[string]*regexp.Regexp{
		"Failed": Failed, "WaitFailed": WaitFailed, "MissingObject": MissingObject, "MissingKey": MissingKey, "MissingPath": MissingPath, "UnknownDriver": UnknownDriver,
		"DirectoryGone": DirectoryGone, "NoDevice": NoDevice, "OtherMounts": OtherMounts, "MissingLocal": MissingLocal, "MissingAccount": MissingAccount,
	} {
		matched := 0
		for _, line := range heard(t) {
			_, text, _ := strings.Cut(line, "\t")
			_, text, _ = strings.Cut(text, " ") // the reason of the event
			if m := e.FindStringSubmatch(text); m != nil {
				matched++
				for i, part := range m[1:] {
					if part == "" && name != "WaitFailed" {
						t.Errorf("%s finds an empty part %d in %q", name, i+1, text)
					}
				}
			}
		}
		if matched == 0 && rare[name] == "" {
			t.Errorf("%s matches nothing that was heard", name)
		}
	}
}

// TestFailedMatchesEachFailure: Failed matches every recorded text that begins like a failed
// mount or map.
func TestFailedMatchesEachFailure(t *testing.T) {
	for _, line := range heard(t) {
		_, text, _ := strings.Cut(line, "\t")
		_, text, _ = strings.Cut(text, " ")
		if (strings.HasPrefix(text, Mounting) || strings.HasPrefix(text, Mapping)) && strings.Contains(text, "failed for volume") && !Failed.MatchString(text) {
			t.Errorf("Failed does not match %q", text)
		}
	}
}

// TestTable: each row has something to look for and something to say, and every permanent row
// names an actor and an end.
func TestTable(t *testing.T) {
	for _, words := range [][]Word{MountWords, WaitWords, UnmountWords} {
		for i, w := range words {
			if w.Text == "" && w.Pattern == nil || w.Means == "" && w.Ends == "" {
				t.Errorf("row %d has nothing to look for, or to say: %+v", i, w)
			}
			if w.Permanent && (w.Actor == "" || w.Ends == "") {
				t.Errorf("%q never passes by itself, and nobody is named, or nothing ends it", w.Text)
			}
			if w.Pattern == nil {
				before := "x "
				if w.Speaker == Driver {
					before = "rpc error: code = Internal desc = "
				}
				if found, ok := Find(words, before+strings.ToUpper(w.Text)+" y"); !ok || found.Text != w.Text && !strings.Contains(strings.ToLower(w.Text), strings.ToLower(found.Text)) {
					t.Errorf("%q is found as %q", w.Text, found.Text)
				}
			}
		}
	}
	for message, actor := range map[string]string{
		`secrets "gone" not found`:   "whoever is to create secret/gone",
		`configmap "gone" not found`: "whoever is to create configmap/gone",
		`fetching NodeStageSecretRef a/gone failed: secrets "gone" not found`:                            "whoever is to create secret/gone",
		`failed to fetch token: serviceaccounts "app" not found`:                                         "whoever is to create serviceaccount/app",
		`path "/mnt/disks/a" does not exist`:                                                             "the node admin",
		`hostPath type check failed: /etc/x is not a directory`:                                          "whoever is to make /etc/x on $node",
		`the device mount path "/x" is still mounted by other references [/y /z]`:                        "whoever mounted it at /y /z on $node",
		`lstat /k/plugins/kubernetes.io/csi/volumeDevices/publish/pv-1/uid-1: no such file or directory`: "CSI driver $driver on $node",
		`error processing /k/volume-subpaths/pv-1/main: error cleaning subpath mount /k/volume-subpaths/pv-1/main/0: unmount failed: exit status 32 Output: umount: /k/volume-subpaths/pv-1/main/0: target is busy.`: NodeAdmin,
		`the device "/k/dev" is still referenced from other Pods [/k/dev/uid-1]`: NodeAdmin,
		`configmap "kube-root-ca.crt" not found`:                                 "the controller that publishes configmap/kube-root-ca.crt",
		`failed to fetch token: serviceaccounts "app" is forbidden: no`:          ClusterAdmin,
		`wrong fs type, bad option, bad superblock on 10.0.0.5:/data, missing`:   NodeAdmin,
		`wrong fs type, bad option, bad superblock on /dev/sdb, missing`:         "",
	} {
		words := MountWords
		if strings.Contains(message, "references [") || strings.Contains(message, MountBusy) || strings.Contains(message, StillMapped) {
			words = UnmountWords
		}
		if w, ok := Find(words, message); !ok || w.Actor != actor {
			t.Errorf("%s: %q, want %q", message, w.Actor, actor)
		}
	}
}
