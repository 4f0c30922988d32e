package standing

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
)

// access is the answer of a review.
type access int

// The answers of review.
const (
	unauthenticated access = iota // nobody's token
	forbidden                     // somebody's, who has no right
	allowed
)

// review asks the API server whose token it is, and whether that user may get the path, which
// is about no resource. With an error, access is never allowed.
func review(ctx context.Context, c *cluster.Cluster, token, path string) (access, error) {
	who := &authenticationv1.TokenReview{}
	asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := c.Client(authenticationv1.GroupName).Post().Resource("tokenreviews").Body(asked).Do(ctx).Into(who); err != nil {
		return unauthenticated, c.Explain(err)
	}
	if !who.Status.Authenticated {
		return unauthenticated, nil
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range who.Status.User.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may := &authorizationv1.SubjectAccessReview{}
	question := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Status.User.Username, UID: who.Status.User.UID, Groups: who.Status.User.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: path},
	}}
	if err := c.Client(authorizationv1.GroupName).Post().Resource("subjectaccessreviews").Body(question).Do(ctx).Into(may); err != nil {
		return forbidden, c.Explain(err)
	}
	if !may.Status.Allowed || may.Status.Denied {
		return forbidden, nil
	}
	return allowed, nil
}
