package cluster

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// TestServerWithoutPassword: the address of the API server in reports, journals,
// plans and errors has neither the user nor the query of the kubeconfig's, and
// requests are made as before.
func TestServerWithoutPassword(t *testing.T) {
	a := newAPI(t)
	c, err := New(&rest.Config{Host: strings.Replace(a.URL, "://", "://joe:PLANTED@", 1) + "?token=PLANTED"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Source.Server != a.URL {
		t.Errorf("the server is %q", s.Source.Server)
	}
	if _, err := New(&rest.Config{Host: "https://joe:PLANTED@[::1"}, Options{}); err == nil || strings.Contains(err.Error(), "PLANTED") {
		t.Error(err)
	}
}

// TestGapsKeepNoSecrets: of a refusal a gap has who asked, and no password.
func TestGapsKeepNoSecrets(t *testing.T) {
	a := newAPI(t)
	a.fail("/apis/storage.k8s.io/v1/csinodes", apierrors.NewForbidden(schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}, "",
		errors.New(`User "jane.doe@corp.example" cannot list resource "csinodes", webhook https://joe:PLANTED@hook/?sig=PLANTED says no`)))
	s, err := a.cluster(Options{}).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Gaps) != 1 || !strings.Contains(s.Gaps[0].Detail, "jane.doe@corp.example") || strings.Contains(s.Gaps[0].Detail, "PLANTED") || !strings.Contains(s.Gaps[0].Detail, `cannot list resource "csinodes"`) {
		t.Errorf("the gaps are %+v", s.Gaps)
	}
}

// TestSecretsOfTheCluster: what is collected has no secrets in its messages, so
// that an event about it has none; nor has what a webhook answers to a write,
// which goes into journals.
func TestSecretsOfTheCluster(t *testing.T) {
	refused, err := testcases.Load("vd103-driver-refuses")
	if err != nil {
		t.Fatal(err)
	}
	there, err := refused.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, va := range there.VolumeAttachments {
		if va.Status.DetachError != nil {
			va.Status.DetachError.Message = "rpc error: code = Internal desc = PUT https://api/?sig=PLANTED password=PLANTED: locked"
		}
	}
	a := newAPI(t)
	a.date = there.TakenAt
	a.serve("/api/v1/nodes", &corev1.NodeList{Items: values(there.Nodes)})
	a.serve("/api/v1/pods", &corev1.PodList{Items: values(there.Pods)})
	a.serve("/api/v1/persistentvolumes", &corev1.PersistentVolumeList{Items: values(there.Volumes)})
	a.serve("/api/v1/persistentvolumeclaims", &corev1.PersistentVolumeClaimList{Items: values(there.Claims)})
	a.serve("/apis/storage.k8s.io/v1/volumeattachments", &storagev1.VolumeAttachmentList{Items: values(there.VolumeAttachments)})
	a.serve("/apis/storage.k8s.io/v1/csinodes", &storagev1.CSINodeList{Items: values(there.CSINodes)})
	a.serve("/apis/storage.k8s.io/v1/csidrivers", &storagev1.CSIDriverList{Items: values(there.CSIDrivers)})
	a.serve("/apis/coordination.k8s.io/v1/leases", &coordinationv1.LeaseList{Items: values(there.Leases)})
	c := a.cluster(Options{})
	s, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, va := range s.VolumeAttachments {
		if e := va.Status.DetachError; e != nil && (strings.Contains(e.Message, "PLANTED") || !strings.Contains(e.Message, "rpc error: code = Internal desc = ")) {
			t.Errorf("the message is %q", e.Message)
		}
	}
	report := diagnose.Diagnose(s, diagnose.Options{})
	if len(report.Findings) == 0 {
		t.Fatal("nothing is found")
	}
	quoted := false
	for _, f := range report.Findings {
		event := eventOf(f, serverTime)
		quoted = quoted || strings.Contains(event.Message, "locked")
		if strings.Contains(event.Message, "PLANTED") {
			t.Errorf("the event says %q", event.Message)
		}
	}
	if !quoted {
		t.Error("no event quotes the driver")
	}

	a.fail("/apis/storage.k8s.io/v1/volumeattachments/csi-1", &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: `admission webhook "w" denied the request: token=PLANTED`,
	}})
	_, err = c.Do(t.Context(), repair.Operation{Verb: repair.VerbDelete, Target: corev1.ObjectReference{
		APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment", Name: "csi-1", UID: "u", ResourceVersion: "1",
	}}, false)
	if err == nil || strings.Contains(err.Error(), "PLANTED") || !strings.Contains(err.Error(), `webhook "w" denied`) {
		t.Errorf("the write: %v", err)
	}
}

func values[T any](pointers []*T) []T {
	var list []T
	for _, p := range pointers {
		list = append(list, *p)
	}
	return list
}
