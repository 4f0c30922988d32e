package output

import (
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// wrapper matches the text that gRPC, and components that pass an error on, put before it.
var wrapper = regexp.MustCompile(`^(?:(?:failed to provision volume with StorageClass|[A-Z][A-Za-z]+Volume\.[A-Za-z. ]+ failed for volume|resize volume "[^"]*" by resizer) "[^"]*"(?: failed)? ?: )?(?:rpc error: code = \w+ desc = )?`)

// quoted returns a quoted message without the prefixes of others, followed by its age and its count
// as far as they are known; "" without a message. The speaker is named by the caller's "why" or
// "proof".
func quoted(q *finding.Quote, now metav1.Time) string {
	if q == nil {
		return ""
	}
	text := fmt.Sprintf("%q", wrapper.ReplaceAllString(q.Text, ""))
	var about []string
	if q.At != nil {
		about = append(about, ago(now.Sub(q.At.Time))+" ago")
	}
	if q.Count > 1 {
		about = append(about, count(q.Count, "time"))
	}
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	return text
}
