package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// YAML formats the value, which must be a JSON object, in kubectl's style of YAML. Every string is
// quoted unless it is a word that no parser can interpret as something else. Hidden characters are
// escaped, so that the text cannot control a terminal.
func YAML(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(yamlNode(fields)); err != nil {
		return nil, err
	}
	// Hidden characters occur only in quoted strings, so that each may be escaped.
	var text []byte
	for _, r := range out.String() {
		switch {
		case r == '\n' || !safetext.Hidden(r):
			text = append(text, string(r)...)
		case r > 0xffff: // YAML has no surrogate pairs
			text = fmt.Appendf(text, `\U%08x`, r)
		default:
			text = fmt.Appendf(text, `\u%04x`, r)
		}
	}
	return text, nil
}

// yamlNode accepts the values that encoding/json decodes.
func yamlNode(value any) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, yamlNode(name), yamlNode(v[name]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v {
			n.Content = append(n.Content, yamlNode(item))
		}
		return n
	case string:
		if plainWord.MatchString(v) && !otherMeaning.MatchString(v) {
			return &yaml.Node{Kind: yaml.ScalarNode, Value: v}
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v, Style: yaml.DoubleQuotedStyle}
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}
	default: // a number, true or false
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v)}
	}
}

// plainWord matches words and paths that do not begin like a number.
var plainWord = regexp.MustCompile(`^[a-zA-Z/]([-a-zA-Z0-9_./:^]*[-a-zA-Z0-9_./^])?$`)

// otherMeaning matches the words that some YAML parser takes for true, false or null.
var otherMeaning = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|true|false|null)$`)
