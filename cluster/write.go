package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// busyTries is how often a write is sent to an API server that is too busy to
// take it.
const busyTries = 5

// Do makes one write, with its preconditions, and returns the object as JSON as
// the API server then has it, or in a dry run would have it.
func (c *Cluster) Do(ctx context.Context, op repair.Operation, dryRun bool) (json.RawMessage, error) {
	if !op.Conditional() {
		return nil, fmt.Errorf("%s %s %s: a write without preconditions is never sent", op.Verb, op.Target.Kind, op.Target.Name)
	}
	for try := 1; ; try++ {
		after, err := c.do(ctx, op, dryRun)
		if err == nil {
			return after, nil
		}
		// A 429 says that the request was turned away before it was handled. client-go would
		// send it again by itself, but also after a 5xx, which does not say so: the second
		// attempt would then fail because the first one succeeded, and nobody would know
		// whose write it was.
		seconds, busy := apierrors.SuggestsClientDelay(err)
		if apierrors.IsTooManyRequests(err) && busy && seconds <= int(maxRetryAfter/time.Second) && try < busyTries {
			if Sleep(ctx, time.Duration(seconds)*time.Second) == nil {
				continue
			}
		}
		return nil, fmt.Errorf("%s %s %s: %w", op.Verb, op.Target.Kind, op.Target.Name, err)
	}
}

func (c *Cluster) do(ctx context.Context, op repair.Operation, dryRun bool) (json.RawMessage, error) {
	request, err := c.request(op, dryRun)
	if err != nil {
		return nil, err
	}
	// Once there is a connection, the request may have reached the API server.
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	result := request.MaxRetries(0).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, c.refused(err, connected.Load() && !dryRun)
	}
	return result.Raw()
}

// request is the operation on the wire.
func (c *Cluster) request(op repair.Operation, dryRun bool) (*rest.Request, error) {
	resource := repair.Resource(op.Target.Kind)
	if resource == "" {
		return nil, fmt.Errorf("objects of kind %q are never written", op.Target.Kind)
	}
	client := c.client[schema.FromAPIVersionAndKind(op.Target.APIVersion, op.Target.Kind).Group]
	var dry []string
	if dryRun {
		dry = []string{metav1.DryRunAll}
	}
	var request *rest.Request
	switch op.Verb {
	case repair.VerbPatch:
		// The preconditions of a patch are in the patch.
		patchType := types.JSONPatchType
		if op.Merge {
			patchType = types.MergePatchType
		}
		request = client.Patch(patchType).
			VersionedParams(&metav1.PatchOptions{DryRun: dry, FieldManager: repair.FieldManager}, scheme.ParameterCodec).
			Body([]byte(op.Patch))
	case repair.VerbDelete:
		request = client.Delete().Body(&metav1.DeleteOptions{
			DryRun:        dry,
			Preconditions: &metav1.Preconditions{UID: &op.Target.UID, ResourceVersion: &op.Target.ResourceVersion},
		})
	case repair.VerbCreate:
		request = client.Post().
			VersionedParams(&metav1.CreateOptions{DryRun: dry, FieldManager: repair.FieldManager}, scheme.ParameterCodec).
			SetHeader("Content-Type", "application/json").
			Body([]byte(op.Object))
	default:
		return nil, fmt.Errorf("there is no way to %q an object", op.Verb)
	}
	request = request.NamespaceIfScoped(op.Target.Namespace, op.Target.Namespace != "").
		Resource(resource).
		SetHeader("Accept", "application/json") // the caller reads it as JSON
	if op.Verb != repair.VerbCreate {
		request = request.Name(op.Target.Name).SubResource(subresources(op)...)
	}
	return request, nil
}

func subresources(op repair.Operation) []string {
	if op.Subresource == "" {
		return nil
	}
	return []string{op.Subresource}
}

// refused translates an error into what it means for the object. mayBeMade is false where
// nothing can have been written, whatever the answer.
func (c *Cluster) refused(err error, mayBeMade bool) error {
	var status apierrors.APIStatus
	answered := errors.As(err, &status)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %s", repair.ErrConflict, message(err))
	case apierrors.IsInvalid(err):
		// A test of the JSON patch failed. The API server does not say which.
		return fmt.Errorf("%w: the API server refused the patch: %s", repair.ErrConflict, message(err))
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %s", repair.ErrNotFound, message(err))
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %s", repair.ErrForbidden, message(err))
	case answered && status.Status().Code < 500, !mayBeMade:
		return c.Explain(err)
	default:
		// A 5xx may come after the write, from a proxy or from etcd's time-out.
		return fmt.Errorf("%w: %w", repair.ErrUnknownOutcome, c.Explain(err))
	}
}

// Announce writes an event about an object, for those who look at it later.
func (c *Cluster) Announce(ctx context.Context, about corev1.ObjectReference, note apply.Note) error {
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // the namespace for events about objects without one
	}
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "volume-doctor-", Namespace: namespace},
		InvolvedObject: about,
		Reason:         note.Reason,
		Message:        note.Message,
		Type:           corev1.EventTypeNormal,
		Source:         corev1.EventSource{Component: repair.FieldManager},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if err := c.createEvent(ctx, event); err != nil {
		return c.Explain(err)
	}
	return nil
}

// Sleep waits for the duration. It returns the context's error where the context ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Can asks the API server which of the rights the user lacks.
func (c *Cluster) Can(ctx context.Context, wanted []repair.Permission) ([]repair.Permission, error) {
	var missing []repair.Permission
	for _, p := range wanted {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: p.Verb, Group: p.Group, Resource: p.Resource, Subresource: p.Subresource, Namespace: p.Namespace, Name: p.Name,
			},
		}}
		if p.Path != "" {
			review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes = nil, &authorizationv1.NonResourceAttributes{Verb: p.Verb, Path: p.Path}
		}
		answer := &authorizationv1.SelfSubjectAccessReview{}
		if err := c.client[authorizationv1.GroupName].Post().Resource("selfsubjectaccessreviews").Body(review).Do(ctx).Into(answer); err != nil {
			return nil, c.Explain(err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, p)
		}
	}
	return missing, nil
}
