package house

import (
	"regexp"
	"strings"
	"testing"
)

// released is the newest release that can be downloaded, as in v1.2.3. There is none yet:
// once there is, this constant has it, and the test below says what must name it.
const released = ""

// TestNothingIsNamedThatIsNotThere: before the first release, no page and no job tells
// anybody to download one; afterwards the pages say how.
func TestNothingIsNamedThatIsNotThere(t *testing.T) {
	download := regexp.MustCompile(`go install github\.com/volume-doctor/|kubectl krew install|releases/download/|kubectl-volume-doctor/ci/\S*@`)
	named := 0
	for _, name := range append(pagesOfDocs(t), "README.md", "CONTRIBUTING.md", "SECURITY.md", "ci/github/action.yml", "ci/gitlab.yml") {
		for line := range strings.Lines(contents(t, name)) {
			if !download.MatchString(line) {
				continue
			}
			named++
			if released == "" || strings.Contains(line, "@v") && !strings.Contains(line, released) {
				t.Errorf("%s: %q: the newest release is %q", name, strings.TrimSpace(line), released)
			}
		}
	}
	if released != "" && named == 0 {
		t.Errorf("no page says how to install %s", released)
	}
	if readme := contents(t, "README.md"); strings.Contains(readme, "`make build`") != (released == "") {
		t.Error("README.md says how to build it as long as it cannot be installed")
	}
}

// TestReadmeIsOnePage: the README is short enough to be read in full by somebody who has just
// found it.
func TestReadmeIsOnePage(t *testing.T) {
	if lines := strings.Count(contents(t, "README.md"), "\n"); lines > 110 {
		t.Errorf("README.md has %d lines, which is more than 110", lines)
	}
}
