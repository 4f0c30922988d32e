package output

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

var (
	// quotation is a text in quotation marks behind a colon, up to the end of the message or
	// of a part of it.
	quotation = regexp.MustCompile(`(?:; it was said)?: ("(?:[^"\\]|\\.)*")(;|$)`)
	// wrapper is what gRPC puts around an answer.
	wrapper = regexp.MustCompile(`^rpc error: code = \w+ desc = `)
)

// quotedFrom is the length from which a quotation has a line of its own.
const quotedFrom = 24

// apart takes out of the message about the finding what a driver, a kubelet or a controller
// said, which stands on a line of its own: without what gRPC puts around it, and with its
// age where that is known. A quotation that the finding's evidence does not have is nobody's
// words, and stays.
func apart(f finding.Finding, message string, now metav1.Time) (what, said string) {
	for _, at := range quotation.FindAllStringSubmatchIndex(message, -1) {
		quoted, err := strconv.Unquote(message[at[2]:at[3]])
		if err != nil || len(quoted) < quotedFrom {
			continue
		}
		for _, e := range f.Evidence {
			_, after, found := strings.Cut(e.Value, quoted)
			if !found {
				continue
			}
			said := fmt.Sprintf("%q", wrapper.ReplaceAllString(quoted, ""))
			if when, err := time.Parse(" at "+time.RFC3339, after); err == nil {
				said += fmt.Sprintf(" %s ago", ago(now.Sub(when)))
			}
			return message[:at[0]] + message[at[4]:], said
		}
	}
	return message, ""
}
