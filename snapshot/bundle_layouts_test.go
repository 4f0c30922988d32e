package snapshot

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
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
			folder := "supportbundle_1_2026-11-20T10-00-00Z/yamls/cluster/"
			if r.Namespaced {
				folder = "supportbundle_1_2026-11-20T10-00-00Z/yamls/namespaced/" + namespace + "/"
			}
			put(folder+r.Version+"/"+string(r.Kind)+".yaml", yamlOf(`{"apiVersion": "`+r.Version+`", "kind": "`+r.Object+`List", "metadata": {"resourceVersion": "7"}, "items": [`+joined(objects)+`]}`))
		},
		rest: func(put func(p, text string)) {
			put("supportbundle_1_2026-11-20T10-00-00Z/metadata.yaml", "projectName: Longhorn\nprojectVersion: v1.6.0\nkubernetesVersion: v1.28.1\nbundleCreatedAt: \"2026-11-20T10:00:00Z\"\n")
			put("supportbundle_1_2026-11-20T10-00-00Z/yamls/cluster/v1/namespaces.yaml", namespaceList("default", "kube-system", "kube-node-lease"))
			put("supportbundle_1_2026-11-20T10-00-00Z/yamls/namespaced/default/events.k8s.io/v1/events.yaml", "apiVersion: events.k8s.io/v1\nitems: []\nkind: EventList\n")
			put("supportbundle_1_2026-11-20T10-00-00Z/logs/default/web-0/web.log", "hello")
		},
		version: "v1.28.1",
		gaps: []string{
			"events: NotInBundle (the support bundle is without them)", "leases: NotInBundle in kube-system (without those of namespaces default, kube-node-lease)",
			"persistentvolumeclaims: NotInBundle in default (without those of namespaces kube-node-lease, kube-system)", "pods: NotInBundle in default (without those of namespaces kube-node-lease, kube-system)",
			"storageclasses: NotInBundle (the support bundle is without them)",
		},
	},
	"sonobuoy": {
		list: func(put func(p, text string), r *row, namespace string, objects map[string]string) {
			name := "core_" + r.Version + "_" + string(r.Kind) + ".json"
			if r.Group() != "" {
				name = strings.ReplaceAll(r.Version, "/", "_") + "_" + string(r.Kind) + ".json"
			}
			folder := "resources/cluster/"
			if r.Namespaced {
				folder = "resources/ns/" + namespace + "/"
			}
			put(folder+name, "["+joined(objects)+"]")
		},
		rest: func(put func(p, text string)) {
			put("serverversion.json", `{"major": "1", "minor": "32", "gitVersion": "v1.32.1"}`)
			put("resources/cluster/core_v1_namespaces.json", `[{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}]`)
			put("meta/query-time.json", `[{"queryobj": "Pods", "time": 12.5}]`)
			put("podlogs/default/web-0/logs/web.txt", "hello")
		},
		version: "v1.32.1",
		gaps: []string{
			"events: NotInBundle (the sonobuoy archive is without them)", "leases: NotInBundle in kube-system (without those of namespace default)",
			"storageclasses: NotInBundle (the sonobuoy archive is without them)",
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

func yamlOf(object string) string {
	var fields map[string]any
	if err := json.Unmarshal([]byte(object), &fields); err != nil {
		panic(err)
	}
	text, err := YAML(fields)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func namespaceList(names ...string) string {
	var items []string
	for _, name := range names {
		items = append(items, `{"metadata": {"name": "`+name+`"}}`)
	}
	return yamlOf(`{"apiVersion": "v1", "kind": "NamespaceList", "items": [` + strings.Join(items, ",") + `]}`)
}

// tree is the cluster in the layout, and its objects that the tool takes.
func (l layout) tree(t testing.TB, base *Snapshot) (files fstest.MapFS, want Objects) {
	t.Helper()
	files = fstest.MapFS{}
	put := func(p, text string) { files[p] = &fstest.MapFile{Data: []byte(text)} }
	for _, r := range resources {
		if slices.Contains(l.lost, r.Kind) {
			continue
		}
		lists := map[string]map[string]string{}
		for object := range r.all(&base.Objects) {
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
