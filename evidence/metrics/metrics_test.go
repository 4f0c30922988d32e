package metrics_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volume-doctor/kubectl-volume-doctor/evidence/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestDecode: the named families, in the order of their names, and nothing of their neighbours.
func TestDecode(t *testing.T) {
	const text = `# TYPE b gauge
b{a="x"} 2
# TYPE a_seconds histogram
a_seconds_bucket{le="1"} 3
a_seconds_bucket{le="+Inf"} 4
a_seconds_sum 7
a_seconds_count 4
# TYPE bb counter
bb 5
c 6
`
	got, err := metrics.Decode(strings.NewReader(text), []string{"a_seconds", "b", "c", "missing"})
	want := []metrics.Sample{{Family: "a_seconds", Labels: map[string]string{}, Value: 4}, {Family: "b", Labels: map[string]string{"a": "x"}, Value: 2}, {Family: "c", Labels: map[string]string{}, Value: 6}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for what, text := range map[string]string{
		"a negative number": "b -1\n", "not a number": "b NaN\n", "no number": "b many\n", "a line without an end": "b{a=\"" + strings.Repeat("x", metrics.MostLine) + "\"} 1\n",
	} {
		var undecodable *metrics.Undecodable
		if _, err := metrics.Decode(strings.NewReader(text), []string{"b"}); !errors.As(err, &undecodable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got, err := metrics.Decode(strings.NewReader("bb -1\nb 1\n"), []string{"b"}); err != nil || len(got) != 1 {
		t.Errorf("a family that is not asked for: %v %v", got, err)
	}
}

func TestManager(t *testing.T) {
	const volumes = "attachdetach_controller_total_volumes"
	read := func(text string) *metrics.Manager {
		m, err := metrics.DecodeManager(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := read(`kubernetes_build_info{git_version="v1.36.3"} 1
` + volumes + `{plugin_name="csi:disk",state="actual_state_of_world"} 3
` + volumes + `{plugin_name="csi:disk",state="desired_state_of_world"} 4
` + volumes + `{plugin_name="csi:share",state="actual_state_of_world"} 1
` + volumes + `{plugin_name="csi:share",state="another_state"} 9
`)
	if first.Release != "v1.36.3" || read(`kubernetes_build_info{git_version="master"} 1`).Release != "" {
		t.Errorf("release %q", first.Release)
	}
	again := read(volumes + `{plugin_name="csi:disk",state="actual_state_of_world"} 3
` + volumes + `{plugin_name="csi:disk",state="desired_state_of_world"} 5
` + volumes + `{plugin_name="csi:share",state="actual_state_of_world"} 1
` + volumes + `{plugin_name="csi:share",state="another_state"} 9
`)
	three, one := 3, 1
	if diff := cmp.Diff([]snapshot.Held{{Plugin: "csi:disk", Actual: &three}, {Plugin: "csi:share", Actual: &one}}, first.Same(again)); diff != "" {
		t.Error(diff)
	}
	for what, text := range map[string]string{
		"half a volume": volumes + `{state="a"} 1.5`, "more than any cluster has": volumes + `{state="a"} 1e9`,
		"the same twice": volumes + `{state="a"} 1` + "\n" + volumes + `{state="a"} 1`,
	} {
		if _, err := metrics.DecodeManager(strings.NewReader(text + "\n")); err == nil {
			t.Errorf("%s is read", what)
		}
	}
}

// FuzzControllerMetrics: whatever kube-controller-manager sends, reading it neither panics nor
// gives a number of volumes that no cluster has.
func FuzzControllerMetrics(f *testing.F) {
	f.Add("# TYPE attachdetach_controller_total_volumes gauge\nattachdetach_controller_total_volumes{plugin_name=\"p\",state=\"actual_state_of_world\"} 4811\nkubernetes_build_info{git_version=\"v1.35.4\"} 1\n")
	f.Add("attachdetach_controller_total_volumes{plugin_name=\"p\",state=\"actual_state_of_world\"} NaN\n")
	f.Add("# TYPE attachdetach_controller_total_volumes histogram\nattachdetach_controller_total_volumes_count 1e300\n")
	f.Add("kubernetes_build_info{git_version=\"v1.\"} 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := metrics.DecodeManager(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, h := range m.Same(m) {
			for _, n := range []*int{h.Actual, h.Desired} {
				if n != nil && (*n < 0 || *n > metrics.MostHeld) {
					t.Errorf("%s: %d", h.Plugin, *n)
				}
			}
		}
	})
}
