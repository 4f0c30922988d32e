package snapshot

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// supportBundle is the output of troubleshoot.sh's collectors clusterResources and clusterInfo:
//
//	cluster-resources/LIST.json               of the whole cluster
//	cluster-resources/LIST/NAMESPACE.json
//	cluster-resources/LIST-errors.json        what could not be read, and why
//	cluster-resources/namespaces.json         all, or those that were asked for
//	cluster-info/cluster_version.json
//
// Each file is one answer of the API server, and so complete. CSIDrivers and CSINodes are never
// among them.
var supportBundle = &format{name: "support bundle"}

const clusterResources = "cluster-resources"

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

func supportBundleFile(segments []string) (bundleFile, bool) {
	n := len(segments)
	if n < 2 || path.Ext(segments[n-1]) != ".json" {
		return bundleFile{}, false
	}
	f := bundleFile{format: supportBundle}
	last := strings.TrimSuffix(segments[n-1], ".json")
	list, isErrors := strings.CutSuffix(last, "-errors")
	switch {
	case segments[n-2] == "cluster-info" && last == "cluster_version":
		f.tell = tellClusterVersion
	case segments[n-2] == clusterResources && last == "namespaces":
		f.tell = tellNamespaces
	case segments[n-2] == clusterResources && isErrors && supportBundleLists[list] != "":
		f.tell = func(r *root, text []byte) { tellErrors(r, supportBundleLists[list], text) }
	case segments[n-2] == clusterResources:
		f.part.kind = supportBundleLists[last]
		if f.part.kind == "" || resourceOf(f.part.kind).Namespaced {
			return bundleFile{}, false
		}
	case n >= 3 && segments[n-3] == clusterResources:
		f.part.kind, f.part.namespace = supportBundleLists[segments[n-2]], last
		if f.part.kind == "" || !resourceOf(f.part.kind).Namespaced {
			return bundleFile{}, false
		}
		n--
	default:
		return bundleFile{}, false
	}
	f.root = strings.Join(segments[:n-2], "/")
	return f, true
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
