package api

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/coordination"
)

// short answers what most requests ask in a short way, and hands all others to the handlers.
func (s *Server) short(handlers http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, _ := request.RequestInfoFrom(r.Context())
		kind := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
		switch {
		case info.Verb == "update" && r.URL.RawQuery == "" && kind == coordination.Resource("leases") && s.renew(w, r, info):
		case info.Verb == "list":
			s.lists.serve(w, r, s.store.Changed(kind), handlers)
		default:
			handlers.ServeHTTP(w, r)
		}
	})
}

// renew renews a lease in the store. Nothing but the time changes, and that may be any: the
// handlers would validate what is valid already, and work out which client owns which field.
// It reports false, and leaves the request as it was, where it is another update or a conflict.
func (s *Server) renew(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) bool {
	text, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	lease := &coordination.Lease{}
	if err != nil || runtime.DecodeInto(leases, text, lease) != nil {
		return false
	}
	renewed := s.store.Exchange("/"+coordination.Resource("leases").String()+"/"+info.Namespace+"/"+info.Name, func(current runtime.Object) runtime.Object {
		next := current.DeepCopyObject().(*coordination.Lease)
		same := lease.Spec.RenewTime.Equal(next.Spec.RenewTime)
		next.Spec.RenewTime = lease.Spec.RenewTime
		if same || !equality.Semantic.DeepEqual(next, lease) {
			return nil
		}
		return next
	})
	if renewed == nil {
		return false
	}
	responsewriters.WriteObjectNegotiated(legacyscheme.Codecs, negotiation.DefaultEndpointRestrictions, coordinationv1.SchemeGroupVersion, w, r, http.StatusOK, renewed, false)
	return true
}

// leases decodes them as the handlers do.
var leases = legacyscheme.Codecs.UniversalDecoder()

// lists are the last answers to requests for lists. The tool looks again and again, and in
// between most kinds do not change.
type lists struct {
	mu      sync.Mutex
	answers map[string]listed
}

// listed is an answer, with the revision of the last change of its kind.
type listed struct {
	code    int
	changed uint64
	header  http.Header
	body    []byte
}

// serve answers as the last time, unless an object of the kind has changed since.
func (l *lists) serve(w http.ResponseWriter, r *http.Request, changed uint64, handlers http.Handler) {
	key := r.URL.String() + " " + r.Header.Get("Accept")
	l.mu.Lock()
	last, known := l.answers[key]
	l.mu.Unlock()
	if !known || last.changed != changed {
		a := newAnswer(func() {})
		handlers.ServeHTTP(a, r)
		last = listed{a.code, changed, a.header, a.buffer.Bytes()}
		l.mu.Lock()
		l.answers[key] = last
		l.mu.Unlock()
	}
	maps.Copy(w.Header(), last.header)
	w.WriteHeader(last.code)
	_, _ = w.Write(last.body) // into memory
}
