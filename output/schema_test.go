package output

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// TestDocumentsFitTheirSchemas checks every document of the corpus against the published schemas,
// and allows no field that they do not name.
func TestDocumentsFitTheirSchemas(t *testing.T) {
	long.Test(t)
	schemas := map[string]*jsonschema.Schema{}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	names := []string{"report", "plan", "timeline", "trace", "volumeuse", "tracelist", "preflight", "upgrade"}
	for _, name := range names {
		if err := c.AddResource(schemaID+name+".json", closed(readSchema(t, name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		schema, err := c.Compile(schemaID + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		schemas[name] = schema
	}
	fits := func(t *testing.T, name string, document any) {
		t.Helper()
		var b strings.Builder
		if err := printJSON(&b, document, Options{}); err != nil {
			t.Fatal(err)
		}
		read, err := jsonschema.UnmarshalJSON(strings.NewReader(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		if err := schemas[name].Validate(read); err != nil {
			t.Error(err)
		}
	}
	withRepair := report()
	withRepair.Checks, withRepair.Waiting, withRepair.Volumes = []finding.Code{"VD301"}, []finding.Waiting{}, []finding.VolumeRecord{}
	fits(t, "report", withRepair)
	eachCase(t, func(t *testing.T, c corpusCase) {
		fits(t, "report", c.report)
		fits(t, "plan", withKubelets(c))
		for _, pod := range c.read.Pods[:min(1, len(c.read.Pods))] {
			fits(t, "trace", diagnose.TracePod(c.read, pod, diagnose.Options{Reconcile: c.settings, Checks: []check.Check{}}))
		}
		for _, use := range usesOf(c) {
			fits(t, "volumeuse", use)
			fits(t, "tracelist", TraceList{finding.APIVersion, "TraceList", []trace.Document{use, use}})
		}
		for _, node := range c.read.Nodes[:min(1, len(c.read.Nodes))] {
			fits(t, "preflight", diagnose.PreflightNode(c.read, types.NodeName(node.Name), diagnose.Options{Reconcile: c.settings}))
		}
		fits(t, "upgrade", preflight.OfUpgrade(c.read, "v1.31.0", c.settings))
		var timeline finding.Timeline
		for _, r := range []*finding.Report{c.report, worse(c.report), {TakenAt: c.report.TakenAt, Checks: c.report.Checks}} {
			for _, e := range timeline.Next(r, nil) {
				fits(t, "timeline", e)
			}
		}
	})
}

// usesOf returns the uses of all claims and volumes of the case.
func usesOf(c corpusCase) []*trace.VolumeUse {
	world := reconcile.NewWorld(c.read, c.settings)
	view := facts.NewView(c.read, world, world.Reconcile())
	var uses []*trace.VolumeUse
	for _, claim := range c.read.Claims {
		uses = append(uses, trace.OfClaim(view, c.report, claim))
	}
	for _, pv := range c.read.Volumes {
		uses = append(uses, trace.OfVolume(view, c.report, pv))
	}
	return uses
}

// withKubelets returns the plan of the case with the kubelet's view of its first node.
func withKubelets(c corpusCase) *Plan {
	p := *c.plan
	world := reconcile.NewWorld(c.read, c.settings)
	for _, node := range c.read.Nodes[:min(1, len(c.read.Nodes))] {
		p.Kubelets = append(p.Kubelets, kubelet.OfNode(facts.NewView(c.read, world, world.Reconcile()), types.NodeName(node.Name), &trace.KubeletView{}))
	}
	return &p
}

// worse returns the report with a change in every finding.
func worse(r *finding.Report) *finding.Report {
	changed := *r
	changed.Findings = slices.Clone(r.Findings)
	for i := range changed.Findings {
		changed.Findings[i].Cause += " and something else"
	}
	return &changed
}

// TestSchemasHaveEveryField checks that docs/schema names every field of the documents.
func TestSchemasHaveEveryField(t *testing.T) {
	for name, document := range map[string]any{"report": finding.Report{}, "plan": Plan{}, "timeline": finding.Entry{},
		"trace": trace.Trace{}, "volumeuse": trace.VolumeUse{}, "tracelist": TraceList{}, "preflight": preflight.Preflight{}, "upgrade": preflight.Upgrade{}} {
		schema := readSchema(t, name).(map[string]any)
		compare(t, name, schema, schema, reflect.TypeOf(document))
	}
}

func compare(t *testing.T, at string, root, schema map[string]any, typ reflect.Type) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		file, def, _ := strings.Cut(ref, "#/$defs/")
		if file != "" {
			root = readSchema(t, strings.TrimSuffix(file, ".json")).(map[string]any)
		}
		schema = root["$defs"].(map[string]any)[def].(map[string]any)
	}
	if choices, ok := schema["oneOf"].([]any); ok { // either null or the object
		compare(t, at, root, choices[1].(map[string]any), typ)
		return
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ == reflect.TypeFor[metav1.Time]():
		return
	case typ.Kind() == reflect.Slice:
		compare(t, at+"[]", root, schema["items"].(map[string]any), typ.Elem())
		return
	case typ.Kind() != reflect.Struct:
		return
	}
	properties, _ := schema["properties"].(map[string]any)
	var required, names, described []string
	for _, field := range reflect.VisibleFields(typ) {
		if !field.IsExported() || field.Anonymous { // the fields of an embedded struct come by themselves
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" { // not part of the document
			continue
		}
		names = append(names, name)
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
		if property, ok := properties[name].(map[string]any); ok {
			compare(t, at+"."+name, root, property, field.Type)
		}
	}
	for name := range properties {
		described = append(described, name)
	}
	var demanded []string
	always, _ := schema["required"].([]any)
	for _, name := range always {
		demanded = append(demanded, name.(string))
	}
	for _, list := range [][]string{names, described, required, demanded} {
		slices.Sort(list)
	}
	if diff := cmp.Diff(names, described); diff != "" {
		t.Errorf("%s: the fields of %s and of its schema differ (-type +schema):\n%s", at, typ, diff)
	}
	if diff := cmp.Diff(required, demanded); diff != "" {
		t.Errorf("%s: what %s always has and what its schema requires differ (-type +schema):\n%s", at, typ, diff)
	}
}

// schemaID is the common beginning of the published schemas' IDs.
const schemaID = "https://github.com/volume-doctor/kubectl-volume-doctor/blob/main/docs/schema/"

func readSchema(t *testing.T, name string) any {
	t.Helper()
	data, err := os.ReadFile("../docs/schema/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	return document
}

// closed forbids fields that the schema does not name. The published schema allows them, because
// later versions add fields.
func closed(schema any) any {
	switch schema := schema.(type) {
	case map[string]any:
		if _, object := schema["properties"].(map[string]any); object && schema["type"] == "object" {
			schema["additionalProperties"] = false
		}
		for _, v := range schema {
			closed(v)
		}
	case []any:
		for _, v := range schema {
			closed(v)
		}
	}
	return schema
}
