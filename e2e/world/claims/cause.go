package claims

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// causes are, for the codes that name a cause, the kinds of what must have been wrong with
// the world at that moment, or before it. A code that is not here names none, and is
// counted.
var causes = map[finding.Code][]string{}

// cause judges that a certain finding names what was done to the world.
func (j *judging) cause(l Look, f finding.Finding) {
	const judge = "cause"
	if f.Confidence == finding.Suspected {
		return
	}
	kinds, known := causes[f.Code]
	if !known {
		j.exempt(judge, "no cause is known for "+string(f.Code))
		return
	}
	j.Judged[judge]++
	if !slices.ContainsFunc(j.Causes, func(c Cause) bool { return !c.From.After(l.At) && slices.Contains(kinds, c.Kind) }) {
		j.false(judge, string(f.Code), l, fmt.Sprintf("%s certain: %s", f.Code, f.Message), "there was none of: "+strings.Join(kinds, ", "))
	}
}
