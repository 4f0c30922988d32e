package snapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

// supportBundleKit is the output of rancher/support-bundle-kit for Longhorn and Harvester. Each
// file is one answer of the API server. The tool reads the namespaces in its settings, and the list
// of all namespaces.
//
// It writes the kind List for each list, "null" for each empty string, and numbers from a million on as
// 1e+06. It writes no file for an empty list.
var supportBundleKit = &format{name: "support bundle", restore: restoreKit}

var (
	// nulls match a value that is the text "null".
	nulls = regexp.MustCompile(`^([^"'#]*[:-]) (["'])null["'](\r?\n?)$`)
	// floats match a large number.
	floats = regexp.MustCompile(`^([^"'#]*[:-] )(-?\d(?:\.\d+)?e\+\d\d)(\r?\n?)$`)
)

func restoreKit(line []byte) []byte {
	if m := floats.FindSubmatch(line); m != nil {
		if n, err := strconv.ParseFloat(string(m[2]), 64); err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<62 {
			return slices.Concat(m[1], strconv.AppendInt(nil, int64(n), 10), m[3])
		}
	}
	return nulls.ReplaceAll(line, []byte("$1 null$3"))
}

const (
	kitMetadata = "metadata.yaml"
	kitErrors   = "bundleGenerationError.log" // what could not be read, and why
)

var supportBundleKitPaths = []bundlePath{
	{format: supportBundleKit, path: kitErrors, tell: always(tellKitErrors)},
	{format: supportBundleKit, path: "yamls/cluster/v1/namespaces.yaml", tell: always(tellNamespacesYAML)},
	{format: supportBundleKit, path: "yamls/cluster/VERSION/PLURAL.yaml", holds: inKitVersion},
	{format: supportBundleKit, path: "yamls/cluster/GROUP/VERSION/PLURAL.yaml", holds: inKitVersion},
	{format: supportBundleKit, path: "yamls/namespaced/NAMESPACE/VERSION/PLURAL.yaml", holds: inKitVersion},
	{format: supportBundleKit, path: "yamls/namespaced/NAMESPACE/GROUP/VERSION/PLURAL.yaml", holds: inKitVersion},
}

// inKitVersion compares PLURAL, and GROUP/VERSION, such as "v1" or "storage.k8s.io/v1"; older
// releases write "kubernetes" for every group.
func inKitVersion(r *row, words map[string]string) bool {
	version := path.Join(words["GROUP"], words["VERSION"])
	return words["PLURAL"] == string(r.Kind) && (version == r.Version || version == "kubernetes")
}

func tellNamespacesYAML(r *root, text []byte) {
	var restored []byte
	for line := range bytes.Lines(text) {
		restored = append(restored, supportBundleKit.restore(line)...)
	}
	if raw := yamlAsJSON(restored); raw != nil {
		tellNamespacesOf(r, raw, "NamespaceList", "List")
	}
}

// yamlAsJSON converts a YAML text to JSON; it returns nil if the text is not YAML.
func yamlAsJSON(text []byte) []byte {
	value, err := yamljson.Parse(text)
	if err != nil {
		return nil
	}
	raw, err := yamljson.JSON(value, maxTold)
	if err != nil {
		return nil
	}
	return raw
}

// tellKitMetadata reads the release, and the time at which the bundle was requested.
func tellKitMetadata(r *root, text []byte) {
	var metadata struct {
		KubernetesVersion string    `json:"kubernetesVersion"`
		BundleCreatedAt   time.Time `json:"bundleCreatedAt"`
	}
	if json.Unmarshal(yamlAsJSON(text), &metadata) == nil && metadata.KubernetesVersion != "" {
		r.version, r.began = plain(metadata.KubernetesVersion), metadata.BundleCreatedAt
	}
}

// failedGet matches what support-bundle-kit says of a list that it could not get: the list's path at the API
// server, or its plural alone in older releases.
var failedGet = regexp.MustCompile(`(?m)^(?:Support Bundle: f|F)ailed to get (\S+): (.*)$`)

func tellKitErrors(r *root, text []byte) {
	for _, m := range failedGet.FindAllStringSubmatch(string(text), -1) {
		folder, namespace, _ := strings.Cut(path.Dir(m[1]), "/namespaces/")
		for _, of := range resources {
			if path.Base(m[1]) != string(of.Kind) || folder != "." && folder != "/api/"+of.Version && folder != "/apis/"+of.Version {
				continue
			}
			if r.said[of.Kind] == nil {
				r.said[of.Kind] = map[string]string{}
			}
			r.said[of.Kind][namespace] = plain(m[2])
		}
	}
}

// sonobuoy is the archive that `sonobuoy retrieve` downloads. A file is a list; until 0.53 it was
// an array of the items. An empty list has no file.
var sonobuoy = &format{name: "sonobuoy archive", untyped: true}

// tellQueries reads which lists the tool has asked for: one that it asked for and that has no file is empty.
func tellQueries(r *root, text []byte) {
	var queries []struct {
		Of        string          `json:"queryobj"`
		Namespace string          `json:"namespace"`
		Error     json.RawMessage `json:"error"` // "{}" of most errors, whose fields are not exported
	}
	if json.Unmarshal(text, &queries) != nil {
		return
	}
	r.asked = map[partKey]bool{}
	for _, q := range queries {
		if q.Of != "Nodes" { // their health, not their list
			r.asked[partKey{kind: Kind(strings.ToLower(q.Of)), namespace: q.Namespace}] = len(q.Error) == 0
		}
	}
}

// tellSettings reads whether the tool has asked for some objects only.
func tellSettings(r *root, text []byte) {
	var settings struct {
		Filters struct{ LabelSelector string }
	}
	r.narrowed = json.Unmarshal(text, &settings) != nil || settings.Filters.LabelSelector != ""
}

var sonobuoyPaths = []bundlePath{
	{format: sonobuoy, path: "meta/query-time.json", tell: always(tellQueries)},
	{format: sonobuoy, path: "meta/config.json", tell: always(tellSettings)},
	{format: sonobuoy, path: "serverversion.json", tell: always(tellVersionFile)},
	{format: sonobuoy, path: "resources/cluster/core_v1_namespaces.json", tell: always(tellNamespacesArray)},
	{format: sonobuoy, path: "resources/cluster/Namespaces.json", tell: always(tellNamespacesArray)},
	{format: sonobuoy, path: "resources/cluster/LIST.json", holds: isSonobuoyList},
	{format: sonobuoy, path: "resources/ns/NAMESPACE/LIST.json", holds: isSonobuoyList},
}

// isSonobuoyList compares LIST, such as "core_v1_nodes" or "storage.k8s.io_v1_csinodes". Releases
// before 0.15 write names such as "Nodes", whose items lack their kind.
func isSonobuoyList(r *row, words map[string]string) bool {
	list := words["LIST"]
	return list == cmp.Or(r.Group(), "core")+"_"+path.Base(r.Version)+"_"+string(r.Kind) ||
		list != string(r.Kind) && strings.ToLower(list) == string(r.Kind)
}

func tellNamespacesArray(r *root, text []byte) {
	var items []struct{ Metadata namespaceMeta }
	if json.Unmarshal(text, &items) != nil {
		tellNamespaces(r, text)
		return
	}
	r.namespaces = []string{}
	for _, n := range items {
		r.noteNamespace(n.Metadata)
	}
}

// velero is a backup of Velero. VERSION-preferredversion, beside these folders, holds the same
// objects again. Filters and hooks select which objects are in a backup.
var velero = &format{name: "Velero backup", singles: true, selects: true}

var veleroPaths = []bundlePath{
	{format: velero, path: "resources/PLURAL/cluster/NAME.json", form: oneEach, holds: isVeleroList},
	{format: velero, path: "resources/PLURAL/namespaces/NAMESPACE/NAME.json", form: oneEach, holds: isVeleroList},
}

// isVeleroList compares PLURAL, such as "nodes" or "csinodes.storage.k8s.io".
func isVeleroList(r *row, words map[string]string) bool {
	plural, group, _ := strings.Cut(words["PLURAL"], ".")
	return plural == string(r.Kind) && group == r.Group()
}

// insights is an archive of OpenShift's insights-operator. It contains only the pods and volumes
// that its rules ask for.
var insights = &format{name: "archive of insights-operator", singles: true, selects: true, untyped: true}

var insightsPaths = []bundlePath{
	{format: insights, path: "config/clusteroperator/" + controllerManager + ".json", tell: always(tellVersion)},
	{format: insights, path: "config/node/NAME.json", form: oneEach, holds: isOf(Nodes)},
	{format: insights, path: "config/persistentvolumes/NAME.json", form: oneEach, holds: isOf(Volumes)},
	{format: insights, path: "config/storage/storageclasses/NAME.json", form: oneEach, holds: isOf(StorageClasses)},
	{format: insights, path: "config/pod/NAMESPACE/NAME.json", form: oneEach, holds: isOf(Pods)},
}
