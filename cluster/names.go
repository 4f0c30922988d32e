package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// metadataOnly asks for the names and the like of objects, without what they
// are.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// Names lists the names of a kind, in one namespace where the kind has them. They
// are for completion: what the API server has at hand will do, and may be old.
func (c *Cluster) Names(ctx context.Context, kind snapshot.Kind, namespace string) ([]string, error) {
	client := c.client.core
	if kind == snapshot.VolumeAttachments {
		client = c.client.storage
	}
	request := client.Get().Resource(string(kind)).SetHeader("Accept", metadataOnly).Param("resourceVersion", "0")
	if kind == snapshot.Pods || kind == snapshot.Claims {
		request = request.Namespace(namespace)
	}
	answer, err := request.DoRaw(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("read the names of %s: %w", kind, err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}
