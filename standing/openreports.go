package standing

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

const (
	openReportsVersion = cluster.OpenReportsGroup + "/v1alpha1"
	openReportsPath    = "/apis/" + openReportsVersion
	// reportName is the name of each of our OpenReports.
	reportName = leaseName
	// metadataOfOne is the media type that asks for only the metadata of the written object.
	metadataOfOne = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	// instanceLabel is one of the labels that Kubernetes recommends.
	instanceLabel = "app.kubernetes.io/instance"
)

// OpenReport is an object of openreports.io/v1alpha1: a Report in a namespace, or a
// ClusterReport where the namespace is "".
type OpenReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Source  string             `json:"source"`
	Summary OpenReportSummary  `json:"summary"`
	Results []OpenReportResult `json:"results"`
}

// OpenReportSummary counts the results of each kind, also those that are left out.
type OpenReportSummary struct {
	Fail  int `json:"fail"`
	Warn  int `json:"warn"`
	Error int `json:"error"`
	Skip  int `json:"skip"`
	Pass  int `json:"pass"`
}

// OpenReportResult is one result in an OpenReport, about some objects.
type OpenReportResult struct {
	Source    string                   `json:"source"`
	Policy    string                   `json:"policy"`
	Rule      string                   `json:"rule,omitempty"`
	Category  string                   `json:"category,omitempty"`
	Severity  string                   `json:"severity,omitempty"`
	Timestamp metav1.Timestamp         `json:"timestamp"`
	Result    string                   `json:"result"`
	Scored    bool                     `json:"scored"`
	Resources []corev1.ObjectReference `json:"resources,omitempty"`
	Message   string                   `json:"message"`
	// Properties are details for those who look closer.
	Properties map[string]string `json:"properties,omitempty"`
}

// reportLabels distinguish our objects from others of the same name, and from those of
// another serve, which may look at something else. A serve is named by the namespace of its
// Lease.
func reportLabels(serve string) map[string]string {
	return map[string]string{reconcile.ManagedByLabel: reportName, instanceLabel: serve}
}

// reportStore reads and writes the OpenReports of a cluster.
type reportStore struct{ *cluster.Cluster }

// OpenReports lists the metadata of the objects with the serve's reportLabels, by namespace.
func (s reportStore) OpenReports(ctx context.Context, serve string) (map[string]metav1.ObjectMeta, error) {
	ours := map[string]metav1.ObjectMeta{}
	for _, resource := range []string{"reports", "clusterreports"} {
		list, err := s.Metadata(ctx, s.Client(corev1.GroupName).Get().AbsPath(openReportsPath, resource).Param("labelSelector", labels.FormatLabels(reportLabels(serve))))
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", resource, cluster.OpenReportsGroup, err)
		}
		for _, o := range list {
			if o.Name == reportName {
				ours[o.Namespace] = o.ObjectMeta
			}
		}
	}
	return ours, nil
}

// WriteOpenReport creates the object where there is none, or replaces the existing one: only
// that one, and only in the state that there describes. It returns the metadata of the
// written object.
func (s reportStore) WriteOpenReport(ctx context.Context, o *OpenReport, there *metav1.ObjectMeta) (metav1.ObjectMeta, error) {
	written := *o
	written.TypeMeta = metav1.TypeMeta{APIVersion: openReportsVersion, Kind: "Report"}
	if o.Namespace == "" {
		written.Kind = "ClusterReport"
	}
	written.Name = reportName
	request := s.Client(corev1.GroupName).Post()
	if there != nil {
		written.UID, written.ResourceVersion = there.UID, there.ResourceVersion
		request = s.Client(corev1.GroupName).Put()
	}
	text, err := json.Marshal(written)
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	answer, err := s.Raw(openReport(request, o.Namespace, there != nil).
		VersionedParams(&metav1.UpdateOptions{FieldManager: repair.FieldManager}, scheme.ParameterCodec).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", metadataOfOne).Body(text).Do(ctx))
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	var now metav1.PartialObjectMetadata
	if err := json.Unmarshal(answer, &now); err != nil {
		return metav1.ObjectMeta{}, fmt.Errorf("read the answer about an OpenReport: %w", err)
	}
	return now.ObjectMeta, nil
}

// DeleteOpenReport deletes the existing object, and no other of its name.
func (s reportStore) DeleteOpenReport(ctx context.Context, there *metav1.ObjectMeta) error {
	options, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &there.UID, ResourceVersion: &there.ResourceVersion},
	})
	if err != nil {
		return err
	}
	err = openReport(s.Client(corev1.GroupName).Delete(), there.Namespace, true).SetHeader("Content-Type", "application/json").Body(options).Do(ctx).Error()
	if err != nil {
		return s.Explain(err)
	}
	return nil
}

// openReport is a request for our object in the namespace or, without the name, for the list
// that holds it.
func openReport(request *rest.Request, namespace string, named bool) *rest.Request {
	path := []string{openReportsPath, "clusterreports"}
	if namespace != "" {
		path = []string{openReportsPath, "namespaces", namespace, "reports"}
	}
	if named {
		path = append(path, reportName)
	}
	return request.AbsPath(path...)
}
