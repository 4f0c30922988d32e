package cluster

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// Access is what a token may do.
type Access int

// The answers of Review.
const (
	Unauthenticated Access = iota // nobody's token
	Forbidden                     // somebody's, who may not
	Allowed
)

// Review asks the API server whose token it is, and whether they may get the path,
// which is about no resource. With an error the answer is not Allowed.
func (c *Cluster) Review(ctx context.Context, token, path string) (Access, error) {
	who := &authenticationv1.TokenReview{}
	asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := c.client[authenticationv1.GroupName].Post().Resource("tokenreviews").Body(asked).Do(ctx).Into(who); err != nil {
		return Unauthenticated, c.explain(err)
	}
	if !who.Status.Authenticated {
		return Unauthenticated, nil
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
	if err := c.client[authorizationv1.GroupName].Post().Resource("subjectaccessreviews").Body(question).Do(ctx).Into(may); err != nil {
		return Forbidden, c.explain(err)
	}
	if !may.Status.Allowed || may.Status.Denied {
		return Forbidden, nil
	}
	return Allowed, nil
}
