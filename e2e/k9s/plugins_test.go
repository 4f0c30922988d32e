// Package k9s_test holds the plug-in file for k9s against the schema that k9s itself refuses
// files by.
package k9s_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// k9s is the release whose schema is used. Go's checksum database vouches for it.
const k9s = "github.com/derailed/k9s@v0.50.16"

// schema is that of k9s for a file of plug-ins.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", k9s)
	download.Dir = t.TempDir()
	download.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if err := os.WriteFile(filepath.Join(download.Dir, "go.mod"), []byte("module none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := download.Output()
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(text, &module); err != nil {
		t.Fatal(err)
	}
	s, err := jsonschema.NewCompiler().Compile(filepath.Join(module.Dir, "internal", "config", "json", "schemas", "plugins.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPluginsFitTheSchema(t *testing.T) {
	s := schema(t)
	text, err := os.ReadFile("../../examples/k9s/plugins.yaml")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text string) error {
		t.Helper()
		converted, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(converted))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(document)
	}
	if err := valid(string(text)); err != nil {
		t.Error(err)
	}
	for name, spoilt := range map[string]string{
		"a plug-in without a key": strings.Replace(string(text), "    shortCut: Ctrl-V\n", "", 1),
		"scopes that are a text":  strings.Replace(string(text), "scopes: [pods]", "scopes: pods", 1),
		"another name at the top": strings.Replace(string(text), "\nplugins:", "\nplugin:", 1),
	} {
		if spoilt == string(text) || valid(spoilt) == nil {
			t.Errorf("%s: the schema takes it", name)
		}
	}
}
