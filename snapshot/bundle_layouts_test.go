package snapshot

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// layout is how a tool writes a cluster into files.
type layout struct {
	// list is the files of one list; each object is JSON.
	list func(put func(p, text string), r *row, namespace string, objects map[string]string)
	rest func(put func(p, text string))
	// lost are the kinds that the tool does not take.
	lost []Kind
	gaps []string
	// version is the release that the tree tells.
	version string
}

// layouts write a cluster as the tools do, by their own rules for names and nesting. A list
// has the objects of one kind, in one namespace or of the whole cluster.
var layouts = map[string]layout{
	"support-bundle-kit": {
		list: func(put func(p, text string), r *row, namespace string, objects map[string]string) {
			folder := kitRoot + "yamls/cluster/"
			if r.Namespaced {
				folder = kitRoot + "yamls/namespaced/" + namespace + "/"
			}
			put(folder+r.Version+"/"+string(r.Kind)+".yaml", kitYAML(r.Version, r.Object, objects))
			if r.Kind == Events { // discovery lists both groups
				put(folder+newEvents.apiVersion+"/events.yaml", kitYAML(newEvents.apiVersion, newEvents.kind, objects))
			}
		},
		rest: func(put func(p, text string)) {
			put(kitRoot+"metadata.yaml", "bundlename: bundle-1\nbundleversion: 0.1.0\nkubernetesversion: v1.28.1\nprojectnamespaceuuid: 1\nbundlecreatedat: \"2026-11-20T10:00:00Z\"\nissueurl: \"\"\nissuedescription: it hangs\n")
			put(kitRoot+"bundleGenerationError.log", "Failed to get /apis/metrics.k8s.io/v1beta1/nodes: the server is currently unable to handle the request\n")
			put(kitRoot+"yamls/cluster/v1/namespaces.yaml", kitYAML("v1", "Namespace", map[string]string{
				"default": `{"metadata": {"name": "default"}}`, "kube-node-lease": `{"metadata": {"name": "kube-node-lease"}}`, "kube-system": `{"metadata": {"name": "kube-system"}}`}))
			put(kitRoot+"yamls/namespaced/default/apps/v1/controllerrevisions.yaml", kitYAML("apps/v1", "ControllerRevision", map[string]string{"web": `{"metadata": {"name": "web"}, "revision": 1}`}))
			put(kitRoot+"logs/default/web-0/web.log", "hello")
			put(kitRoot+"logs/default/web-0/web.log.1", "hello")
			put(kitRoot+"nodes/n1.zip", "PK")
		},
		version: "v1.28.1",
		gaps: []string{
			"events: NotInBundle (the support bundle is without them)", "leases: NotInBundle in kube-node-lease,kube-system (without those of namespace default)",
			"persistentvolumeclaims: NotInBundle in default (without those of namespaces kube-node-lease, kube-system)", "pods: NotInBundle in default (without those of namespaces kube-node-lease, kube-system)",
			"storageclasses: NotInBundle (the support bundle is without them)",
		},
	},
	"sonobuoy": {
		list: func(put func(p, text string), r *row, namespace string, objects map[string]string) {
			list := unstructured.UnstructuredList{Object: map[string]any{"apiVersion": r.Version, "kind": r.Object + "List", "metadata": map[string]any{"resourceVersion": "7"}}}
			for _, name := range slices.Sorted(maps.Keys(objects)) {
				var object unstructured.Unstructured
				if err := object.UnmarshalJSON([]byte(objects[name])); err != nil {
					panic(err)
				}
				list.Items = append(list.Items, object)
			}
			text, err := list.MarshalJSON()
			if err != nil {
				panic(err)
			}
			put(sonobuoyPath(r, namespace), string(text))
		},
		rest: func(put func(p, text string)) {
			put("resources/cluster/core_v1_namespaces.json", `{"apiVersion": "v1", "items": [`+joined(map[string]string{
				"default": `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}`, "kube-system": `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}`})+`], "kind": "NamespaceList", "metadata": {"resourceVersion": "7"}}`+"\n")
			sonobuoyRest(put, sonobuoyQueries("default", "kube-node-lease", "kube-system"))
		},
		version: "v1.32.1",
	},
	"sonobuoy 0.15": {
		list: func(put func(p, text string), r *row, namespace string, objects map[string]string) {
			put(sonobuoyPath(r, namespace), "["+joined(objects)+"]")
		},
		rest: func(put func(p, text string)) {
			put("resources/cluster/core_v1_namespaces.json", `[{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-public"}}]`)
			sonobuoyRest(put, sonobuoyQueries("default"))
		},
		version: "v1.32.1",
		gaps: []string{
			"events: NotInBundle (without those of namespace kube-public)", "leases: NotInBundle in kube-node-lease,kube-system (without those of namespace kube-public)",
			"persistentvolumeclaims: NotInBundle in default (without those of namespace kube-public)", "pods: NotInBundle in default (without those of namespace kube-public)",
		},
	},
	"old sonobuoy": {
		list: func(put func(p, text string), r *row, namespace string, objects map[string]string) {
			folder := "resources/cluster/"
			if r.Namespaced {
				folder = "resources/ns/" + namespace + "/"
			}
			for name, text := range objects {
				objects[name] = untyped(text)
			}
			put(folder+map[Kind]string{
				Nodes: "Nodes", Volumes: "PersistentVolumes", StorageClasses: "StorageClasses", Claims: "PersistentVolumeClaims", Events: "Events", Pods: "Pods", Deployments: "Deployments",
			}[r.Kind]+".json", "["+joined(objects)+"]")
		},
		rest: func(put func(p, text string)) { put("serverversion.json", `{"gitVersion": "v1.14.1"}`) },
		lost: []Kind{VolumeAttachments, CSINodes, CSIDrivers, Leases},
		gaps: []string{
			"csidrivers: NotInBundle (the sonobuoy archive is without them)", "csinodes: NotInBundle (the sonobuoy archive is without them)",
			"events: NotInBundle (the sonobuoy archive is without them)", "leases: NotInBundle (the sonobuoy archive is without them)",
			"persistentvolumeclaims: NotInBundle in default (nothing says that there are no other namespaces)", "pods: NotInBundle in default (nothing says that there are no other namespaces)",
			"storageclasses: NotInBundle (the sonobuoy archive is without them)", "volumeattachments: NotInBundle (the sonobuoy archive is without them)",
		},
		version: "v1.14.1",
	},
	"velero": {
		list: func(put func(p, text string), r *row, namespace string, objects map[string]string) {
			folder, below := "resources/"+string(r.Kind), "/cluster/"
			if r.Group() != "" {
				folder += "." + r.Group()
			}
			if r.Namespaced {
				below = "/namespaces/" + namespace + "/"
			}
			_, version, _ := strings.Cut("/"+r.Version, r.Group()+"/")
			for name, text := range objects {
				put(folder+below+name+".json", text)
				put(folder+"/"+version+"-preferredversion"+below+name+".json", text)
			}
		},
		rest: func(put func(p, text string)) {
			put("metadata/version", "1.1.0")
			put("resources/services/namespaces/default/web.json", `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}`)
		},
		gaps: []string{
			"csidrivers: " + selected("Velero backup"), "csinodes: " + selected("Velero backup"), "events: NotInBundle (the Velero backup is without them)", "leases: " + selected("Velero backup"), "nodes: " + selected("Velero backup"),
			"persistentvolumeclaims: " + selected("Velero backup"), "persistentvolumes: " + selected("Velero backup"), "pods: " + selected("Velero backup"), "storageclasses: NotInBundle (the Velero backup is without them)", "volumeattachments: " + selected("Velero backup"),
		},
	},
	"insights": {
		list: func(put func(p, text string), r *row, namespace string, objects map[string]string) {
			folder := map[Kind]string{Nodes: "node", Volumes: "persistentvolumes", StorageClasses: "storage/storageclasses", Pods: "pod/" + namespace}[r.Kind]
			for name, text := range objects {
				put("config/"+folder+"/"+name+".json", untyped(text))
			}
		},
		rest: func(put func(p, text string)) {
			put("config/clusteroperator/kube-controller-manager.json", `{"kind": "ClusterOperator", "status": {"versions": [{"name": "kube-controller-manager", "version": "1.33.5"}]}}`)
			put("config/metrics", "# HELP x")
			put("config/version.json", `{"kind": "ClusterVersion"}`)
			put("insights-operator/gathers.json", `{"version": "x"}`)
		},
		lost: []Kind{VolumeAttachments, CSINodes, CSIDrivers, Claims, Leases, Events, Deployments},
		gaps: []string{
			"csidrivers: NotInBundle (the archive of insights-operator is without them)", "csinodes: NotInBundle (the archive of insights-operator is without them)", "events: NotInBundle (the archive of insights-operator is without them)", "leases: NotInBundle (the archive of insights-operator is without them)",
			"nodes: " + selected("archive of insights-operator"), "persistentvolumeclaims: NotInBundle (the archive of insights-operator is without them)", "persistentvolumes: " + selected("archive of insights-operator"), "pods: " + selected("archive of insights-operator"),
			"storageclasses: NotInBundle (the archive of insights-operator is without them)", "volumeattachments: NotInBundle (the archive of insights-operator is without them)",
		},
		version: "v1.33.5",
	},
}

const kitRoot = "supportbundle_00000000-0000-0000-0000-000000000000_2026-11-20T10-00-00Z/"

var kitEmpties = []struct {
	match *regexp.Regexp
	by    string
}{
	{regexp.MustCompile(`("[a-zA-Z]+":)(null,)`), `$1"null",`}, {regexp.MustCompile(`(\\"[a-zA-Z]+\\":)(null,)`), `$1\"null\",`}, {regexp.MustCompile(`""`), `"null"`},
}

// kitYAML writes a list as the tool does: it changes the text of the API server's answer, decodes each
// number as a float, and encodes the result with yaml.v2 (toObjCommon, pkg/manager/collectors/common.go).
func kitYAML(version, kind string, objects map[string]string) string {
	text := `{"metadata":{"resourceVersion":"7"},"items":[` + joined(objects) + `]}`
	for _, e := range kitEmpties {
		text = e.match.ReplaceAllString(text, e.by)
	}
	var list map[string]any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		panic(err)
	}
	list["kind"], list["apiVersion"] = "List", "v1"
	for _, item := range list["items"].([]any) {
		item.(map[string]any)["kind"], item.(map[string]any)["apiVersion"] = kind, version
	}
	out, err := yaml.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// sonobuoyPath is the file of a list since 0.15.
func sonobuoyPath(r *row, namespace string) string {
	name := "core_" + r.Version + "_" + string(r.Kind) + ".json"
	if r.Group() != "" {
		name = strings.ReplaceAll(r.Version, "/", "_") + "_" + string(r.Kind) + ".json"
	}
	if r.Namespaced {
		return "resources/ns/" + namespace + "/" + name
	}
	return "resources/cluster/" + name
}

// sonobuoyQueries are what the tool asks for: every list, and how each node is.
func sonobuoyQueries(namespaces ...string) string {
	queries := []string{`{"queryobj":"Nodes","time":"30.2ms"}`, `{"queryobj":"serverversion","time":"1.1ms"}`}
	for _, r := range resources {
		if !r.Namespaced {
			queries = append(queries, `{"queryobj":"`+string(r.Kind)+`","time":"3.5ms"}`)
			continue
		}
		for _, namespace := range namespaces {
			queries = append(queries, `{"queryobj":"`+string(r.Kind)+`","namespace":"`+namespace+`","time":"3.5ms"}`)
		}
	}
	return "[" + strings.Join(queries, ",") + "]"
}

// sonobuoyRest is what an archive has beside its lists.
func sonobuoyRest(put func(p, text string), queries string) {
	put("meta/query-time.json", queries)
	put("meta/config.json", `{"Description":"DEFAULT","UUID":"1","Version":"v0.57.1","Resources":null,"Filters":{"Namespaces":".*","LabelSelector":""},"Namespace":"sonobuoy"}`)
	put("meta/info.json", `{"plugins":["e2e"]}`)
	put("meta/run.log", `{"level":"info"}`)
	put("serverversion.json", `{"major":"1","minor":"32","gitVersion":"v1.32.1","platform":"linux/amd64"}`)
	put("servergroups.json", `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	put("hosts/n1/configz.json", `{"kubeletconfig":{"syncFrequency":"1m0s"}}`)
	put("hosts/n1/healthz.json", `{"status":200}`)
	put("plugins/e2e/definition.json", `{"sonobuoy-config":{"plugin-name":"e2e"}}`)
	put("plugins/e2e/sonobuoy_results.yaml", "name: e2e\nstatus: passed\n")
	put("podlogs/default/web-0/logs/web.txt", "hello")
}

func selected(name string) string {
	return "NotInBundle (the " + name + " has those that its settings select)"
}

func joined(objects map[string]string) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		texts = append(texts, objects[name])
	}
	return strings.Join(texts, ",\n")
}

func untyped(object string) string {
	var fields map[string]any
	if err := json.Unmarshal([]byte(object), &fields); err != nil {
		panic(err)
	}
	delete(fields, "kind")
	delete(fields, "apiVersion")
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// tree is the cluster in the layout, and its objects that the tool takes.
func (l layout) tree(t testing.TB, base *Snapshot) (files fstest.MapFS, want Objects) {
	t.Helper()
	files = fstest.MapFS{}
	put := func(p, text string) { files[p] = &fstest.MapFile{Data: []byte(text)} }
	objects := base.Objects
	for _, node := range base.Nodes { // each kubelet has a lease
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node.Name, UID: "lease-" + node.UID, CreationTimestamp: node.CreationTimestamp}}
		lease.Spec.RenewTime = new(metav1.NewMicroTime(base.TakenAt))
		objects.Leases = append(slices.Clone(objects.Leases), lease)
	}
	for _, r := range resources {
		if slices.Contains(l.lost, r.Kind) {
			continue
		}
		lists := map[string]map[string]string{}
		for object := range r.all(&objects) {
			line, err := new(lineEncoder).encode(r, object)
			if err != nil {
				t.Fatal(err)
			}
			of := lists[object.GetNamespace()]
			if of == nil {
				of = map[string]string{}
				lists[object.GetNamespace()] = of
			}
			of[object.GetName()] = strings.TrimPrefix(line, "---\n")
			r.add(&want, object)
		}
		for namespace, objects := range lists {
			l.list(put, r, namespace, objects)
		}
	}
	l.rest(put)
	return files, want
}

// LayoutTree is a cluster as the tool writes it, for tests of other packages.
func LayoutTree(t testing.TB, tool string, base *Snapshot) fstest.MapFS {
	files, _ := layouts[tool].tree(t, base)
	return files
}

// TestLayouts: of each tool's tree all objects are there, and no list counts as whole but
// those that the tree itself shows to be.
func TestLayouts(t *testing.T) {
	text, err := os.ReadFile("../testdata/bases/running.yaml")
	if err != nil {
		t.Fatal(err)
	}
	base, _, err := Read("base", bytes.NewReader(text), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	base.Pods[0].Generation, base.CSINodes[0].Spec.Drivers[0].Allocatable = 74_784_000, &storagev1.VolumeNodeResources{Count: new(int32(1_000_000))}
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			files, want := layout.tree(t, base)
			opts := ReadOptions{Now: base.TakenAt}
			s, warnings, err := ReadFS("dir", files, opts)
			if err != nil {
				t.Fatal(err)
			}
			if len(warnings) > 0 {
				t.Errorf("warnings %q", warnings)
			}
			if diff := cmp.Diff(writtenObjects(t, New(s.TakenAt, Source{}, want, nil)), writtenObjects(t, New(s.TakenAt, Source{}, s.Objects, nil))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(layout.gaps, gapLines(s)); diff != "" {
				t.Error(diff)
			}
			if s.Source.ServerVersion != layout.version {
				t.Errorf("release %q", s.Source.ServerVersion)
			}
			fromTar, _, err := Read("f", strings.NewReader(packed(t, files)), opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.Objects, fromTar.Objects); diff != "" {
				t.Errorf("archive: %s", diff)
			}
		})
	}
}
