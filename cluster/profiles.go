package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
)

const (
	profilesPath = "/apis/multicluster.x-k8s.io/v1alpha1/clusterprofiles"
	// profilesPage is how many are asked for at a time, and maxProfilesPage bounds the
	// answer: one takes some KB, most of them certificates.
	profilesPage    = 500
	maxProfilesPage = 32 << 20
	// maxProfiles bounds an inventory. A fleet of them all is past what one machine
	// looks at.
	maxProfiles = 10_000
)

// Profile is a ClusterProfile, which an inventory of clusters has for each of them, as far
// as it tells how the cluster is reached (sigs.k8s.io/cluster-inventory-api, v1alpha1).
type Profile struct {
	metav1.ObjectMeta `json:"metadata"`

	Status struct {
		AccessProviders []AccessProvider `json:"accessProviders"`
		// CredentialProviders is the older name of AccessProviders.
		CredentialProviders []AccessProvider `json:"credentialProviders"`
	} `json:"status"`
}

// AccessProvider is one way to a cluster: where it is, and the name of the kind of
// credentials that it takes.
type AccessProvider struct {
	Name    string               `json:"name"`
	Cluster clientcmdapi.Cluster `json:"cluster"`
}

// ClusterProfiles lists the ClusterProfile objects of all namespaces.
func (c *Cluster) ClusterProfiles(ctx context.Context) ([]Profile, error) {
	var all []Profile
	for next := ""; ; {
		page, more, err := c.clusterProfiles(ctx, next)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("the API server at %s knows no ClusterProfile objects (multicluster.x-k8s.io/v1alpha1)", c.server)
		}
		if err != nil {
			return nil, c.explain(err)
		}
		all, next = append(all, page...), more
		if len(all) > maxProfiles {
			return nil, fmt.Errorf("the API server at %s has more than %d ClusterProfile objects", c.server, maxProfiles)
		}
		if next == "" {
			return all, nil
		}
		if len(page) == 0 {
			return nil, fmt.Errorf("the API server at %s sends an empty page of ClusterProfile objects and promises more", c.server)
		}
	}
}

// clusterProfiles is the page that the last one named, and the name of the next.
func (c *Cluster) clusterProfiles(ctx context.Context, page string) ([]Profile, string, error) {
	request := c.client[corev1.GroupName].Get().AbsPath(profilesPath).Param("limit", strconv.Itoa(profilesPage)).SetHeader("Accept", "application/json")
	if page != "" {
		request.Param("continue", page)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(&bounded{body, maxProfilesPage, tooMuch("a page of ClusterProfile objects", maxProfilesPage)})
	if err != nil {
		return nil, "", err
	}
	var list struct {
		metav1.ListMeta `json:"metadata"`

		Items []Profile `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, "", &pageError{err}
	}
	return list.Items, list.Continue, nil
}
