// Package k9s_test holds the plug-in file for k9s against the schema that k9s itself refuses
// files by.
package k9s_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/gomodule"
)

// k9s is the release whose schema is used.
const k9s = "github.com/derailed/k9s@v0.50.16"

// schema is that of k9s for a file of plug-ins.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	module, err := gomodule.Download(t.Context(), k9s)
	if err != nil {
		t.Fatal(err)
	}
	s, err := jsonschema.NewCompiler().Compile(filepath.Join(module, "internal", "config", "json", "schemas", "plugins.json"))
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
