package cluster

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

var (
	patchNode = repair.Operation{
		Verb: repair.VerbPatch, Subresource: "status", Patch: []byte(`[{"op":"test","path":"/metadata/uid","value":"u"}]`),
		Target: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "u", ResourceVersion: "7"},
	}
	deleteAttachment = repair.Operation{
		Verb:   repair.VerbDelete,
		Target: corev1.ObjectReference{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment", Name: "csi-1", UID: "u", ResourceVersion: "7"},
	}
)

const (
	nodeStatus = "/api/v1/nodes/n1/status"
	attachment = "/apis/storage.k8s.io/v1/volumeattachments/csi-1"
)

func TestPatchOnTheWire(t *testing.T) {
	for _, dryRun := range []bool{false, true} {
		a := newAPI(t)
		a.serve(nodeStatus, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		after, err := a.cluster(Options{}).Do(t.Context(), patchNode, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		if after[0] != '{' {
			t.Errorf("the answer is not JSON: %q", after)
		}
		want := map[string][]string{"fieldManager": {"kubectl-volume_doctor"}}
		if dryRun {
			want["dryRun"] = []string{"All"}
		}
		r := a.to(nodeStatus)[0]
		if diff := cmp.Diff(want, r.query); diff != "" {
			t.Error(diff)
		}
		if r.method != http.MethodPatch || string(r.body) != string(patchNode.Patch) || r.header.Get("Content-Type") != string(types.JSONPatchType) {
			t.Errorf("%+v", r)
		}
	}
}

func TestDeleteOnTheWire(t *testing.T) {
	for _, dryRun := range []bool{false, true} {
		a := newAPI(t)
		a.serve(attachment, &metav1.Status{Status: metav1.StatusSuccess})
		if _, err := a.cluster(Options{}).Do(t.Context(), deleteAttachment, dryRun); err != nil {
			t.Fatal(err)
		}
		r := a.to(attachment)[0]
		// Typed clients write protobuf: a decoder of JSON would see nothing.
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(r.body, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		options := object.(*metav1.DeleteOptions)
		if p := options.Preconditions; r.method != http.MethodDelete || p == nil || *p.UID != "u" || *p.ResourceVersion != "7" {
			t.Errorf("%s %+v", r.method, options)
		}
		if (len(options.DryRun) == 1 && options.DryRun[0] == "All") != dryRun {
			t.Errorf("%+v", options)
		}
	}
}

func TestNeverWithoutPreconditions(t *testing.T) {
	a := newAPI(t)
	for _, change := range []func(*repair.Operation){
		func(op *repair.Operation) { op.Target.UID = "" },
		func(op *repair.Operation) { op.Target.ResourceVersion = "" },
		func(op *repair.Operation) { op.Target.Kind = "Secret" },
		func(op *repair.Operation) { op.Verb = "create" }, // of nothing
		func(op *repair.Operation) { op.Verb = "update" },
	} {
		op := patchNode
		change(&op)
		if _, err := a.cluster(Options{}).Do(t.Context(), op, false); err == nil {
			t.Errorf("%+v was sent", op)
		}
	}
	if len(a.requests) != 0 {
		t.Errorf("%+v", a.requests)
	}
}

func TestWhatAnErrorMeans(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	busyElsewhere := apierrors.NewServiceUnavailable("a proxy")
	busyElsewhere.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	for name, test := range map[string]struct {
		status *apierrors.StatusError
		want   error
	}{
		"409":                   {apierrors.NewConflict(nodes, "n1", errors.New("modified")), repair.ErrConflict},
		"422":                   {apierrors.NewGenericServerResponse(422, "", nodes, "", "test failed", 0, false), repair.ErrConflict},
		"404":                   {apierrors.NewNotFound(nodes, "n1"), repair.ErrNotFound},
		"403":                   {forbidden("nodes"), repair.ErrForbidden},
		"401":                   {apierrors.NewUnauthorized("no"), nil},
		"400":                   {apierrors.NewBadRequest("no"), nil},
		"500":                   {apierrors.NewInternalError(errors.New("etcdserver: request timed out")), repair.ErrUnknownOutcome},
		"503, with retry-after": {busyElsewhere, repair.ErrUnknownOutcome},
		"504":                   {apierrors.NewTimeoutError("slow", 0), repair.ErrUnknownOutcome},
		"a cut connection":      {nil, repair.ErrUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			if test.status != nil {
				a.fail(nodeStatus, test.status)
			} else {
				a.handlers[nodeStatus] = func(*http.Request) (int, runtime.Object) { return 0, nil }
			}
			_, err := a.cluster(Options{}).Do(t.Context(), patchNode, false)
			for _, kind := range []error{repair.ErrConflict, repair.ErrNotFound, repair.ErrForbidden, repair.ErrUnknownOutcome} {
				if errors.Is(err, kind) != (kind == test.want) {
					t.Errorf("%v", err)
				}
			}
			if err == nil || len(a.to(nodeStatus)) != 1 {
				t.Errorf("%d requests, %v", len(a.to(nodeStatus)), err)
			}
		})
	}
}

func TestDryRunHasNoUnknownOutcome(t *testing.T) {
	a := newAPI(t)
	a.handlers[nodeStatus] = func(*http.Request) (int, runtime.Object) { return 0, nil }
	if _, err := a.cluster(Options{}).Do(t.Context(), patchNode, true); err == nil || errors.Is(err, repair.ErrUnknownOutcome) {
		t.Errorf("%v", err)
	}
}

func TestWriteThatWasNeverSent(t *testing.T) {
	c, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Do(t.Context(), patchNode, false); err == nil || errors.Is(err, repair.ErrUnknownOutcome) {
		t.Errorf("%v", err)
	}
}

func TestWriteToABusyServerIsSentAgain(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	tries := 0
	a.handlers[nodeStatus] = func(r *http.Request) (int, runtime.Object) {
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != string(patchNode.Patch) {
			t.Errorf("%s, %v", body, err)
		}
		if tries++; tries == 1 {
			status := apierrors.NewTooManyRequests("busy", 1)
			return http.StatusTooManyRequests, &status.ErrStatus
		}
		return http.StatusOK, &corev1.Node{}
	}
	if _, err := a.cluster(Options{}).Do(t.Context(), patchNode, false); err != nil || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

func TestCan(t *testing.T) {
	const reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	a := newAPI(t)
	a.handlers[reviews] = func(r *http.Request) (int, runtime.Object) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			t.Error(err)
		}
		review := object.(*authorizationv1.SelfSubjectAccessReview)
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = asked.Verb == "patch" && asked.Resource == "nodes" && asked.Subresource == "status" && asked.Name == "n1"
		return http.StatusCreated, review
	}
	may := repair.Permission{Verb: "patch", Resource: "nodes", Subresource: "status", Name: "n1"}
	mayNot := repair.Permission{Verb: "delete", Group: "storage.k8s.io", Resource: "volumeattachments"}
	missing, err := a.cluster(Options{}).Can(t.Context(), []repair.Permission{may, mayNot})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]repair.Permission{mayNot}, missing); diff != "" {
		t.Error(diff)
	}
}
