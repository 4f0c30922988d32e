package snapshot

import (
	"bytes"
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

// supportBundleKit is the output of rancher/support-bundle-kit for Longhorn and Harvester:
//
//	yamls/cluster/VERSION/PLURAL.yaml
//	yamls/namespaced/NAMESPACE/VERSION/PLURAL.yaml
//	metadata.yaml
//	bundleGenerationError.log                 what could not be read, and why
//
// VERSION is "v1" or "storage.k8s.io/v1"; older releases write "kubernetes" for every group. Each
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
	kitFolder   = "yamls"
	kitMetadata = "metadata.yaml"
	kitErrors   = "bundleGenerationError.log"
)

func supportBundleKitFile(segments []string) (bundleFile, bool) {
	n := len(segments)
	if segments[n-1] == kitErrors {
		return bundleFile{format: supportBundleKit, root: strings.Join(segments[:n-1], "/"), tell: tellKitErrors}, true
	}
	for i, s := range segments {
		if s != kitFolder || n < i+4 || !isYAML(segments[n-1]) {
			continue
		}
		f := bundleFile{format: supportBundleKit, root: strings.Join(segments[:i], "/")}
		version, plural := segments[i+2:n-1], strings.TrimSuffix(segments[n-1], ".yaml")
		isNamespaced := segments[i+1] == "namespaced"
		switch {
		case isNamespaced && n >= i+5:
			f.part.namespace, version = segments[i+2], segments[i+3:n-1]
		case segments[i+1] != "cluster":
			return bundleFile{}, false
		}
		of := strings.Join(version, "/")
		if plural == "namespaces" && of == "v1" && !isNamespaced {
			f.tell = tellNamespacesYAML
			return f, true
		}
		for _, r := range resources {
			if string(r.Kind) == plural && r.Namespaced == isNamespaced && (r.Version == of || of == "kubernetes") {
				f.part.kind = r.Kind
				return f, true
			}
		}
	}
	return bundleFile{}, false
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

// sonobuoy is the archive that `sonobuoy retrieve` downloads:
//
//	resources/cluster/GROUP_VERSION_PLURAL.json
//	resources/ns/NAMESPACE/GROUP_VERSION_PLURAL.json
//	meta/config.json
//	meta/query-time.json
//	serverversion.json
//
// The core group is called "core". A file is a list; until 0.53 it was an array of the items. Releases
// before 0.15 write names such as Nodes.json, whose items lack their kind. An empty list has no file.
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

func sonobuoyFile(segments []string) (bundleFile, bool) {
	n := len(segments)
	f := bundleFile{format: sonobuoy}
	if n > 1 && segments[n-2] == "meta" {
		f.root, f.tell = strings.Join(segments[:n-2], "/"), map[string]func(*root, []byte){"query-time.json": tellQueries, "config.json": tellSettings}[segments[n-1]]
		return f, f.tell != nil
	}
	if segments[n-1] == "serverversion.json" {
		f.root, f.tell = strings.Join(segments[:n-1], "/"), tellVersionFile
		return f, true
	}
	if n < 3 || path.Ext(segments[n-1]) != ".json" {
		return bundleFile{}, false
	}
	above := 3
	if segments[n-2] != "cluster" {
		if n < 4 || segments[n-3] != "ns" {
			return bundleFile{}, false
		}
		above, f.part.namespace = 4, segments[n-2]
	}
	if segments[n-above] != "resources" {
		return bundleFile{}, false
	}
	f.root = strings.Join(segments[:n-above], "/")
	name := strings.TrimSuffix(segments[n-1], ".json")
	if above == 3 && (name == "core_v1_namespaces" || name == "Namespaces") {
		f.tell = tellNamespacesArray
		return f, true
	}
	for _, r := range resources {
		full := strings.ReplaceAll(r.Version, "/", "_") + "_" + string(r.Kind)
		if r.Group() == "" {
			full = "core_" + full
		}
		old := strings.ToLower(name) == string(r.Kind) && name != string(r.Kind)
		if (name == full || old) && r.Namespaced == (above == 4) {
			f.part.kind = r.Kind
			return f, true
		}
	}
	return bundleFile{}, false
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

// velero is a backup of Velero:
//
//	resources/PLURAL.GROUP/cluster/NAME.json
//	resources/PLURAL.GROUP/namespaces/NAMESPACE/NAME.json
//
// VERSION-preferredversion holds the same objects again. Filters and hooks select which objects are
// in a backup.
var velero = &format{name: "Velero backup", singles: true, selects: true}

func veleroFile(segments []string) (bundleFile, bool) {
	n := len(segments)
	if n < 4 || path.Ext(segments[n-1]) != ".json" {
		return bundleFile{}, false
	}
	f, above := bundleFile{format: velero, part: partKey{form: oneEach}}, 4
	if segments[n-2] != "cluster" {
		if n < 5 || segments[n-3] != "namespaces" {
			return bundleFile{}, false
		}
		above, f.part.namespace = 5, segments[n-2]
	}
	if segments[n-above] != "resources" {
		return bundleFile{}, false
	}
	f.root = strings.Join(segments[:n-above], "/")
	plural, group, _ := strings.Cut(segments[n-above+1], ".")
	for _, r := range resources {
		if string(r.Kind) == plural && r.Group() == group && r.Namespaced == (above == 5) {
			f.part.kind = r.Kind
			return f, true
		}
	}
	return bundleFile{}, false
}

// insights is an archive of OpenShift's insights-operator:
//
//	config/node/NAME.json
//	config/pod/NAMESPACE/NAME.json
//	config/persistentvolumes/NAME.json
//	config/storage/storageclasses/NAME.json
//
// It contains only the pods and volumes that its rules ask for.
var insights = &format{name: "archive of insights-operator", singles: true, selects: true, untyped: true}

var insightsFolders = map[string]Kind{
	"config/node":                   Nodes,
	"config/persistentvolumes":      Volumes,
	"config/storage/storageclasses": StorageClasses,
	"config/pod":                    Pods,
}

func insightsFile(segments []string) (bundleFile, bool) {
	n := len(segments)
	f := bundleFile{format: insights, part: partKey{form: oneEach}}
	p := strings.Join(segments, "/")
	if root, ok := cutFolder(p, "config/clusteroperator/"+controllerManager+".json"); ok {
		f.root, f.tell = root, tellVersion
		return f, true
	}
	if path.Ext(p) != ".json" {
		return bundleFile{}, false
	}
	for folder, kind := range insightsFolders {
		of := path.Dir(p)
		if resourceOf(kind).Namespaced && n >= 2 {
			f.part.namespace, of = segments[n-2], path.Dir(of)
		}
		if root, ok := cutFolder(of, folder); ok {
			f.root, f.part.kind = root, kind
			if !resourceOf(kind).Namespaced {
				f.part.namespace = ""
			}
			return f, true
		}
	}
	return bundleFile{}, false
}

// cutFolder returns the folder of p, whose end is below.
func cutFolder(p, below string) (folder string, ok bool) {
	if p == below {
		return "", true
	}
	return strings.CutSuffix(p, "/"+below)
}
