package standing

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
)

// api is an API server with the answers of a test, by path.
type api struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	answers map[string]func(*http.Request) (int, runtime.Object)
}

func newAPI(t testing.TB) *api {
	a := &api{t: t, answers: map[string]func(*http.Request) (int, runtime.Object){}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// handle answers the requests for the path.
func (a *api) handle(path string, answer func(*http.Request) (int, runtime.Object)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[path] = answer
}

// fail answers each request for the path with the error.
func (a *api) fail(path string, err *apierrors.StatusError) {
	a.handle(path, func(*http.Request) (int, runtime.Object) { return int(err.ErrStatus.Code), &err.ErrStatus })
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	answer := a.answers[r.URL.Path]
	a.mu.Unlock()
	if answer == nil {
		a.t.Errorf("nobody answers %s %s", r.Method, r.URL.Path)
		return
	}
	code, object := answer(r)
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	w.WriteHeader(code)
	if err := scheme.Codecs.EncoderForVersion(info.Serializer, versionOf(object)).Encode(object.DeepCopyObject(), w); err != nil {
		a.t.Error(err)
	}
}

// versionOf is the API group and version of the object. A Status has no type of its own.
func versionOf(object runtime.Object) schema.GroupVersion {
	if _, is := object.(*metav1.Status); is {
		return schema.GroupVersion{Version: "v1"}
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	return kinds[0].GroupVersion()
}

// cluster is a client of the API server.
func (a *api) cluster() *cluster.Cluster {
	c, err := cluster.New(&rest.Config{Host: a.URL}, cluster.Options{})
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}
