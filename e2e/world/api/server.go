// Package api is an API server for one testing/synctest bubble: the real one's registries,
// handlers, defaults and validation, on a store in memory, called without a socket. It has
// no admission, no authorization and no garbage collector.
package api

import (
	"net/http"
	"sync"
	"time"

	"github.com/emicklei/go-restful/v3"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/memory"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	appsrest "k8s.io/kubernetes/pkg/registry/apps/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	eventstore "k8s.io/kubernetes/pkg/registry/core/event/storage"
	namespacestore "k8s.io/kubernetes/pkg/registry/core/namespace/storage"
	nodestore "k8s.io/kubernetes/pkg/registry/core/node/storage"
	volumestore "k8s.io/kubernetes/pkg/registry/core/persistentvolume/storage"
	claimstore "k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim/storage"
	podstore "k8s.io/kubernetes/pkg/registry/core/pod/storage"
	policyrest "k8s.io/kubernetes/pkg/registry/policy/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"
)

// Version is what the server says of itself: the release of the modules it is made of.
var Version = "v1.37.2"

// eventLifetime is how long an API server keeps an event, in seconds.
const eventLifetime = 3600

// Server is one API server with its store.
type Server struct {
	store   *memory.Store
	handler http.Handler

	faults faults
	served counter
	lists  lists
}

// New makes a server with an empty store. What it starts ends with the bubble's clients.
func New() (*Server, error) {
	store := memory.New()
	s := &Server{store: store, lists: lists{store: store, answers: map[string]*listed{}}}
	container := restful.NewContainer()
	container.Router(restful.CurlyRouter{})
	i := &installer{container: container, equivalents: runtime.NewEquivalentResourceRegistry()}

	own, err := s.Client("kube-apiserver")
	if err != nil {
		return nil, err
	}
	core, err := coreStorage(s.store, own)
	if err != nil {
		return nil, err
	}
	if err := i.install("/api", schema.GroupVersion{Version: "v1"}, core); err != nil {
		return nil, err
	}
	enabled := serverstorage.NewResourceConfig()
	for _, group := range []string{"storage.k8s.io", "apps", "coordination.k8s.io", "policy"} {
		enabled.EnableVersions(schema.GroupVersion{Group: group, Version: "v1"})
	}
	for _, provider := range []storageProvider{storagerest.RESTStorageProvider{}, appsrest.StorageProvider{}, coordinationrest.RESTStorageProvider{}, policyrest.RESTStorageProvider{}} {
		info, err := provider.NewRESTStorage(enabled, s.store)
		if err != nil {
			return nil, err
		}
		version := schema.GroupVersion{Group: provider.GroupName(), Version: "v1"}
		if err := i.install("/apis", version, info.VersionedResourcesStorageMap[version.Version]); err != nil {
			return nil, err
		}
	}
	info := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	s.handler = filters.WithRequestReceivedTimestamp(filters.WithAuditInit(filters.WithRequestInfo(s.lists.remember(container), info)))
	return s, nil
}

// coreStorage makes the registries of the group without a name. Its own provider would
// also make services, which need an allocator of addresses.
func coreStorage(s *memory.Store, own kubernetes.Interface) (map[string]rest.Storage, error) {
	pods, err := podstore.NewStorage(s, nil, nil, own.PolicyV1(), nil)
	if err != nil {
		return nil, err
	}
	nodes, err := nodestore.NewStorage(s, kubeletclient.KubeletClientConfig{}, nil)
	if err != nil {
		return nil, err
	}
	volumes, volumesStatus, err := volumestore.NewREST(s)
	if err != nil {
		return nil, err
	}
	claims, claimsStatus, err := claimstore.NewREST(s)
	if err != nil {
		return nil, err
	}
	namespaces, namespacesStatus, namespacesFinalize, err := namespacestore.NewREST(s)
	if err != nil {
		return nil, err
	}
	events, err := eventstore.NewREST(s, eventLifetime)
	if err != nil {
		return nil, err
	}
	return map[string]rest.Storage{
		"pods": pods.Pod, "pods/status": pods.Status, "pods/binding": pods.Binding, "pods/eviction": pods.Eviction,
		"nodes": nodes.Node, "nodes/status": nodes.Status,
		"persistentvolumes": volumes, "persistentvolumes/status": volumesStatus,
		"persistentvolumeclaims": claims, "persistentvolumeclaims/status": claimsStatus,
		"namespaces": namespaces, "namespaces/status": namespacesStatus, "namespaces/finalize": namespacesFinalize,
		"events": events,
	}, nil
}

// storageProvider makes the registries of a group.
type storageProvider interface {
	GroupName() string
	NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericserver.APIGroupInfo, error)
}

// installer adds groups to one container.
type installer struct {
	container   *restful.Container
	equivalents runtime.EquivalentResourceRegistry
}

func (i *installer) install(root string, version schema.GroupVersion, storage map[string]rest.Storage) error {
	info := genericserver.NewDefaultAPIGroupInfo(version.Group, legacyscheme.Scheme, legacyscheme.ParameterCodec, legacyscheme.Codecs)
	group := &endpoints.APIGroupVersion{
		Storage: storage, Root: root, GroupVersion: version,
		OptionsExternalVersion: &schema.GroupVersion{Version: "v1"}, MetaGroupVersion: info.MetaGroupVersion,
		ParameterCodec: info.ParameterCodec, Serializer: info.NegotiatedSerializer,
		Creater: legacyscheme.Scheme, Convertor: legacyscheme.Scheme, ConvertabilityChecker: legacyscheme.Scheme, //nolint:misspell // its name in the API server
		UnsafeConvertor: runtime.UnsafeObjectConvertor(legacyscheme.Scheme), Defaulter: legacyscheme.Scheme, Typer: legacyscheme.Scheme,
		Namer: runtime.Namer(meta.NewAccessor()), EquivalentResourceRegistry: i.equivalents, TypeConverter: typeConverter(),
		Admit: admission.NewChainHandler(), MinRequestTimeout: 30 * time.Minute, MaxRequestBodyBytes: 3 << 20,
	}
	_, _, err := group.InstallREST(i.container)
	return err
}

// typeConverter takes a tenth of a second to make, and never changes.
var typeConverter = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })
