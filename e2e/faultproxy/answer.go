package faultproxy

import (
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answer is one of the API server's, whole.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// write gives the answer, with the session's date of now: what is out of date is
// the content.
func (a *answer) write(w http.ResponseWriter) {
	a.head(w)
	_, _ = w.Write(a.body) // the client may be gone
}

// begin gives half of it.
func (a *answer) begin(w http.ResponseWriter) {
	a.head(w)
	_, _ = w.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(w).Flush()
}

func (a *answer) headers(w http.ResponseWriter) {
	for key, values := range a.header {
		if key != "Date" {
			w.Header()[key] = values
		}
	}
}

func (a *answer) head(w http.ResponseWriter) {
	a.headers(w)
	w.Header().Set("Content-Length", fmt.Sprint(len(a.body)))
	w.WriteHeader(a.code)
}

// invented is an answer that the API server never gave.
func invented(fault Fault) *answer {
	switch fault {
	case Conflict:
		return status(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified; please apply your changes to the latest version and try again")
	case Invalid:
		return status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "the server rejected our request due to an error in our request")
	case Busy:
		a := status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests, please try again later")
		a.header.Set("Retry-After", "1")
		return a
	case Internal:
		return status(http.StatusInternalServerError, metav1.StatusReasonInternalError, "an error on the server: etcdserver: leader changed")
	case Forbidden:
		return status(http.StatusForbidden, metav1.StatusReasonForbidden, `User "admin" cannot do this: RBAC: clusterrole.rbac.authorization.k8s.io not found`)
	case TimeoutBefore:
		return timeout()
	default:
		return nil
	}
}

func status(code int32, reason metav1.StatusReason, message string) *answer {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	})
	if err != nil {
		panic(err) // it is made of strings
	}
	return &answer{int(code), http.Header{"Content-Type": {"application/json"}}, body}
}

// timeout is a load balancer's, which does not speak Kubernetes.
func timeout() *answer {
	return &answer{http.StatusGatewayTimeout, http.Header{"Content-Type": {"text/plain"}}, []byte("upstream request timeout")}
}
