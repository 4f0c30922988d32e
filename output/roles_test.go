package output

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

var (
	listPods   = repair.Permission{Verb: "list", Resource: "pods"}
	listClaims = repair.Permission{Verb: "list", Resource: "persistentvolumeclaims"}
	listVAs    = repair.Permission{Verb: "list", Group: "storage.k8s.io", Resource: "volumeattachments"}
	patchNodes = repair.Permission{Verb: "patch", Resource: "nodes", Subresource: "status"}
	someRoles  = []repair.Role{
		{Name: "reader", For: "diagnose", Needs: []repair.Permission{listPods, listVAs, listClaims}},
		{Name: "repair-x", For: "diagnose --apply: x", Needs: []repair.Permission{patchNodes}},
	}
)

func TestPrintRoles(t *testing.T) {
	var b bytes.Buffer
	if err := PrintRoles(&b, someRoles, []repair.Permission{listClaims, listVAs}, Options{}); err != nil {
		t.Fatal(err)
	}
	want := `ROLE                    HAVE  FOR                  MISSING
volume-doctor-reader    no    diagnose             list volumeattachments.storage.k8s.io, list persistentvolumeclaims
volume-doctor-repair-x  yes   diagnose --apply: x  -
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestPrintClusterRoles(t *testing.T) {
	var b bytes.Buffer
	if err := PrintClusterRoles(&b, someRoles); err != nil {
		t.Fatal(err)
	}
	want := `# For diagnose.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  labels:
    app.kubernetes.io/name: volume-doctor
  name: volume-doctor-reader
rules:
- apiGroups:
  - ""
  resources:
  - pods
  - persistentvolumeclaims
  verbs:
  - list
- apiGroups:
  - storage.k8s.io
  resources:
  - volumeattachments
  verbs:
  - list
---
# For diagnose --apply: x.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  labels:
    app.kubernetes.io/name: volume-doctor
  name: volume-doctor-repair-x
rules:
- apiGroups:
  - ""
  resources:
  - nodes/status
  verbs:
  - patch
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// TestContextsInEveryFormat checks that every format shows the cluster of a finding, so that it is
// not attributed to another one.
func TestContextsInEveryFormat(t *testing.T) {
	r := report()
	for i := range r.Findings {
		r.Findings[i].Context = "east"
		r.Findings[i].Message = "in east: " + r.Findings[i].Message
	}
	for i := range r.Gaps {
		r.Gaps[i].Context = "east"
	}
	for _, format := range ReportFormats.Names() {
		if format == "name" {
			continue // names only, for kubectl
		}
		var b bytes.Buffer
		if err := ReportFormats.Print(&b, format, r, Options{}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b.Bytes(), []byte("east")) {
			t.Errorf("%s does not name the cluster", format)
		}
	}
	r.Findings = nil
	for _, format := range []string{"table", "wide", "tree", "json", "sarif", "junit", "markdown", "html"} {
		var b bytes.Buffer
		if err := ReportFormats.Print(&b, format, r, Options{}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b.Bytes(), []byte("east")) {
			t.Errorf("%s does not name the cluster of a gap", format)
		}
	}
}
