package cluster

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// groups are clients by API group, for the groups that are read and written. client-go's
// Clientset has those of all groups, which would cost code and memory for nothing.
type groups map[string]rest.Interface

func newGroups(config *rest.Config, transport http.RoundTripper) (groups, error) {
	client := &http.Client{Transport: transport, Timeout: config.Timeout, CheckRedirect: sameHost}
	versions := []schema.GroupVersion{authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion}
	for _, r := range snapshot.Resources() {
		versions = append(versions, r.GroupVersion())
	}
	g := groups{}
	for _, version := range versions {
		if g[version.Group] != nil {
			continue
		}
		path := "/apis"
		if version.Group == corev1.GroupName {
			path = "/api"
		}
		group, err := newGroup(config, client, path, version)
		if err != nil {
			return nil, err
		}
		g[version.Group] = group
	}
	return g, nil
}

func newGroup(config *rest.Config, client *http.Client, path string, version schema.GroupVersion) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = path, &version, scheme.Codecs.WithoutConversion()
	return rest.RESTClientForConfigAndClient(config, client)
}
