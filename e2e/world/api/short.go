package api

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/apis/coordination"
	coordinationinternal "k8s.io/kubernetes/pkg/apis/coordination/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/memory"
)

// renew renews a lease in the store, and returns it as it is then. Nothing but the time changes,
// and that may be any: the handlers would validate what is valid already, and work out which
// client owns which field. It returns nil, and changes nothing, where it is another update or a
// conflict, or where something is to happen to requests.
func (s *Server) renew(lease *coordinationv1.Lease) *coordinationv1.Lease {
	if lease.Spec.RenewTime == nil || s.faults.any() {
		return nil
	}
	wanted := &coordination.Lease{}
	if err := coordinationinternal.Convert_v1_Lease_To_coordination_Lease(lease, wanted, nil); err != nil {
		return nil
	}
	at := wired(lease.Spec.RenewTime)
	renewed := s.store.Exchange("/"+coordination.Resource("leases").String()+"/"+lease.Namespace+"/"+lease.Name, func(current runtime.Object) runtime.Object {
		next := current.DeepCopyObject().(*coordination.Lease)
		next.Spec.AcquireTime = wired(next.Spec.AcquireTime)
		same := next.Spec.RenewTime.Equal(at)
		next.Spec.RenewTime = wanted.Spec.RenewTime
		if same || next.ResourceVersion != lease.ResourceVersion || !equality.Semantic.DeepEqual(next, wanted) {
			return nil
		}
		next.Spec.RenewTime = at
		return next
	})
	if renewed == nil {
		return nil
	}
	answer := &coordinationv1.Lease{}
	if err := coordinationinternal.Convert_coordination_Lease_To_v1_Lease(renewed.(*coordination.Lease), answer, nil); err != nil {
		return nil
	}
	return answer
}

// wired is the time as it is after a way over the wire.
func wired(t *metav1.MicroTime) *metav1.MicroTime {
	if t == nil {
		return nil
	}
	return new(metav1.NewMicroTime(t.Truncate(time.Microsecond)))
}

// lists are the last answers to requests for lists. The tool looks again and again, and in
// between most kinds do not change.
type lists struct {
	store *memory.Store

	mu      sync.Mutex
	answers map[string]*listed
}

// listed is an answer, with its kind and the revision of the last change of that.
type listed struct {
	kind    schema.GroupResource
	changed uint64
	code    int
	header  http.Header
	body    []byte
}

func keyOf(r *http.Request) string { return r.URL.String() + " " + r.Header.Get("Accept") }

// last is the last answer to the request; nil where there is none, or where an object of its kind
// has changed since.
func (l *lists) last(r *http.Request) *listed {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.answers[keyOf(r)]
	if last == nil || last.changed != l.store.Changed(last.kind) {
		return nil
	}
	return last
}

// remember hands all requests to the handlers, and keeps their answers to those for lists.
func (l *lists) remember(handlers http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, _ := request.RequestInfoFrom(r.Context())
		if info.Verb != "list" {
			handlers.ServeHTTP(w, r)
			return
		}
		kind := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
		now := &listed{kind: kind, changed: l.store.Changed(kind)}
		a := newAnswer(func() {})
		handlers.ServeHTTP(a, r)
		now.code, now.header, now.body = a.code, a.header, a.buffer.Bytes()
		l.mu.Lock()
		l.answers[keyOf(r)] = now
		l.mu.Unlock()
		maps.Copy(w.Header(), now.header)
		w.WriteHeader(now.code)
		_, _ = w.Write(now.body) // into memory
	})
}

// response is the answer as a client gets it.
func (l *listed) response(r *http.Request) *http.Response {
	return response(r, l.code, maps.Clone(l.header), io.NopCloser(bytes.NewReader(l.body)))
}
