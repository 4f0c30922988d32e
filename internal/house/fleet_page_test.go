package house

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/standing"
)

type named struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// These types have the fields of the manifests on docs/fleet.md, as far as the page uses
// them, from the published types: Argo CD's ApplicationSet (argoproj.io/v1alpha1) and Open
// Cluster Management's Placement (v1beta1), ManagedClusterSetBinding (v1beta2) and
// ManifestWorkReplicaSet (v1alpha1).
type (
	manifest[S any] struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   named  `json:"metadata"`
		Spec       S      `json:"spec"`
	}
	applicationSet struct {
		GoTemplate        bool     `json:"goTemplate"`
		GoTemplateOptions []string `json:"goTemplateOptions"`
		Generators        []struct {
			Clusters *struct{} `json:"clusters"`
		} `json:"generators"`
		Template struct {
			Metadata named `json:"metadata"`
			Spec     struct {
				Project string `json:"project"`
				Source  struct {
					RepoURL        string `json:"repoURL"`
					TargetRevision string `json:"targetRevision"`
					Path           string `json:"path"`
				} `json:"source"`
				Destination struct {
					Server    string `json:"server"`
					Namespace string `json:"namespace"`
				} `json:"destination"`
				SyncPolicy struct {
					Automated   *struct{} `json:"automated"`
					SyncOptions []string  `json:"syncOptions"`
				} `json:"syncPolicy"`
			} `json:"spec"`
		} `json:"template"`
	}
	clusterSetBinding struct {
		ClusterSet string `json:"clusterSet"`
	}
	placement struct {
		ClusterSets []string `json:"clusterSets"`
	}
	workReplicaSet struct {
		PlacementRefs []struct {
			Name string `json:"name"`
		} `json:"placementRefs"`
		ManifestWorkTemplate struct {
			Workload struct {
				Manifests []manifest[struct{}] `json:"manifests"`
			} `json:"workload"`
		} `json:"manifestWorkTemplate"`
	}
)

// strictly decodes the block of the page with this type.
func strictly[S any](t *testing.T, documents []string, apiVersion, kind string) manifest[S] {
	t.Helper()
	var m manifest[S]
	for _, text := range documents {
		if strings.HasPrefix(text, "apiVersion: "+apiVersion+"\nkind: "+kind+"\n") {
			if err := yaml.UnmarshalStrict([]byte(text), &m); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			return m
		}
	}
	t.Errorf("the page has no %s of %s", kind, apiVersion)
	return m
}

// TestFleetManifests: the manifests of docs/fleet.md have only existing fields, and fit
// together.
func TestFleetManifests(t *testing.T) {
	var documents []string
	for _, block := range blocks(t, "docs/fleet.md", "yaml") {
		documents = append(documents, strings.Split(block, "---\n")...)
	}
	set := strictly[applicationSet](t, documents, "argoproj.io/v1alpha1", "ApplicationSet")
	if from := set.Spec.Template.Spec.Source; from.Path != "deploy/kustomize" || from.RepoURL != "https://"+strings.TrimSuffix(module, "/") || !set.Spec.GoTemplate || set.Spec.Generators[0].Clusters == nil {
		t.Errorf("%+v", set.Spec)
	}
	binding := strictly[clusterSetBinding](t, documents, "cluster.open-cluster-management.io/v1beta2", "ManagedClusterSetBinding")
	chosen := strictly[placement](t, documents, "cluster.open-cluster-management.io/v1beta1", "Placement")
	work := strictly[workReplicaSet](t, documents, "work.open-cluster-management.io/v1alpha1", "ManifestWorkReplicaSet")
	if !slices.Equal(chosen.Spec.ClusterSets, []string{binding.Spec.ClusterSet}) || binding.Metadata.Name != binding.Spec.ClusterSet {
		t.Errorf("the placement may not use the cluster set: %+v, %+v", chosen, binding)
	}
	if len(work.Spec.PlacementRefs) != 1 || work.Spec.PlacementRefs[0].Name != chosen.Metadata.Name || len(work.Spec.ManifestWorkTemplate.Workload.Manifests) == 0 {
		t.Errorf("%+v", work.Spec)
	}
	for _, namespace := range []string{binding.Metadata.Namespace, work.Metadata.Namespace} {
		if namespace != chosen.Metadata.Namespace {
			t.Errorf("%s is another namespace than that of the placement", namespace)
		}
	}
}

var (
	metricName = regexp.MustCompile(`volume_doctor_\w+`)
	matcher    = regexp.MustCompile(`\{([^}]*)\}`)
	labelName  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`\b(by|without|on|ignoring)\s*\(([^)]*)\)`)
)

// TestFleetQueries: the queries of docs/fleet.md use metrics and labels that serve has.
func TestFleetQueries(t *testing.T) {
	queries := blocks(t, "docs/fleet.md", "promql")
	if len(queries) < 4 {
		t.Fatalf("only %d queries", len(queries))
	}
	for _, query := range queries {
		known := []string{"cluster"} // that of Prometheus
		names := metricName.FindAllString(query, -1)
		for _, name := range names {
			i := slices.IndexFunc(standing.Metrics(), func(m standing.Metric) bool { return m.Name == name })
			if i < 0 {
				t.Errorf("there is no metric %s: %s", name, query)
				continue
			}
			known = append(known, standing.Metrics()[i].Labels...)
		}
		var used []string
		for _, m := range matcher.FindAllStringSubmatch(query, -1) {
			for _, label := range labelName.FindAllStringSubmatch(m[1], -1) {
				used = append(used, label[1])
			}
		}
		for _, m := range grouping.FindAllStringSubmatch(query, -1) {
			used = append(used, strings.Split(strings.ReplaceAll(m[2], " ", ""), ",")...)
		}
		for _, label := range used {
			if !slices.Contains(known, label) {
				t.Errorf("there is no label %s: %s", label, query)
			}
		}
		if len(names) == 0 || strings.Count(query, "(") != strings.Count(query, ")") {
			t.Errorf("no query: %s", query)
		}
	}
}

// blocks are the code blocks of a page in a language.
func blocks(t *testing.T, name, language string) []string {
	t.Helper()
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for i, text := range strings.Split(string(page), "\n```") {
		if kind, body, _ := strings.Cut(text, "\n"); i%2 == 1 && kind == language {
			found = append(found, body+"\n")
		}
	}
	return found
}
