package snapshot

import (
	"encoding/json"
	"slices"
	"strings"
)

// supportBundle is the output of troubleshoot.sh's collectors clusterResources and clusterInfo.
// Each file is one answer of the API server, and so complete, or says what could not be read, and
// why. The namespaces are all, or those that were asked for. CSIDrivers and CSINodes are never
// among the lists.
var supportBundle = &format{name: "support bundle"}

var supportBundlePaths = []bundlePath{
	{format: supportBundle, path: "cluster-info/cluster_version.json", tell: always(tellClusterVersion)},
	{format: supportBundle, path: "cluster-resources/namespaces.json", tell: always(tellNamespaces)},
	{format: supportBundle, path: "cluster-resources/LIST-errors.json", tell: tellListErrors},
	{format: supportBundle, path: "cluster-resources/LIST.json", holds: isSupportBundleList},
	{format: supportBundle, path: "cluster-resources/LIST/NAMESPACE.json", holds: isSupportBundleList},
}

// supportBundleLists maps the names of the lists in a bundle to their kinds.
var supportBundleLists = map[string]Kind{
	"nodes":             Nodes,
	"pvs":               Volumes,
	"pvcs":              Claims,
	"pods":              Pods,
	"events":            Events,
	"leases":            Leases,
	"volumeattachments": VolumeAttachments,
	"storage-classes":   StorageClasses,
	"deployments":       Deployments,
}

func isSupportBundleList(r *row, words map[string]string) bool {
	return supportBundleLists[words["LIST"]] == r.Kind
}

func tellClusterVersion(r *root, text []byte) {
	var version struct {
		Info struct {
			GitVersion string `json:"gitVersion"`
		} `json:"info"`
	}
	if json.Unmarshal(text, &version) == nil {
		r.version = plain(version.Info.GitVersion)
	}
}

// tellNamespaces reads the list of all namespaces. A list of the namespaces in the collector's
// settings is not a NamespaceList, and is ignored.
func tellNamespaces(r *root, text []byte) { tellNamespacesOf(r, text, "NamespaceList") }

// tellNamespacesOf reads the list of all namespaces, whose kind is one of these.
func tellNamespacesOf(r *root, text []byte, kinds ...string) {
	var list struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Continue string `json:"continue"`
		} `json:"metadata"`
		Items []struct {
			Metadata namespaceMeta `json:"metadata"`
		} `json:"items"`
	}
	if json.Unmarshal(text, &list) != nil || !slices.Contains(kinds, list.Kind) || list.Metadata.Continue != "" {
		return
	}
	r.namespaces = []string{}
	for _, n := range list.Items {
		r.noteNamespace(n.Metadata)
	}
}

func tellListErrors(words map[string]string) func(*root, []byte) {
	kind := supportBundleLists[words["LIST"]]
	if kind == "" {
		return nil
	}
	return func(r *root, text []byte) { tellErrors(r, kind, text) }
}

// tellErrors reads what could not be listed: one message for each namespace, or a list of messages
// for a kind without namespaces. If the file itself cannot be read, that is an error, too.
func tellErrors(r *root, kind Kind, text []byte) {
	said := map[string]string{}
	var texts []string
	switch {
	case len(strings.TrimSpace(string(text))) == 0, strings.TrimSpace(string(text)) == "null":
		return
	case json.Unmarshal(text, &said) == nil:
	case json.Unmarshal(text, &texts) == nil:
		said = map[string]string{}
		if len(texts) > 0 {
			slices.Sort(texts)
			said[""] = texts[0]
		}
	default:
		said = map[string]string{"": "the tool noted an error that is not readable"}
	}
	for namespace, text := range said {
		said[namespace] = plain(text)
	}
	if len(said) > 0 {
		r.said[kind] = said
	}
}
