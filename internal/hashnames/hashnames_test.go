package hashnames_test

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/hashnames"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// hashed is the snapshot with its names replaced, as it is read back from its file.
func hashed(t *testing.T, s *snapshot.Snapshot, key string) (*snapshot.Snapshot, *hashnames.Names, string) {
	t.Helper()
	names := hashnames.Of(s, key)
	h, err := names.Snapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := snapshot.Write(&file, h); err != nil {
		t.Fatal(err)
	}
	text := file.String()
	back, warnings, err := snapshot.Read("hashed.yaml", &file, snapshot.ReadOptions{})
	if err != nil || len(warnings) > 0 || !back.NamesHashed {
		t.Fatalf("%v %v", err, warnings)
	}
	return back, names, text
}

var computed = regexp.MustCompile(`csi-[0-9a-f]{64}`)

// said are the texts of a report, without the order that names give them.
func said(r *finding.Report, names func(string) string) []string {
	var all []string
	for _, f := range r.Findings {
		pods := slices.Clone(f.Pods)
		for i := range pods {
			pods[i] = names(pods[i])
		}
		slices.Sort(pods)
		repair := ""
		if f.Repair != nil {
			repair = fmt.Sprint(f.Repair.Kind, f.Repair.Risk, f.Repair.BlockedBy)
		}
		all = append(all, fmt.Sprint(f.Code, f.Severity, f.Confidence, f.Since, f.SelfHeals.Will, f.SelfHeals.After, repair, names(f.Subject.Namespace), names(f.Subject.Name), pods, "\n", names(f.Message), "\n", names(f.Cause)))
	}
	for _, w := range r.Waiting {
		all = append(all, fmt.Sprint("waits ", names(w.Pod), names(w.Node), w.Verdict, w.Volume, w.Stage, names(w.Actor), w.Since, w.DueAt))
	}
	for i := range all { // a missing node has no name that could be replaced
		all[i] = computed.ReplaceAllString(all[i], "csi-*")
	}
	slices.Sort(all)
	return all
}

// TestSameFindings: over the corpus, hashed names change nothing in a report but the names.
func TestSameFindings(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			s, err := c.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			h, names, _ := hashed(t, s, "a key")
			want := said(diagnose.Diagnose(s, diagnose.Options{}), names.In)
			got := said(diagnose.Diagnose(h, diagnose.Options{}), func(s string) string { return s })
			if !slices.Equal(got, want) && !slices.Equal(alike(got, s, names), alike(want, s, names)) {
				t.Errorf("%s", differing(got, want))
			}
		})
	}
}

// made matches a hash in place of a name.
var made = regexp.MustCompile(`\b(?:node|ns|app|pod|host)-[0-9a-f]{10}\b`)

// TestNoNameStays: no name that is recognisable as one is left in the file. Another pass with
// another key finds each hash of the first, wherever it stands.
func TestNoNameStays(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	replaced := 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		once, _, text := hashed(t, s, "a key")
		for _, pod := range s.Pods {
			for field, name := range map[string]string{"nodeName": pod.Spec.NodeName, "namespace": pod.Namespace} {
				if name != "" && name != "default" && !strings.HasPrefix(name, "kube-") && strings.Contains(text, fmt.Sprintf("%q:%q", field, name)) {
					t.Errorf("%s: %s %s stays", c.Name, field, name)
				}
			}
		}
		first := map[string]bool{}
		for _, hash := range made.FindAllString(text, -1) {
			first[hash] = true
		}
		_, _, text = hashed(t, once, "another key")
		for hash := range first {
			replaced++
			if strings.Contains(text, hash) {
				t.Errorf("%s: %s stays", c.Name, hash)
			}
		}
	}
	if replaced < 1000 {
		t.Errorf("only %d names were looked for", replaced)
	}
}

// alike removes what depends on the order of names, which changes: which one of several alike
// stands for all. In the report's own texts a workload's name is replaced even if it is one
// word.
func alike(said []string, s *snapshot.Snapshot, names *hashnames.Names) []string {
	said = slices.Clone(said)
	for i, text := range said {
		for _, pod := range s.Pods {
			for _, owner := range pod.OwnerReferences {
				text = regexp.MustCompile(`\b`+owner.Name+`\b`).ReplaceAllLiteralString(text, names.In(owner.Name))
			}
		}
		said[i] = which.ReplaceAllString(text, "one")
	}
	slices.Sort(said)
	return said
}

var which = regexp.MustCompile(`\bpv-\w+|\bnode-[0-9a-f]{10}\b`)

func differing(got, want []string) string {
	var b strings.Builder
	for _, g := range got {
		if !slices.Contains(want, g) {
			fmt.Fprintf(&b, "got  %s\n", g)
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			fmt.Fprintf(&b, "want %s\n", w)
		}
	}
	return cmp.Or(b.String(), "the same in other numbers")
}

// TestIn: names are replaced in the places in which programs write them.
func TestIn(t *testing.T) {
	s := snapshot.New(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), snapshot.Source{}, snapshot.Objects{
		Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "alpha"}}, {ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-1-17.ec2.internal"}}},
		Pods: []*corev1.Pod{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "rook-ceph", Name: "web-0", OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "web", Controller: ptr.To(true)}}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "bare"}},
		},
		CSIDrivers: []*storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: "rook-ceph.rbd.csi.ceph.com"}}},
	}, nil)
	names := hashnames.Of(s, "a key")
	n1, alpha, web, ceph, ec2, bare, data := names.In("n1"), names.In("alpha"), names.In("web"), names.In("rook-ceph"), names.In("ip-10-0-1-17"), names.In("bare"), names.In("data")
	for text, want := range map[string]string{
		"":                              "",
		"n10 in1 n1x n1_2":              "n10 in1 n1x " + n1 + "_2",
		"vol-n1-data, (n1)":             "vol-" + n1 + "-data, (" + n1 + ")",
		"data-web-0 of web-0":           "data-" + web + "-0 of " + web + "-0",
		"rook-ceph/web-0 web-01":        ceph + "/" + web + "-0 web-01",
		"0001-0009-rook-ceph-0001":      "0001-0009-" + ceph + "-0001",
		"http://169.254.169.254/latest": "http://169.254.169.254/latest",
		"external-attacher/rook-ceph-rbd-csi-ceph-com by rook-ceph.rbd.csi.ceph.com": "external-attacher/rook-ceph-rbd-csi-ceph-com by rook-ceph.rbd.csi.ceph.com",
		"node alpha lost; alpha males":               "node " + alpha + " lost; alpha males",
		`pod "bare" of data/bare; the data are bare`: `pod "` + bare + `" of ` + data + "/" + bare + "; the data are bare",
		"host ip-10-0-1-17 is down":                  "host " + ec2 + " is down",
		"pvc-0b4f4c1e-52b5-4d43-9a0c-4f2d0f6c2a77":   "pvc-0b4f4c1e-52b5-4d43-9a0c-4f2d0f6c2a77",
		"at 10:00:05, v1.36.3 on 127.0.0.1":          "at 10:00:05, v1.36.3 on 127.0.0.1",
		"dial tcp 10.0.0.7:443 and 10.0.0.7":         "dial tcp " + names.In("10.0.0.7") + ":443 and " + names.In("10.0.0.7"),
		"[fd00::7]:443":                              "[" + names.In("fd00::7") + "]:443",
	} {
		if got := names.In(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if gone := names.In("ip-10-0-9-9.ec2.internal is gone"); strings.Contains(gone, "10-0-9-9") {
		t.Error(gone)
	}
	if other := hashnames.Of(s, "another key").In("n1"); other == n1 || n1 == "n1" {
		t.Error("the key changes nothing")
	}
}

// TestNobodyStays: the names of users, and of the components that an administrator has put in
// front of the API server, are replaced in every text.
func TestNobodyStays(t *testing.T) {
	s := snapshot.New(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), snapshot.Source{}, snapshot.Objects{
		CSIDrivers: []*storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: "csi.example.com"}}},
		Pods:       []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "web-0"}}},
	}, nil)
	names := hashnames.Of(s, "a key")
	for _, text := range []string{
		`admission webhook "pods.acme.io" denied the request: ask bob.acme+k8s@acme.io`,
		`failed calling webhook "pods.acme.io": failed to call webhook`,
		`pods is forbidden: User "acme-admin" cannot list resource "pods"`,
		`pods is forbidden: User "acme" cannot list resource "pods"`,
		`pods is forbidden: User "carol@acme.io" cannot list resource "pods"`,
		`User "system:serviceaccount:acme:acme-robot" cannot list resource "pods" of group "system:serviceaccounts:acme"`,
		`User "system:serviceaccount:acme:acme" cannot list`, `User "system:serviceaccount:acme-gone:acme" cannot list`,
		`ValidatingAdmissionPolicy 'acme-sizes' with binding 'acme-all' denied request`,
	} {
		if got := names.In(text); strings.Contains(got, "acme") {
			t.Errorf("%q: %q", text, got)
		}
	}
	for _, text := range []string{
		`User "system:serviceaccount:kube-system:attachdetach-controller" cannot patch`, `User "system:kube-controller-manager" cannot get`, `User "kubernetes-admin" cannot get`,
		`webhook "csi.example.com" of the driver`, `mount 10@sha256:0a1b`, `cephfs user@.fs=/volumes`, `in API group "storage.k8s.io"`, `reclaim policy "Retain"`,
	} {
		if got := names.In(text); got != text {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestNoDomainStays: a host that a text says was called, the domain in an iSCSI name and a
// pod's own host name are replaced wherever they stand.
func TestNoDomainStays(t *testing.T) {
	said := &storagev1.VolumeError{Message: "POST https://api.acme-bank.io/v1: login to iqn.2001-04.io.acme-bank.san:disk2 failed,\nlookup san.acme-bank.io: no such host"}
	s := snapshot.New(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), snapshot.Source{}, snapshot.Objects{
		VolumeAttachments: []*storagev1.VolumeAttachment{{ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "csi.example.com", NodeName: "n1"}, Status: storagev1.VolumeAttachmentStatus{AttachError: said}}},
		Volumes: []*corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.7:3260", IQN: "iqn.2001-04.io.acme-bank.san:disk2", InitiatorName: ptr.To("iqn.1994-05.io.acme-bank:n1")},
		}}}},
		Pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}, Spec: corev1.PodSpec{Hostname: "acme-bank-web", Subdomain: "acme-bank-service"}, Status: corev1.PodStatus{Message: "api.acme-bank.io did not answer"}}},
	}, nil)
	_, names, text := hashed(t, s, "a key")
	if i := strings.Index(text, "acme-bank"); i >= 0 {
		t.Errorf("a name stays: ...%s", text[max(0, i-60):min(len(text), i+60)])
	}
	if got := names.In("iqn.2001-04.io.acme-bank.san:disk2"); !strings.HasPrefix(got, "iqn.2001-04.domain-") || !strings.HasSuffix(got, ":disk2") || !strings.Contains(text, `"`+got+`"`) {
		t.Errorf("the target is %s", got)
	}
}
