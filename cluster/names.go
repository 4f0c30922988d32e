package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// metadataOnly is the media type of lists with only the metadata of objects.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// namespaces are not part of a snapshot.
const namespaces snapshot.Kind = "namespaces"

// Names lists the names of a kind, in one namespace where the kind has them. They are for
// completion: an answer from the API server's cache is enough, and may be old.
func (c *Cluster) Names(ctx context.Context, kind snapshot.Kind, namespace string) ([]string, error) {
	resource := snapshot.Resource{Kind: namespaces, Version: corev1.SchemeGroupVersion.String()}
	if kind != namespaces {
		resource = snapshot.ResourceOf(kind)
	}
	request := c.client[resource.Group()].Get().Resource(string(kind)).NamespaceIfScoped(namespace, resource.Namespaced).Param("resourceVersion", "0")
	list, err := c.Metadata(ctx, request)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(list))
	for i := range list {
		names = append(names, list[i].Name)
	}
	return names, nil
}

// PodsWith lists the pods that match the label selector, in all namespaces where namespace is
// "".
func (c *Cluster) PodsWith(ctx context.Context, namespace, selector string) ([]types.NamespacedName, error) {
	list, err := c.Metadata(ctx, c.client[corev1.GroupName].Get().Namespace(namespace).Resource(string(snapshot.Pods)).Param("labelSelector", selector))
	if err != nil {
		return nil, err
	}
	names := make([]types.NamespacedName, 0, len(list))
	for i := range list {
		names = append(names, types.NamespacedName{Namespace: list[i].Namespace, Name: list[i].Name})
	}
	return names, nil
}

// HasPod reports whether the namespace has a pod, including pods that a snapshot leaves out.
func (c *Cluster) HasPod(ctx context.Context, namespace string) (bool, error) {
	list, err := c.Metadata(ctx, c.client[corev1.GroupName].Get().Namespace(namespace).Resource(string(snapshot.Pods)).Param("limit", "1"))
	return len(list) > 0, err
}

// Metadata lists the metadata of objects.
func (c *Cluster) Metadata(ctx context.Context, request *rest.Request) ([]metav1.PartialObjectMetadata, error) {
	answer, err := c.Raw(request.SetHeader("Accept", metadataOnly).Do(ctx))
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("read the names: %w", err)
	}
	return list.Items, nil
}

// Raw is the unchanged answer. The error of rest.Result.Raw lacks the API server's message.
func (c *Cluster) Raw(result rest.Result) ([]byte, error) {
	if err := result.Error(); err != nil {
		return nil, c.Explain(err)
	}
	answer, err := result.Raw()
	if err != nil {
		return nil, c.Explain(err)
	}
	return answer, nil
}
