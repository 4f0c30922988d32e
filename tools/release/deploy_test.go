package release

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const image = "ghcr.io/volume-doctor/volume-doctor"

// field is the value of a line "NAME: VALUE" of a file.
func field(t *testing.T, file, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(name) + `: "?([^\s"]+)`).FindSubmatch(contents(t, filepath.Join(root, file)))
	if found == nil {
		t.Fatalf("%s has no %s", file, name)
	}
	return string(found[1])
}

// TestOneImage: the installed image is the one that the workflow pushes, in one version: that
// of the tag, where there is one.
func TestOneImage(t *testing.T) {
	version := field(t, "deploy/chart/Chart.yaml", "appVersion")
	if want := "v" + field(t, "deploy/chart/Chart.yaml", "version"); version != want {
		t.Errorf("the chart of %s installs %s", want, version)
	}
	if tag := os.Getenv("GITHUB_REF_NAME"); os.Getenv("GITHUB_REF_TYPE") == "tag" && tag != version {
		t.Errorf("the tag is %s, and the chart installs %s: raise deploy/chart/Chart.yaml and deploy/cronjob, and run make base", tag, version)
	}
	if got := field(t, "deploy/chart/values.yaml", "repository"); got != image {
		t.Errorf("the chart installs %s", got)
	}
	for _, file := range []string{"deploy/kustomize/volume-doctor.yaml", "deploy/cronjob/cronjob.yaml"} {
		if got := field(t, file, "image"); got != image+":"+version {
			t.Errorf("%s installs %s, and the chart %s:%s", file, got, image, version)
		}
	}
	if got := field(t, ".github/workflows/release.yaml", "IMAGE"); got != image {
		t.Errorf("the workflow pushes %s", got)
	}
}

// TestImageJob: the digest that was pushed is signed and attested, never a tag, and the job
// has the rights for it.
func TestImageJob(t *testing.T) {
	_, job, found := strings.Cut(string(contents(t, root+"/.github/workflows/release.yaml")), "\n  image:\n")
	if !found {
		t.Fatal("the workflow has no job that pushes the image")
	}
	for _, right := range []string{"packages: write", "id-token: write", "attestations: write"} {
		if !strings.Contains(job, "\n      "+right) {
			t.Errorf("the job may not %s", right)
		}
	}
	if !strings.Contains(job, `cosign sign --yes --recursive "$IMAGE@$DIGEST"`) {
		t.Error("the job signs something else than the digest")
	}
	attested := 0
	for _, step := range strings.Split(job, "\n      - ") {
		if !strings.HasPrefix(step, "uses: actions/attest@") {
			continue
		}
		attested++
		for _, line := range []string{"subject-name: " + image, "subject-digest: ${{ steps.push.outputs.digest }}", "push-to-registry: true"} {
			if !strings.Contains(step, "\n          "+line+"\n") {
				t.Errorf("an attestation lacks %q", line)
			}
		}
	}
	if attested != 2 {
		t.Errorf("%d attestations, want where the image comes from and what is in it", attested)
	}
}
