package cmd

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// Patterns of the words that a command of a saved report may have.
const (
	nameWord = `[A-Za-z0-9][-A-Za-z0-9._:]{0,252}`
	// kindWord matches a kind that diagnose reads, or one that makes pods, but never Secrets.
	kindWord = `(?:nodes?|no|pods?|po|pv|pvc|persistentvolumes?|persistentvolumeclaims?|volumeattachments?|va|csinodes?|csidrivers?|storageclass(?:es)?|sc|` +
		`volumesnapshots?|volumeattributesclass(?:es)?|events?|ev|leases?|deployments?|deploy|statefulsets?|sts|daemonsets?|ds|replicasets?|rs|jobs?|cronjobs?)`
	oneObject = kindWord + `[/ ]` + nameWord
)

// shape is the form of a kubectl command that a check advises or that does the same as a
// repair.
type shape struct {
	// words matches the words that are not flags, joined by blanks.
	words *regexp.Regexp
	// flags are the allowed flags, with patterns of their values; "" is for a flag without a
	// value.
	flags map[string]string
}

func shapeOf(words string, flags map[string]string) shape {
	return shape{regexp.MustCompile(`^(?:` + words + `)$`), flags}
}

var (
	namespaced = map[string]string{"-n": nameWord, "--namespace": nameWord}
	// shapes are all such forms: first those that read, then those that write. No other
	// command of a saved report is shown.
	shapes = []shape{
		shapeOf(`(?:get|describe) (?:`+kindWord+`(?:,`+kindWord+`)*|`+oneObject+`)`, with(namespaced, map[string]string{
			"-A": "", "-o": `wide|yaml|json|name`, "-l": `[-A-Za-z0-9._/=,!]+`, "--field-selector": `[-A-Za-z0-9._/=,!]+`,
		})),
		shapeOf(`logs pods?/`+nameWord, with(namespaced, map[string]string{"--all-containers": "", "--previous": "", "--tail": `[0-9]+`, "-c": nameWord, "--container": nameWord})),
		shapeOf(`volume-doctor (?:diagnose|trace|plan|preflight)(?: `+kindWord+`/`+nameWord+`)?`, with(namespaced, map[string]string{
			"--check": `[-a-z0-9,]+`, "--for": `[0-9hms]+`, "--watch": "",
		})),
		shapeOf(`volume-doctor explain [-A-Za-z0-9]+`, nil),
		shapeOf(`cordon node/`+nameWord, nil),
		shapeOf(`taint nodes node/`+nameWord+` node\.kubernetes\.io/out-of-service(?:=nodeshutdown:NoExecute|-)`, nil),
		shapeOf(`annotate pv/`+nameWord+` nudged=[0-9]+`, map[string]string{"--overwrite": ""}),
		shapeOf(`annotate persistentvolumeclaim/`+nameWord+` `+regexp.QuoteMeta(reconcile.SelectedNodeAnnotation)+`-`, namespaced),
		shapeOf(`scale deployment/`+nameWord, map[string]string{"--namespace": nameWord, "--replicas": `1`}),
		shapeOf(`delete pod/`+nameWord, map[string]string{"--namespace": nameWord}),
		shapeOf(`patch (?:pv|persistentvolume|node|volumeattachment)[/ ]`+nameWord, map[string]string{"--subresource": "status", "--type": "json|merge", "-p": `.*`}),
	}
)

func with(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// aimingFlags are the flags that point kubectl at another cluster, or at another user.
var aimingFlags = []string{
	"kubeconfig", "kuberc", "context", "cluster", "server", "user", "as", "as-uid", "as-group", "as-user-extra", "token", "username", "password",
	"tls-server-name", "insecure-skip-tls-verify", "certificate-authority", "client-certificate", "client-key", "request-timeout", "cache-dir",
	"server-moved", "contexts", "all-contexts", "kubeconfig-dir", "filename",
}

// consentFlags are the flags with which the user makes volume-doctor write, and gives his
// consent.
var consentFlags = []string{"apply", "yes", "allow", "detached", "fenced", "approved", "max-repairs", "keep-going"}

// plain is a command of a saved report in the form in which it may be shown: it fits one of
// shapes, and is built again from its words without aimingFlags. unaimed reports whether it
// had any of those. The command is "" where it fits none.
func plain(line string) (command string, unaimed bool) {
	words, ok := safetext.KubectlWords(line)
	if !ok {
		return "", false
	}
	kept := slices.DeleteFunc(slices.Clone(words), func(word string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		return strings.HasPrefix(word, "--") && slices.Contains(aimingFlags, name)
	})
	if !slices.ContainsFunc(shapes, func(s shape) bool { return s.fits(kept) }) {
		return "", false
	}
	return safetext.Kubectl(kept...), len(kept) < len(words)
}

// fits reports whether the words are a command of the shape.
func (s shape) fits(words []string) bool {
	var args []string
	patch := ""
	for i := 0; i < len(words); i++ {
		if !strings.HasPrefix(words[i], "-") {
			args = append(args, words[i])
			continue
		}
		name, value, hasValue := strings.Cut(words[i], "=")
		pattern, known := s.flags[name]
		if !known || hasValue && (pattern == "" || !strings.HasPrefix(name, "--")) {
			return false
		}
		if pattern == "" {
			continue
		}
		if !hasValue { // the next word is its value
			if i++; i == len(words) || strings.HasPrefix(name, "--") {
				return false
			}
			value = words[i]
		}
		if whole := regexp.MustCompile(`^(?:` + pattern + `)$`); !whole.MatchString(value) {
			return false
		}
		if name == "-p" {
			patch = value
		}
	}
	if !s.words.MatchString(strings.Join(args, " ")) {
		return false
	}
	if args[0] != "patch" {
		return true
	}
	kind, _, _ := strings.Cut(strings.Join(args[1:], "/"), "/")
	return ofRepair(kind, patch)
}

// patched are the fields that repairs and advice write, by the kind of object, as JSON
// pointers.
var patched = map[string]*regexp.Regexp{
	"pv":               regexp.MustCompile(`^/spec/claimRef/(?:uid|resourceVersion)$`),
	"node":             regexp.MustCompile(`^/(?:status/volumesAttached|spec/taints)(?:/[0-9]+|/-)?$`),
	"volumeattachment": regexp.MustCompile(`^/(?:metadata/finalizers/[0-9]+|status/attached)$`),
}

// ofRepair reports whether a patch of an object of the kind writes only fields that a repair
// or an advice writes.
func ofRepair(kind, patch string) bool {
	var merged map[string]any
	if json.Unmarshal([]byte(patch), &merged) == nil {
		return mergesOnly(kind, "", merged)
	}
	var ops []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if json.Unmarshal([]byte(patch), &ops) != nil {
		return false
	}
	tested := map[string]bool{}
	for _, op := range ops {
		switch {
		case op.Op == "test":
			tested[op.Path] = true
		case op.Path == "/metadata/resourceVersion" && op.Op == "replace", strings.ReplaceAll(op.Path, "~1", "/") == "/metadata/annotations/"+repair.MarkAnnotation:
		case !patched[kind].MatchString(op.Path), !slices.Contains([]string{"add", "replace", "remove"}, op.Op):
			return false
		case strings.HasPrefix(op.Path, "/spec/taints") && op.Op != "remove" && !onlyOutOfService(op.Value),
			strings.HasPrefix(op.Path, "/spec/claimRef") && op.Op != "remove" && (op.Op != "replace" || !tested[op.Path]), strings.HasPrefix(op.Path, "/metadata/finalizers") && op.Op != "remove":
			return false
		}
	}
	return len(ops) > 0
}

// onlyOutOfService reports whether the value's only taint is the out-of-service taint.
func onlyOutOfService(value json.RawMessage) bool {
	type taint struct{ Key string }
	var one taint
	var list []taint
	if json.Unmarshal(value, &one) == nil {
		list = []taint{one}
	} else if json.Unmarshal(value, &list) != nil {
		return false
	}
	return !slices.ContainsFunc(list, func(t taint) bool { return t.Key != "node.kubernetes.io/out-of-service" })
}

// mergesOnly is ofRepair for the fields of a merge patch below the path.
func mergesOnly(kind, path string, fields map[string]any) bool {
	for name, value := range fields {
		field := path + "/" + name
		inner, isObject := value.(map[string]any)
		switch {
		case isObject && mergesOnly(kind, field, inner):
		case field == "/metadata/uid" || field == "/metadata/resourceVersion" || field == "/metadata/annotations/"+repair.MarkAnnotation:
		case field == "/spec/persistentVolumeReclaimPolicy" && kind == "pv" && value == "Retain":
		default:
			return false
		}
	}
	return len(fields) > 0
}

var (
	// inProse matches a kubectl command in a sentence, up to its second word.
	inProse  = regexp.MustCompile(`(?i)\bkubectl\b(?:\.exe)?((?:\s+[^\s.;:]+){0,2})`)
	harmless = regexp.MustCompile(`^\s+(?:get|describe|logs|cordon|volume-doctor\s+(?:diagnose|trace|plan|preflight|explain|undo|auth))\b`)
	// aFlag matches a flag in a sentence, with its value after "=".
	aFlag = regexp.MustCompile(`(?i)--([a-z][-a-z0-9]*)(?:=\S*)?`)
	// shortServer matches kubectl's -s in a sentence.
	shortServer = regexp.MustCompile(`(^|\s)-s\S*`)
)

const isLeftOut = "[left out]"

// proseOf is a text of a saved report without commands that write and without flags that
// redirect a command or give somebody's consent.
func proseOf(text string) string {
	prose := aFlag.ReplaceAllStringFunc(text, func(flag string) string {
		name := strings.ToLower(aFlag.FindStringSubmatch(flag)[1])
		if slices.Contains(aimingFlags, name) || slices.Contains(consentFlags, name) {
			return isLeftOut
		}
		return flag
	})
	if !inProse.MatchString(prose) {
		return prose
	}
	prose = shortServer.ReplaceAllStringFunc(prose, func(string) string { return " " + isLeftOut })
	prose = inProse.ReplaceAllStringFunc(prose, func(command string) string {
		if next := inProse.FindStringSubmatch(command)[1]; next == "" || harmless.MatchString(next) {
			return command
		}
		return isLeftOut
	})
	return prose
}
