package cluster

import (
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// groups are clients of the API groups that are read and written. client-go's
// Clientset has those of all groups, which are code and memory for nothing.
type groups struct{ core, storage, apps, coordination, authorization rest.Interface }

func newGroups(config *rest.Config) (groups, error) {
	// They share the connections.
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return groups{}, err
	}
	var g groups
	for _, group := range []struct {
		into    *rest.Interface
		path    string
		version schema.GroupVersion
	}{
		{&g.core, "/api", corev1.SchemeGroupVersion},
		{&g.storage, "/apis", storagev1.SchemeGroupVersion},
		{&g.apps, "/apis", appsv1.SchemeGroupVersion},
		{&g.coordination, "/apis", coordinationv1.SchemeGroupVersion},
		{&g.authorization, "/apis", authorizationv1.SchemeGroupVersion},
	} {
		if *group.into, err = newGroup(config, client, group.path, group.version); err != nil {
			return groups{}, err
		}
	}
	return g, nil
}

func newGroup(config *rest.Config, client *http.Client, path string, version schema.GroupVersion) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = path, &version, scheme.Codecs.WithoutConversion()
	return rest.RESTClientForConfigAndClient(config, client)
}
