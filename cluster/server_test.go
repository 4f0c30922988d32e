package cluster

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// serverTime is what the test's API server holds for now: far from any clock
// that a test could run by.
var serverTime = time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)

// api is an API server as far as a client can see: it answers in protobuf where
// that is asked for, from handlers that a test replaces.
type api struct {
	*httptest.Server
	// transport leads to the API server without a socket; nil where it has one.
	transport http.RoundTripper
	t         testing.TB
	handlers  map[string]func(r *http.Request) (int, runtime.Object)
	// raw, where it is not nil, is asked first; it says whether it has answered.
	raw func(http.ResponseWriter, *http.Request) bool
	// noProtobuf answers in JSON whatever is asked for.
	noProtobuf bool

	mu       sync.Mutex
	requests []request
	// date is sent with the answers, a second later each unless it stands; zero sends none.
	date   time.Time
	stands bool
}

// request is what came over the wire.
type request struct {
	method, path string
	query        map[string][]string
	header       http.Header
	body         []byte
}

// emptyLists are the paths of all kinds.
var emptyLists = map[string]runtime.Object{
	"/api/v1/nodes":                                              &corev1.NodeList{},
	"/api/v1/pods":                                               &corev1.PodList{},
	"/api/v1/events":                                             &corev1.EventList{},
	"/api/v1/persistentvolumes":                                  &corev1.PersistentVolumeList{},
	"/api/v1/persistentvolumeclaims":                             &corev1.PersistentVolumeClaimList{},
	"/apis/storage.k8s.io/v1/volumeattachments":                  &storagev1.VolumeAttachmentList{},
	"/apis/storage.k8s.io/v1/csinodes":                           &storagev1.CSINodeList{},
	"/apis/storage.k8s.io/v1/csidrivers":                         &storagev1.CSIDriverList{},
	"/apis/storage.k8s.io/v1/storageclasses":                     &storagev1.StorageClassList{},
	"/apis/coordination.k8s.io/v1/leases":                        &coordinationv1.LeaseList{},
	"/apis/apps/v1/deployments":                                  &appsv1.DeploymentList{},
	"/api/v1/namespaces/shop/pods":                               &corev1.PodList{},
	"/api/v1/namespaces/shop/events":                             &corev1.EventList{},
	"/api/v1/namespaces/shop/deployments":                        &appsv1.DeploymentList{},
	"/apis/apps/v1/namespaces/shop/deployments":                  &appsv1.DeploymentList{},
	"/api/v1/namespaces/shop/persistentvolumeclaims":             &corev1.PersistentVolumeClaimList{},
	"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases": &coordinationv1.LeaseList{},
}

func newAPI(t testing.TB) *api {
	a := newAPIWithoutSocket(t)
	a.Server, a.transport = httptest.NewServer(a), nil
	t.Cleanup(a.Close)
	return a
}

// newAPIWithoutSocket returns an API server for a synctest bubble, whose clock stands still while
// a socket is read. It cannot stream the events of a watch.
func newAPIWithoutSocket(t testing.TB) *api {
	a := &api{t: t, handlers: map[string]func(*http.Request) (int, runtime.Object){}, date: serverTime}
	for path, list := range emptyLists {
		a.serve(path, list)
	}
	a.Server, a.transport = &httptest.Server{URL: "http://api"}, answered{a}
	return a
}

// answered is a transport that asks the handler itself.
type answered struct{ http.Handler }

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	recorder := httptest.NewRecorder()
	a.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// serve answers every request for the path with the object.
func (a *api) serve(path string, object runtime.Object) {
	a.handle(path, func(*http.Request) (int, runtime.Object) { return http.StatusOK, object })
}

// handle may be called while requests are served.
func (a *api) handle(path string, handler func(*http.Request) (int, runtime.Object)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handlers[path] = handler
}

// fail answers every request for the path with the error.
func (a *api) fail(path string, err *apierrors.StatusError) {
	a.handle(path, func(*http.Request) (int, runtime.Object) { return int(err.ErrStatus.Code), &err.ErrStatus })
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	a.requests = append(a.requests, request{r.Method, r.URL.Path, r.URL.Query(), r.Header, body})
	w.Header()["Date"] = nil
	if !a.date.IsZero() {
		w.Header().Set("Date", a.date.Format(http.TimeFormat))
		if !a.stands {
			a.date = a.date.Add(time.Second)
		}
	}
	handler, raw := a.handlers[r.URL.Path], a.raw
	a.mu.Unlock()
	if r.URL.Path == "/version" && handler == nil {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
		return
	}
	if handler == nil {
		a.t.Errorf("nobody serves %s %s", r.Method, r.URL.Path)
		return
	}
	if raw != nil && raw(w, r) {
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	code, object := handler(r)
	if object == nil {
		panic(http.ErrAbortHandler) // cut the connection
	}
	if status, ok := object.(*metav1.Status); ok && status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(status.Details.RetryAfterSeconds))
	}
	mediaType := runtime.ContentTypeJSON
	if strings.HasPrefix(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) && !a.noProtobuf {
		mediaType = runtime.ContentTypeProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(code)
	own := object.DeepCopyObject() // the encoder writes to it, and other answers may have the same object
	if err := scheme.Codecs.EncoderForVersion(info.Serializer, groupVersion(object)).Encode(own, w); err != nil {
		a.t.Error(err)
	}
}

func groupVersion(object runtime.Object) schema.GroupVersion {
	if _, ok := object.(*metav1.Status); ok {
		return schema.GroupVersion{Version: "v1"}
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	return kinds[0].GroupVersion()
}

// cluster is a client of the API server.
func (a *api) cluster(options Options) *Cluster {
	c, err := New(&rest.Config{Host: a.URL, Transport: a.transport}, options)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// to are the requests for the path.
func (a *api) to(path string) []request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.requests), func(r request) bool { return r.path != path })
}

func forbidden(resource string) *apierrors.StatusError {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", fmt.Errorf("no"))
}
