package explain

import (
	"fmt"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// driversPage is the name of the page that lists the drivers and tools.
const driversPage = "drivers"

// Said is the page with the messages of the driver or tool, or the list of all their names
// for "drivers".
func Said(name string) (string, bool) {
	drivers, tools := driverwords.Speakers()
	if strings.EqualFold(name, driversPage) {
		return fmt.Sprintf("# What drivers say\n\nEach name is a page: \"%s\".\n\n## Drivers\n\n- %s\n\n"+
			"## Tools, and what their numbers mean\n\n- %s\n\n## Whatever the driver\n\n%s",
			safetext.Kubectl("volume-doctor", "explain", drivers[0]), strings.Join(drivers, "\n- "), strings.Join(tools, "\n- "), entries(driverwords.Of(""))), true
	}
	said := driverwords.Of(name)
	if len(said) == 0 {
		return "", false
	}
	return fmt.Sprintf("# What %s says\n\n\"{}\" stands for one value, such as an id, and \"{...}\" for any text.\n\n%s", name, entries(said)), true
}

func entries(said []driverwords.Entry) string {
	var b strings.Builder
	for _, e := range said {
		fmt.Fprintf(&b, "%s\n    %s; who acts: %s. %s\n    %s\n\n", e.Words, e.Meaning, e.Actor, step.Plain(e.Helps), e.Source)
	}
	return b.String()
}
