package api

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// Config is a client's way to the server. The agent names the client to the faults.
func (s *Server) Config(agent string) *rest.Config {
	return &rest.Config{
		Host: "http://world.invalid", Transport: s, UserAgent: agent, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON},
	}
}

// Client is a clientset for the server.
func (s *Server) Client(agent string) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(s.Config(agent))
	return &clientset{client, s}, err
}

// clientset renews leases in the short way: most requests of a world do.
type clientset struct {
	*kubernetes.Clientset
	server *Server
}

// CoordinationV1 implements kubernetes.Interface.
func (c *clientset) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return &coordinationClient{c.Clientset.CoordinationV1(), c.server}
}

type coordinationClient struct {
	coordinationclient.CoordinationV1Interface
	server *Server
}

// Leases implements coordinationclient.LeasesGetter.
func (c *coordinationClient) Leases(namespace string) coordinationclient.LeaseInterface {
	return &leases{c.CoordinationV1Interface.Leases(namespace), c.server}
}

type leases struct {
	coordinationclient.LeaseInterface
	server *Server
}

// Update implements coordinationclient.LeaseInterface.
func (l *leases) Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if opts.DryRun == nil && opts.FieldManager == "" && opts.FieldValidation == "" && ctx.Err() == nil {
		if renewed := l.server.renew(lease); renewed != nil {
			return renewed, nil
		}
	}
	return l.LeaseInterface.Update(ctx, lease, opts)
}
