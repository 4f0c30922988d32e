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
	// quotation is what a driver, a kubelet or a controller said, as messages quote it: behind
	// a colon, up to the end of the message or of a part of it.
	quotation = regexp.MustCompile(`:? ("(?:[^"\\]|\\.)*")(;|$)`)
	// wrapper is what gRPC puts around an answer.
	wrapper = regexp.MustCompile(`^rpc error: code = \w+ desc = `)
)

// quotedFrom is the length from which a quotation has a line of its own; a shorter one is
// a name.
const quotedFrom = 24

// apart takes the quotation out of the message: what stands on a line of its own is
// neither read twice nor between a reader and the count of pods.
func apart(message string) (what, quoted string) {
	for _, at := range quotation.FindAllStringSubmatchIndex(message, -1) {
		text, err := strconv.Unquote(message[at[2]:at[3]])
		if err != nil || len(text) < quotedFrom || message[at[0]] != ':' {
			continue
		}
		return message[:at[0]] + message[at[4]:], text
	}
	return message, ""
}

// spoken is the quotation without what gRPC puts around it, and when it was said, where
// the finding's evidence tells.
func spoken(f finding.Finding, quoted string, now metav1.Time) string {
	if quoted == "" {
		return ""
	}
	text := fmt.Sprintf("%q", wrapper.ReplaceAllString(quoted, ""))
	for _, e := range f.Evidence {
		_, stamp, found := strings.Cut(e.Value, quoted+" at ")
		if at, err := time.Parse(time.RFC3339, stamp); found && err == nil {
			return fmt.Sprintf("%s %s ago", text, ago(now.Sub(at)))
		}
	}
	return text
}
