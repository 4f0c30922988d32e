package standing

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
)

const (
	tokenReviews  = "/apis/authentication.k8s.io/v1/tokenreviews"
	accessReviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
)

func decoded[T runtime.Object](t *testing.T, r *http.Request) T {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		t.Error(err)
	}
	return object.(T)
}

// TestReview: only a user whom the API server knows and allows is let in; the API server is
// asked about all attributes that it gave for the user.
func TestReview(t *testing.T) {
	a := newAPI(t)
	a.handle(tokenReviews, func(r *http.Request) (int, runtime.Object) {
		review := decoded[*authenticationv1.TokenReview](t, r)
		switch review.Spec.Token {
		case "good", "denied":
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
				Username: "jane", UID: "7", Groups: []string{"sre"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"a", "b"}}}}
			if review.Spec.Token == "denied" {
				review.Status.User.Username = "mallory"
			}
		default: // an authenticator's error about a bad token
			review.Status = authenticationv1.TokenReviewStatus{Error: "expired", User: authenticationv1.UserInfo{Username: "jane"}}
		}
		return http.StatusCreated, review
	})
	a.handle(accessReviews, func(r *http.Request) (int, runtime.Object) {
		review := decoded[*authorizationv1.SubjectAccessReview](t, r)
		s := review.Spec
		if s.UID != "7" || !slices.Equal(s.Groups, []string{"sre"}) || !slices.Equal(s.Extra["pod"], authorizationv1.ExtraValue{"a", "b"}) ||
			s.ResourceAttributes != nil || *s.NonResourceAttributes != (authorizationv1.NonResourceAttributes{Path: cluster.PagePath, Verb: "get"}) {
			t.Errorf("asked %+v", s)
		}
		review.Status.Allowed = s.User == "jane"
		return http.StatusCreated, review
	})
	c := a.cluster()
	for token, want := range map[string]access{"good": allowed, "denied": forbidden, "old": unauthenticated} {
		if got, err := review(t.Context(), c, token, cluster.PagePath); err != nil || got != want {
			t.Errorf("%s: %v, %v", token, got, err)
		}
	}
	a.handle(accessReviews, func(r *http.Request) (int, runtime.Object) {
		review := decoded[*authorizationv1.SubjectAccessReview](t, r)
		review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}
		return http.StatusCreated, review
	})
	if got, _ := review(t.Context(), c, "good", cluster.PagePath); got != forbidden {
		t.Errorf("allowed and denied at the same time: %v", got)
	}
	for _, path := range []string{accessReviews, tokenReviews} {
		a.fail(path, apierrors.NewInternalError(errors.New("down")))
		if got, err := review(t.Context(), c, "good", cluster.PagePath); err == nil || got == allowed {
			t.Errorf("%s fails: %v, %v", path, got, err)
		}
	}
}
