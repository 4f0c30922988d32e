package mcp

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/util/validation"
)

// mostTargets is how many objects a call may name.
const mostTargets = 20

// Inputs of the tools. A field becomes an argument only if it is a valid name, and none can
// be a flag.
type (
	where struct {
		Namespace string `json:"namespace,omitempty" jsonschema:"the namespace of pods and claims; the kubeconfig's own without it"`
		Context   string `json:"context,omitempty" jsonschema:"the kubeconfig context of the cluster; the current one without it"`
	}
	diagnoseInput struct {
		Targets []string `json:"targets,omitempty" jsonschema:"what to report on, as pod/web-0, pvc/data, pv/pv-1, node/n1, volumeattachment/csi-1 or deployment/web; everything without it"`
		where
	}
	traceInput struct {
		Pod    string `json:"pod,omitempty" jsonschema:"the name of the pod; exactly one of pod, claim and volume is given"`
		Claim  string `json:"claim,omitempty" jsonschema:"the name of a PersistentVolumeClaim"`
		Volume string `json:"volume,omitempty" jsonschema:"the name of a PersistentVolume"`
		where
	}
	planInput struct {
		Nodes   []string `json:"nodes,omitempty" jsonschema:"the names of the nodes; all without it"`
		Context string   `json:"context,omitempty" jsonschema:"the kubeconfig context of the cluster; the current one without it"`
	}
	explainInput struct {
		Code string `json:"code" jsonschema:"the code of a finding as VD301, its check as inuse-not-attached, or a kind of repair"`
	}
	preflightInput struct {
		Node    string `json:"node" jsonschema:"the name of the node"`
		Context string `json:"context,omitempty" jsonschema:"the kubeconfig context of the cluster; the current one without it"`
	}
)

// tool is a command, with its description for a model.
type tool struct {
	name, title, description string
	// says are the meanings of exit codes 0 and 1.
	says [2]string
	// ours reports whether the answer has only this program's own words, so that nothing in
	// it needs marks.
	ours bool
}

var (
	diagnoseTool = tool{name: "diagnose", title: "Find why volumes are stuck", says: [2]string{"nothing that needs anybody was found", "something was found"},
		description: "Find what keeps Kubernetes volumes from attaching, detaching or mounting: for each cause what is wrong, who waits, whether it heals by itself and what to do. Reads the cluster; changes nothing."}
	traceTool = tool{name: "trace", title: "Follow one pod's volumes, or one claim", says: [2]string{"nothing waits for a volume here", "something waits for a volume here, or is wrong with it"},
		description: "Follow one pod's volumes stage by stage, from scheduled to mounted: which stage waits, since when, and on whom. The first thing to ask about a pod in ContainerCreating or Terminating. Of a claim or a volume: who uses it, where it is attached and mounted, and what keeps it. Changes nothing."}
	planTool = tool{name: "plan", title: "What the attach/detach controller would do", says: [2]string{"this is the plan", "this is the plan"},
		description: "Show what a freshly started attach/detach controller would do with each volume and node: attach, detach, wait, and what ends each wait. Writes nothing."}
	explainTool = tool{name: "explain", title: "Explain a finding's code", ours: true, says: [2]string{"this is the page", "this is the page"},
		description: "Explain a finding's code: symptom, evidence, look-alikes, repair and its risk. Needs no cluster."}
	preflightTool = tool{name: "preflight", title: "What would hang if a node went", says: [2]string{"nothing would hang beyond what the timers say", "something would hang"},
		description: "Show which pods would wait for a volume, and how long, if the node were drained or lost now. Changes nothing."}
)

func (s *server) addTools(to *sdk.Server) {
	add(s, to, diagnoseTool, func(in diagnoseInput) ([]string, error) {
		return s.asked(in.where, "targets", in.Targets, "diagnose", "--output=json")
	})
	add(s, to, traceTool, func(in traceInput) ([]string, error) {
		return s.traced(in)
	})
	add(s, to, planTool, func(in planInput) ([]string, error) {
		nodes := make([]string, len(in.Nodes))
		for i, name := range in.Nodes {
			nodes[i] = "node/" + name
		}
		return s.asked(where{Context: in.Context}, "nodes", nodes, "plan")
	})
	add(s, to, explainTool, func(in explainInput) ([]string, error) {
		if !code.MatchString(in.Code) {
			return nil, fmt.Errorf("code is not the code of a finding, the name of a check or a kind of repair, as VD301")
		}
		return []string{"explain", "--", in.Code}, nil
	})
	add(s, to, preflightTool, func(in preflightInput) ([]string, error) {
		return s.asked(where{Context: in.Context}, "node", []string{"node/" + in.Node}, "preflight")
	})
}

// traced are the arguments for the one target of a trace.
func (s *server) traced(in traceInput) (args []string, err error) {
	given := 0
	for _, of := range []struct{ field, kind, name string }{{"pod", "pod", in.Pod}, {"claim", "pvc", in.Claim}, {"volume", "pv", in.Volume}} {
		if of.name != "" {
			given++
			args, err = s.asked(in.where, of.field, []string{of.kind + "/" + of.name}, "trace")
		}
	}
	if given != 1 {
		return nil, fmt.Errorf("trace takes exactly one of pod, claim and volume")
	}
	return args, err
}

// add gives the server a tool: args are the arguments of its command.
func add[In any](s *server, to *sdk.Server, t tool, args func(In) ([]string, error)) {
	no := false
	sdk.AddTool(to, &sdk.Tool{Name: t.name, Title: t.title, Description: t.description, InputSchema: schemaOf[In](),
		Annotations: &sdk.ToolAnnotations{Title: t.title, ReadOnlyHint: true, DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		line, err := args(in)
		if err != nil {
			return nil, nil, err
		}
		r, err := s.run(ctx, line)
		if err != nil {
			return nil, nil, err
		}
		text, failed := t.answer(r)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: failed}, nil, nil
	})
}

// schemaOf describes the input. A list is described as a list, not as a list or null: strict
// readers, such as the inspector's, warn about a property with two types.
func schemaOf[In any]() *jsonschema.Schema {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		panic(err) // the types are fixed
	}
	for _, property := range schema.Properties {
		if property.Items != nil {
			property.Type, property.Types = "array", nil
		}
	}
	return schema
}

// asked are the arguments of a command on a cluster: the server's own flags, those of the
// call, and after "--" the targets, which come from the named field of the input.
func (s *server) asked(w where, field string, targets []string, command ...string) ([]string, error) {
	args := slices.Concat(command, s.Base)
	switch {
	case w.Context == "":
	case s.OneCluster:
		return nil, fmt.Errorf("context: this server was started for one cluster or file and asks no other")
	case !contextName.MatchString(w.Context):
		return nil, fmt.Errorf("context is not the name of a kubeconfig context")
	default:
		args = append(args, "--context="+w.Context)
	}
	if w.Namespace != "" {
		if len(validation.IsDNS1123Label(w.Namespace)) > 0 {
			return nil, fmt.Errorf("namespace is not a name that Kubernetes gives to a namespace")
		}
		args = append(args, "--namespace="+w.Namespace)
	}
	if len(targets) > mostTargets {
		return nil, fmt.Errorf("a call may name %d objects at most", mostTargets)
	}
	for _, target := range targets {
		if err := mayBeTarget(field, target); err != nil {
			return nil, err
		}
	}
	return append(append(args, "--"), targets...), nil
}

var (
	code        = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)
	kind        = regexp.MustCompile(`^[A-Za-z]{1,40}$`)
	contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,252}$`)
)

// mayBeTarget refuses a text that is not KIND/NAME, and names that no API object can have.
// Whether the kind exists the command decides. The error does not repeat the text: an answer
// has no words of others outside its marks.
func mayBeTarget(field, target string) error {
	k, name, found := strings.Cut(target, "/")
	if !found || !kind.MatchString(k) {
		return fmt.Errorf("%s: each is KIND/NAME, as pod/web-0", field)
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("%s has a name that Kubernetes gives to no object", field)
	}
	return nil
}
