package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestBehavioursOf checks each behaviour in the releases next to its bounds.
func TestBehavioursOf(t *testing.T) {
	tests := map[Behaviour]struct{ with, without string }{
		ForceDetachSwitch:         {"1.30.0 1.37.0 1.99.0", "1.29.15 1.26.0"},
		KeepsTerminatedPodVolumes: {"1.26.0 1.30.14", "1.31.0"},
		MigrationAsksNode:         {"1.26.0 1.30.14", "1.31.0"},
		PortworxMigrates:          {"1.31.0 1.37.0", "1.30.14"},
		PortworxAsksNode:          {"1.31.0 1.35.9", "1.30.14 1.36.0"},
		InTreeAWSEBS:              {"1.26.15", "1.27.0"},
		InTreeAzureDisk:           {"1.26.15", "1.27.0"},
		InTreeGCEPD:               {"1.27.16", "1.28.0"},
		InTreeVSphere:             {"1.29.15", "1.30.0"},
		InTreeRBD:                 {"1.30.14", "1.31.0"},
		FailedDetachIsUncertain:   {"1.29.0 1.28.3 1.28.15 1.27.7 1.26.10 1.30.0", "1.28.2 1.27.6 1.26.9"},
		WaitingForDetach:          {"1.37.0 1.38.0", "1.36.9"},
		OutOfServiceDetaches:      {"1.26.0 1.37.0", ""},
		AzureFileMigrates:         {"1.26.0 1.37.0", ""},
		VSphereMigrates:           {"1.26.0 1.37.0", ""},
		MountsNotAssumed:          {"", "1.26.0 1.37.0 1.38.0"},
		TimeoutReadsNode:          {"", "1.26.0 1.37.0 1.38.0"},
		TaintReadsNode:            {"", "1.26.0 1.37.0 1.38.0"},
	}
	for _, row := range behaviours {
		test, ok := tests[row.name]
		if !ok || row.source == "" {
			t.Errorf("%s has no test or no source", row.name)
		}
		for _, release := range strings.Fields(test.with) {
			if !BehavioursOf("v" + release).Has(row.name) {
				t.Errorf("%s lacks %s", release, row.name)
			}
		}
		for _, release := range strings.Fields(test.without) {
			if BehavioursOf("v" + release).Has(row.name) {
				t.Errorf("%s has %s", release, row.name)
			}
		}
	}
}

// TestReleaseNames: the versions that API servers report are read as releases; a text that is
// no version, and a release newer than all known, have the behaviours of the newest.
func TestReleaseNames(t *testing.T) {
	newest := BehavioursOf("v1.37.0")
	for _, name := range []string{"", "garbage", "v1.37.2", "v1.40.0-alpha.1", "v2.0.0"} {
		if got := BehavioursOf(name); !maps.Equal(got, newest) || TooOld(name) {
			t.Errorf("%q: %v, too old: %v", name, got, TooOld(name))
		}
	}
	for _, name := range []string{"v1.28.15", "1.28.15", "v1.28.15-eks-7f9249a", "v1.28.15-gke.1041000", "v1.28.15+k3s1"} {
		if !maps.Equal(BehavioursOf(name), BehavioursOf("1.28.15")) || TooOld(name) {
			t.Errorf("%q: %v", name, BehavioursOf(name))
		}
	}
	if !TooOld("v1.25.16") || TooOld("v1.26.0") {
		t.Error("the oldest release modelled is 1.26.0")
	}
}

// TestParseGates: an item that is not a gate with a value is skipped, and the last value
// counts.
func TestParseGates(t *testing.T) {
	got := ParseGates(`A=true, B=false,kube:C=TRUE,D,E=,F=maybe,=true,A=false`)
	if want := map[string]bool{"A": false, "B": false, "C": true, "": true}; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestDeciding: a gate decides only before the release that locked it, and only where its
// value differs from that release's default.
func TestDeciding(t *testing.T) {
	for _, test := range []struct{ release, gate, want string }{
		{"v1.26.15", "NodeOutOfServiceVolumeDetach=false", "NodeOutOfServiceVolumeDetach"},
		{"v1.26.15", "NodeOutOfServiceVolumeDetach=true", ""},
		{"v1.28.0", "NodeOutOfServiceVolumeDetach=false", ""},
		{"v1.30.14", "CSIMigrationPortworx=true", "CSIMigrationPortworx"},
		{"v1.30.14", "CSIMigrationPortworx=false", ""},
		{"v1.31.0", "CSIMigrationPortworx=false", "CSIMigrationPortworx"},
		{"v1.33.0", "CSIMigrationPortworx=false", ""},
		{"v1.30.14", "InTreePluginGCEUnregister=true", "InTreePluginGCEUnregister"},
		{"v1.31.0", "InTreePluginGCEUnregister=true", ""},
		{"v1.35.4", "InTreePluginPortworxUnregister=true", "InTreePluginPortworxUnregister"},
		{"v1.36.0", "InTreePluginPortworxUnregister=true", ""},
		{"v1.26.15", "Other=true", ""},
		{"", "NodeOutOfServiceVolumeDetach=false", ""},
	} {
		got := ""
		for _, gate := range Deciding(test.release, ParseGates(test.gate)) {
			got += gate.Name
		}
		if got != test.want {
			t.Errorf("%s, %s: %q", test.release, test.gate, got)
		}
	}
	if got := UnknownGates("1.30.14", ParseGates("CSIMigrationRBD=true,InTreePluginRBDUnregister=false")); len(got) != 1 || got[0] != "CSIMigrationRBD" {
		t.Error(got)
	}
	if got := UnknownGates("1.31.0", ParseGates("CSIMigrationRBD=true")); len(got) != 0 {
		t.Error(got)
	}
}

// TestAhead: a behaviour that no release has is turned on only by its name, not by a text
// that is no version, and is among no release's changes.
func TestAhead(t *testing.T) {
	for _, change := range Ahead() {
		if BehavioursOf("").Has(change.Behaviour) || slices.Contains(Changes("1.26.0", "1.99.0"), change) {
			t.Errorf("a release has %s", change.Behaviour)
		}
		w := NewWorld(inRelease("1.36.3", snapshot.Objects{}), Options{Ahead: []Behaviour{change.Behaviour}})
		if !w.Behaviours.Has(change.Behaviour) || !w.Behaviours.Has(ForceDetachSwitch) || BehavioursOf("1.36.3").Has(change.Behaviour) {
			t.Errorf("%s: %v", change.Behaviour, w.Behaviours)
		}
	}
}

// TestMountsNotAssumed: an attachment that only its VolumeAttachment shows, on a node that
// exists, on one that is gone, and on one that lists it as in use.
func TestMountsNotAssumed(t *testing.T) {
	o := snapshot.Objects{
		Nodes:             []*corev1.Node{newNode("n1"), newNode("n2", uses(unique("v2")))},
		Volumes:           []*corev1.PersistentVolume{newPV("v"), newPV("v2")},
		VolumeAttachments: []*storagev1.VolumeAttachment{newAttachment("v", "n1"), newAttachment("v", "gone"), newAttachment("v2", "n2")},
	}
	for _, test := range []struct {
		ahead []Behaviour
		want  string
	}{
		{nil, "Wait AssumedMounted, Wait AssumedMounted, Wait StillMounted"},
		{[]Behaviour{MountsNotAssumed}, "Detach NotWanted, Detach NotWanted, Wait StillMounted"},
	} {
		plan := NewWorld(inRelease("1.37.0", cloneObjects(o)), Options{Ahead: test.ahead}).Reconcile()
		var got []string
		for _, pair := range []VolumeNode{{unique("v"), "n1"}, {unique("v"), "gone"}, {unique("v2"), "n2"}} {
			d := plan.Decision(pair)
			got = append(got, fmt.Sprintf("%s %s", d.Verb, d.Reason))
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%v: %v", test.ahead, got)
		}
	}
}

// TestUnheardOperation: a controller at work may not begin the detach that one which
// starts now begins, and what waits for the end of it has no bound then.
func TestUnheardOperation(t *testing.T) {
	o := snapshot.Objects{
		Nodes:   []*corev1.Node{newNode("n1")},
		Volumes: []*corev1.PersistentVolume{newPV("v")}, Claims: []*corev1.PersistentVolumeClaim{newClaim("v")},
		Pods:              []*corev1.Pod{newPod("p", "n1", []string{"v"})},
		VolumeAttachments: []*storagev1.VolumeAttachment{newAttachment("v", "gone")},
	}
	d := NewWorld(inRelease("1.37.0", o), Options{Ahead: []Behaviour{MountsNotAssumed}}).Reconcile().Decision(VolumeNode{unique("v"), "n1"})
	if d.Verb != Blocked || len(d.Until) != 1 || d.Until[0].Bound != CSITimeout {
		t.Fatalf("%+v", d)
	}
	if _, bound := d.Until[0].Running(*d); bound != 0 {
		t.Errorf("a bound of %s", bound)
	}
}

// TestLateNews: two nodes are well again, of which the controller has not yet heard.
func TestLateNews(t *testing.T) {
	tainted := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}} }
	o := snapshot.Objects{Nodes: []*corev1.Node{
		newNode("n1", notReady, lists(unique("v")), uses(unique("v"))), newNode("n2", tainted, lists(unique("v")), uses(unique("v"))),
	}}
	live := map[types.NodeName]*corev1.Node{"n1": newNode("n1"), "n2": newNode("n2")}
	both := []Behaviour{TimeoutReadsNode, TaintReadsNode}
	for _, test := range []struct {
		ahead []Behaviour
		live  map[types.NodeName]*corev1.Node
		want  string
	}{
		{nil, nil, "Wait 6m0s 2, ForceDetach"},
		{nil, live, "Wait 6m0s 2, ForceDetach"},
		{both, nil, "Wait 6m0s 2, ForceDetach"},
		{both, live, "Wait 0s 1, Detach"},
		{both[:1], live, "Wait 0s 1, ForceDetach"},
		{both[1:], live, "Wait 6m0s 2, Detach"},
		{both, map[types.NodeName]*corev1.Node{}, "Wait 6m0s 2, Detach"},
	} {
		plan := NewWorld(inRelease("1.37.0", cloneObjects(o)), Options{Ahead: test.ahead, LiveNodes: test.live}).Reconcile()
		waits, forced := plan.Decision(VolumeNode{unique("v"), "n1"}), plan.Decision(VolumeNode{unique("v"), "n2"})
		if got := fmt.Sprintf("%s %s %d, %s", waits.Verb, waits.After, len(waits.Until), forced.Verb); got != test.want {
			t.Errorf("%v, %v: %s", test.ahead, test.live, got)
		}
	}
}

// TestBoundsAreReleases: each bound in the table is a release.
func TestBoundsAreReleases(t *testing.T) {
	for _, row := range behaviours {
		for _, bound := range append(slices.Clone(row.picked), row.since, row.until, row.gateUntil) {
			if v, err := version.ParseGeneric(bound); bound != "" && (err != nil || len(v.Components()) != 3) {
				t.Errorf("%s: %q is no release", row.name, bound)
			}
		}
	}
}

func csiNode(name string, migrated string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: migrated},
	}}
}

// TestReleases compares how the controllers on both sides of a bound resolve the volume v of
// one pod on node n1: the volume's unique name, or why it is skipped.
func TestReleases(t *testing.T) {
	ebs := source(corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}})
	gce := source(corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "pd"}})
	azure := source(corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DataDiskURI: "/d"}})
	vsphere := source(corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] d"}})
	rbd := source(corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{RBDPool: "p", RBDImage: "i"}})
	portworx := source(corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "px"}})
	keeps := func(o *snapshot.Objects) {
		o.Nodes[0].Annotations[KeepTerminatedAnnotation] = "true"
		o.Pods[0].Status.Phase = corev1.PodSucceeded
	}
	moved := func(plugins string) func(*snapshot.Objects) {
		return func(o *snapshot.Objects) { o.CSINodes = []*storagev1.CSINode{csiNode("n1", plugins)} }
	}
	tests := []struct {
		name     string
		pv       func(*corev1.PersistentVolume)
		edit     func(*snapshot.Objects)
		releases string
		want     string
	}{
		{"ended pod", nil, keeps, "1.26.0 1.30.14", "kubernetes.io/csi/d^v"},
		{"ended pod", nil, keeps, "1.31.0", "PodTerminated"},
		{"ended pod, other value", nil, func(o *snapshot.Objects) {
			keeps(o)
			o.Nodes[0].Annotations[KeepTerminatedAnnotation] = "false"
		}, "1.30.14", "PodTerminated"},

		{"no CSINode", ebs, nil, "1.26.15 1.30.14", "CSINodeNotFound"},
		{"no CSINode", ebs, nil, "1.31.0", "kubernetes.io/csi/ebs.csi.aws.com^vol-1"},
		{"node has moved", ebs, moved("x,kubernetes.io/aws-ebs"), "1.26.15 1.30.14", "kubernetes.io/csi/ebs.csi.aws.com^vol-1"},
		{"node has not moved", ebs, moved(""), "1.26.15", "kubernetes.io/aws-ebs/vol-1"},
		{"node has not moved", ebs, moved(""), "1.27.0 1.30.14", "NotAttachable"},
		{"node has not moved", ebs, moved(""), "1.31.0", "kubernetes.io/csi/ebs.csi.aws.com^vol-1"},
		{"Azure disk", azure, moved(""), "1.26.15", "kubernetes.io/azure-disk//d"},
		{"Azure disk", azure, moved(""), "1.27.0", "NotAttachable"},
		{"GCE disk", gce, moved(""), "1.27.16", "kubernetes.io/gce-pd/pd"},
		{"GCE disk", gce, moved(""), "1.28.0", "NotAttachable"},
		{"vSphere", vsphere, moved(""), "1.29.15", "kubernetes.io/vsphere-volume/[ds] d"},
		{"vSphere", vsphere, moved(""), "1.30.0", "NotAttachable"},
		{"RBD", rbd, nil, "1.30.14", "kubernetes.io/rbd/p:i"},
		{"RBD", rbd, nil, "1.31.0", "NotAttachable"},
		{"RBD in the pod", nil, func(o *snapshot.Objects) {
			o.Pods[0].Spec.Volumes[0].VolumeSource = corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{RBDPool: "p", RBDImage: "i"}}
		}, "1.30.14", "kubernetes.io/rbd/p:i"},
		{"no CSINode, in the pod", nil, func(o *snapshot.Objects) {
			o.Pods[0].Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: "c"}}
		}, "1.30.14", "CSINodeNotFound"},
		{"Portworx", portworx, nil, "1.30.14", "NotAttachable"},
		{"Portworx", portworx, nil, "1.31.0 1.35.9", "CSINodeNotFound"},
		{"Portworx", portworx, moved("kubernetes.io/portworx-volume"), "1.31.0 1.35.9", "kubernetes.io/csi/pxd.portworx.com^px"},
		{"Portworx", portworx, nil, "1.36.0", "kubernetes.io/csi/pxd.portworx.com^px"},

		{"plugin left out", ebs, moved(""), "1.26.15+InTreePluginAWSUnregister=true 1.30.14+InTreePluginAWSUnregister=true", "kubernetes.io/csi/ebs.csi.aws.com^vol-1"},
		{"another plugin left out", ebs, moved(""), "1.26.15+InTreePluginGCEUnregister=true", "kubernetes.io/aws-ebs/vol-1"},
		{"Portworx", portworx, nil, "1.30.14+CSIMigrationPortworx=true", "CSINodeNotFound"},
		{"Portworx", portworx, nil, "1.30.14+CSIMigrationPortworx=true,InTreePluginPortworxUnregister=true 1.35.9+InTreePluginPortworxUnregister=true", "kubernetes.io/csi/pxd.portworx.com^px"},
		{"Portworx", portworx, nil, "1.31.0+CSIMigrationPortworx=false", "NotAttachable"},
		{"vSphere", vsphere, nil, "1.26.15+CSIMigrationvSphere=false", "kubernetes.io/vsphere-volume/[ds] d"},
	}
	for _, test := range tests {
		for _, release := range strings.Fields(test.releases) {
			release, gates, _ := strings.Cut(release, "+")
			o := snapshot.Objects{
				Nodes: []*corev1.Node{newNode("n1")}, Volumes: []*corev1.PersistentVolume{newPV("v")},
				Claims: []*corev1.PersistentVolumeClaim{newClaim("v")}, Pods: []*corev1.Pod{newPod("p", "n1", []string{"v"})},
			}
			if test.pv != nil {
				test.pv(o.Volumes[0])
			}
			if test.edit != nil {
				test.edit(&o)
			}
			w := NewWorld(inRelease(release, o), Options{FeatureGates: ParseGates(gates)})
			got := ""
			for _, row := range w.Desired.Items() {
				got = string(row.Volume)
			}
			for _, s := range w.Skipped {
				got = string(s.Reason)
			}
			if got != test.want {
				t.Errorf("%s, %s: %s, not %s", test.name, release, got, test.want)
			}
		}
	}
}

func inRelease(release string, o snapshot.Objects) *snapshot.Snapshot {
	return snapshot.New(time.Unix(0, 0), snapshot.Source{ServerVersion: release}, o, nil)
}

// TestReleaseOfAttachments: the volume of a VolumeAttachment does not depend on the node.
func TestReleaseOfAttachments(t *testing.T) {
	o := snapshot.Objects{
		Nodes:             []*corev1.Node{newNode("n1", lists("kubernetes.io/aws-ebs/vol-1"))},
		Volumes:           []*corev1.PersistentVolume{newPV("v", source(corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}))},
		VolumeAttachments: []*storagev1.VolumeAttachment{newAttachment("v", "n1")},
	}
	for release, want := range map[string]string{"1.26.15": "Detach NotWanted, known", "1.27.0": "Blocked NoPlugin, unknown"} {
		w := NewWorld(inRelease(release, cloneObjects(o)), Options{})
		if row := w.Actual.Find(VolumeNode{"kubernetes.io/csi/ebs.csi.aws.com^vol-1", "n1"}); row == nil || row.State != Uncertain {
			t.Errorf("%s: %v", release, row)
		}
		pair := VolumeNode{"kubernetes.io/aws-ebs/vol-1", "n1"}
		d := w.Reconcile().Decision(pair)
		known := "unknown"
		if w.Volume(pair.Volume) != nil {
			known = "known"
		}
		if got := fmt.Sprintf("%s %s, %s", d.Verb, d.Reason, known); got != want {
			t.Errorf("%s: %s, not %s", release, got, want)
		}
	}
}

// TestReleaseOfSwitch: a release without the switch detaches by force even where it is set.
func TestReleaseOfSwitch(t *testing.T) {
	for release, want := range map[string]time.Duration{"1.29.15": DefaultMaxWaitForUnmount, "1.30.0": 0} {
		o := snapshot.Objects{Nodes: []*corev1.Node{newNode("n1", notReady, lists(unique("v")), uses(unique("v")))}}
		plan := NewWorld(inRelease(release, o), Options{DisableForceDetachOnTimeout: true}).Reconcile()
		if got := plan.Decision(VolumeNode{unique("v"), "n1"}).After; got != want {
			t.Errorf("%s: after %s", release, got)
		}
	}
}

// TestGateOfTaint: a controller whose gate turns the taint off waits for the unmount.
func TestGateOfTaint(t *testing.T) {
	for flag, want := range map[string]Verb{"": ForceDetach, "NodeOutOfServiceVolumeDetach=false": Wait} {
		tainted := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}} }
		o := snapshot.Objects{Nodes: []*corev1.Node{newNode("n1", notReady, tainted, lists(unique("v")), uses(unique("v")))}}
		plan := NewWorld(inRelease("1.26.15", o), Options{FeatureGates: ParseGates(flag)}).Reconcile()
		if got := plan.Decision(VolumeNode{unique("v"), "n1"}).Verb; got != want {
			t.Errorf("%q: %s", flag, got)
		}
	}
}

// TestVerifySyncSetting: the sync comes after the time that is set, and never where it is off.
func TestVerifySyncSetting(t *testing.T) {
	for period, want := range map[time.Duration]string{0: "1m0s 1m0s", 5 * time.Minute: "5m0s 5m0s", -1: ""} {
		plan := volumeOn{listed: []*corev1.Node{newNode("n1")}, wanted: []string{"n1"}, options: Options{VerifySync: period}}.plan()
		got := ""
		for _, u := range plan.Decision(VolumeNode{unique("v"), "n1"}).Until {
			got += fmt.Sprintf("%s %s", u.After, u.Bound)
		}
		if got != want {
			t.Errorf("%s: %q", period, got)
		}
	}
}

// TestReleaseOfLivePods: up to 1.30 an annotated node's kubelet keeps an ended pod's volumes
// mounted.
func TestReleaseOfLivePods(t *testing.T) {
	for release, want := range map[string]int{"1.30.14": 1, "1.31.0": 0} {
		o := snapshot.Objects{
			Nodes: []*corev1.Node{newNode("n1")}, Volumes: []*corev1.PersistentVolume{newPV("v")},
			Claims: []*corev1.PersistentVolumeClaim{newClaim("v")}, Pods: []*corev1.Pod{newPod("p", "n1", []string{"v"}, phase(corev1.PodFailed))},
		}
		o.Nodes[0].Annotations[KeepTerminatedAnnotation] = "true"
		if got := NewWorld(inRelease(release, o), Options{}).LivePods(VolumeNode{unique("v"), "n1"}); len(got) != want {
			t.Errorf("%s: %d live pods", release, len(got))
		}
	}
}

// TestReleaseOfMessage: the first words of the multi-attach event depend on the release.
func TestReleaseOfMessage(t *testing.T) {
	for release, want := range map[string]string{"1.36.9": "Multi-Attach error", "1.37.0": "Waiting for detach"} {
		if got := BehavioursOf(release).MultiAttachMessage(); got != want {
			t.Errorf("%s: %s", release, got)
		}
	}
}
