package snapshot

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"time"
)

// crustGather is what `kubectl crust-gather collect` writes (1.0.0). Its filters leave out objects,
// a refused list is missing, and --duration stops it at any point without a mark in the archive. So
// no list in it is known to be complete.
var crustGather = &format{name: "crust-gather archive", singles: true, padded: true}

const (
	crustGatherStamp   = "collected.timestamp"
	crustGatherVersion = "version.yaml"
)

var crustGatherPaths = []bundlePath{
	{format: crustGather, path: crustGatherStamp, tell: always(tellStamp)},
	{format: crustGather, path: "cluster/VERSION/OBJECT/NAME.yaml", form: oneEach, holds: inVersion},
	{format: crustGather, path: "namespaces/NAMESPACE/VERSION/OBJECT/NAME.yaml", form: oneEach, holds: inVersion},
}

// inVersion compares VERSION, such as "v1" or "storage.k8s.io-v1", and OBJECT, such as
// "volumeattachment".
func inVersion(r *row, words map[string]string) bool {
	return words["VERSION"] == strings.ReplaceAll(r.Version, "/", "-") && words["OBJECT"] == strings.ToLower(r.Object)
}

func tellStamp(r *root, text []byte) {
	at, err := time.Parse("2006-01-02 15:04:05.999999999 MST", strings.Trim(string(text), "\"'\n\x00"))
	if err == nil {
		r.began = at
	}
}

// tellVersionFile reads the answer of /version.
func tellVersionFile(r *root, text []byte) {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if json.Unmarshal(yamlAsJSON(bytes.TrimSuffix(text, padding)), &version) == nil && version.GitVersion != "" {
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
