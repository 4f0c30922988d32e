package snapshot

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

// crustGather is what `kubectl crust-gather collect` writes (1.0.0):
//
//	cluster/VERSION/KIND/NAME.yaml
//	namespaces/NAMESPACE/VERSION/KIND/NAME.yaml
//	version.yaml
//	collected.timestamp
//
// VERSION is "v1" or "storage.k8s.io-v1", and KIND is "volumeattachment". Its filters leave out
// objects, a refused list is missing, and --duration stops it at any point without a mark in the
// archive. So no list in it is known to be complete.
var crustGather = &format{name: "crust-gather archive", singles: true, padded: true}

const (
	crustGatherStamp   = "collected.timestamp"
	crustGatherVersion = "version.yaml"
)

func crustGatherFile(segments []string) (bundleFile, bool) {
	n := len(segments)
	f := bundleFile{format: crustGather, part: partKey{form: oneEach}}
	under := func(above int) string { return strings.Join(segments[:n-above], "/") }
	if segments[n-1] == crustGatherStamp {
		f.root, f.tell = under(1), tellStamp
		return f, true
	}
	if n < 4 || !isYAML(segments[n-1]) {
		return bundleFile{}, false
	}
	k := resourceInFolder(segments[n-3], segments[n-2])
	switch {
	case k == nil:
		return bundleFile{}, false
	case segments[n-4] == "cluster" && !k.Namespaced:
		f.root = under(4)
	case n >= 5 && segments[n-5] == "namespaces" && k.Namespaced:
		f.root, f.part.namespace = under(5), segments[n-4]
	default:
		return bundleFile{}, false
	}
	f.part.kind = k.Kind
	return f, true
}

// resourceInFolder returns the resource for the names of its folders, or nil.
func resourceInFolder(version, kind string) *row {
	for _, r := range resources {
		if strings.ReplaceAll(r.Version, "/", "-") == version && strings.ToLower(r.Object) == kind {
			return r
		}
	}
	return nil
}

func tellStamp(r *root, text []byte) {
	at, err := time.Parse("2006-01-02 15:04:05.999999999 MST", strings.Trim(string(text), "\"'\n\x00"))
	if err == nil {
		r.began = at
	}
}

// tellVersionFile reads the answer of /version.
func tellVersionFile(r *root, text []byte) {
	value, err := yamljson.Parse(bytes.TrimSuffix(text, padding))
	if err != nil {
		return
	}
	raw, err := yamljson.JSON(value, maxTold)
	if err != nil {
		return
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if json.Unmarshal(raw, &version) == nil && version.GitVersion != "" {
		r.version = plain(version.GitVersion)
	}
}

// padding is the byte that crust-gather writes after each text in a tar.gz.
var padding = []byte{0}

// withoutPadding removes the padding from the text of an object.
func withoutPadding(in io.Reader, limit int64) (io.Reader, error) {
	text, err := io.ReadAll(io.LimitReader(in, limit))
	return io.MultiReader(bytes.NewReader(bytes.TrimSuffix(text, padding)), in), err
}
