package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const kubeletPods = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[
{"metadata":{"name":"web-0","namespace":"shop","uid":"u1"},"spec":{"containers":[{"name":"c","env":[{"name":"PASSWORD","value":"hunter2"}]}]},"status":{"phase":"Pending"}}]}`

const kubeletMetrics = `# HELP kubelet_node_name [ALPHA] The node's name.
# TYPE kubelet_node_name gauge
kubelet_node_name{node="n1"} 1
# HELP storage_operation_duration_seconds [ALPHA] Storage operation duration
# TYPE storage_operation_duration_seconds histogram
storage_operation_duration_seconds_bucket{migrated="false",operation_name="volume_mount",status="fail-unknown",volume_plugin="kubernetes.io/csi:disk.example.com",le="0.1"} 2
storage_operation_duration_seconds_bucket{migrated="false",operation_name="volume_mount",status="fail-unknown",volume_plugin="kubernetes.io/csi:disk.example.com",le="+Inf"} 3
storage_operation_duration_seconds_sum{migrated="false",operation_name="volume_mount",status="fail-unknown",volume_plugin="kubernetes.io/csi:disk.example.com"} 0.3
storage_operation_duration_seconds_count{migrated="false",operation_name="volume_mount",status="fail-unknown",volume_plugin="kubernetes.io/csi:disk.example.com"} 3
# TYPE volume_manager_total_volumes gauge
volume_manager_total_volumes{plugin_name="kubernetes.io/csi:disk.example.com",state="desired_state_of_world"} 2
volume_manager_total_volumes{plugin_name="kubernetes.io/csi:disk.example.com",state="actual_state_of_world"} 1
`

// kubeletServer is an API server that answers for one kubelet.
func kubeletServer(t *testing.T, answer map[string]http.HandlerFunc) *Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/n1/proxy/")
		if handler := answer[path]; ok && handler != nil && r.Method == http.MethodGet {
			handler(w, r)
			return
		}
		if path == "logs/" { // as a node answers that lets nobody ask for it
			http.Error(w, "logs endpoint is disabled.", http.StatusMethodNotAllowed)
			return
		}
		t.Errorf("nobody serves %s %s", r.Method, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, text) }
}

func refuses(code int, reason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, code)
	}
}

func TestKubelet(t *testing.T) {
	view, err := kubeletServer(t, map[string]http.HandlerFunc{"pods": says(kubeletPods), "metrics": says(kubeletMetrics)}).Kubelet(t.Context(), "n1")
	if err != nil || len(view.Gaps) > 0 {
		t.Fatalf("%v, gaps %v", err, view.Gaps)
	}
	if len(view.Pods) != 1 || view.Pods[0].UID != "u1" || len(view.Pods[0].Spec.Containers[0].Env) > 0 {
		t.Errorf("pods %+v", view.Pods)
	}
	var got []string
	for _, s := range view.Samples {
		got = append(got, fmt.Sprintf("%s %s%s %.0f", s.Family, s.Labels["state"], s.Labels["operation_name"], s.Value))
	}
	want := []string{"volume_manager_total_volumes desired_state_of_world 2", "volume_manager_total_volumes actual_state_of_world 1",
		"storage_operation_duration_seconds volume_mount 3"}
	if !slices.Equal(got, want) {
		t.Errorf("samples %q, want %q", got, want)
	}
}

// The log tells what has failed, and a node without it leaves no gap.
func TestKubeletLog(t *testing.T) {
	at := time.Now().UTC()
	line := at.Format("Jan _2 15:04:05.000000") + " n1 kubelet[77]: E" + at.Format("0102 15:04:05.000000") + `      77 nestedpendingoperations.go:348] Operation for "{volumeName:kubernetes.io/csi/d^v podName:u1 nodeName:}" failed. ` +
		"No retries permitted until " + at.Add(time.Second).Format("2006-01-02 15:04:05.999999999 -0700 MST") + " m=+9.5 (durationBeforeRetry 1s). Error: " +
		`UnmountVolume.TearDown failed for volume "kubernetes.io/csi/d^v" (UniqueName: "kubernetes.io/csi/d^v") pod "u1" (UID: "u1") : busy` + "\n"
	for name, row := range map[string]struct {
		log  http.HandlerFunc
		want int
	}{
		"told": {func(w http.ResponseWriter, r *http.Request) {
			if q := r.URL.Query(); q.Get("query") != "kubelet" || q.Get("pattern") == "" {
				t.Errorf("asked for %v", q)
			}
			says(line)(w, r)
		}, 1},
		"not offered":   {nil, 0},
		"forbidden":     {refuses(403, "Forbidden", `nodes "n1" is forbidden`), 0},
		"a directory":   {says("<pre>\n<a href=\"kubelet.log\">kubelet.log</a>\n</pre>\n"), 0},
		"no journal":    {says("\nerror: journal output not available\n"), 0},
		"nothing there": {says("-- No entries --\n"), 0},
		"cut off":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			view, err := kubeletServer(t, map[string]http.HandlerFunc{"pods": says(kubeletPods), "metrics": says(kubeletMetrics), "logs/": row.log}).Kubelet(t.Context(), "n1")
			if err != nil || len(view.Gaps) > 0 || len(view.Failures) != row.want {
				t.Fatalf("%v, gaps %v, failures %+v", err, view.Gaps, view.Failures)
			}
			for _, f := range view.Failures {
				if f.Pod != "u1" || at.Sub(f.At).Abs() > time.Millisecond {
					t.Errorf("%+v, want one at %s", f, at)
				}
			}
		})
	}
}

// TestKubeletLogOfJournal: the query finds each text of a failure whole in a journal, which has each
// line by itself, searches them one by one and prints the newest first.
func TestKubeletLogOfJournal(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	var journal []string
	write := func(ago time.Duration, severity, text string) {
		at := now.Add(-ago)
		for i, line := range strings.Split(strings.ReplaceAll(severity+at.Format("0102 15:04:05.000000")+"      77 x.go:1] "+text, "UNTIL", at.Add(time.Minute).Format("2006-01-02 15:04:05.999999999 -0700 MST")), "\n") {
			journal = append(journal, at.Add(time.Duration(i)*time.Microsecond).Format("Jan _2 15:04:05.000000")+" n1 kubelet[77]: "+line)
		}
	}
	failed := func(volume, why string) string {
		return `Operation for "{volumeName:kubernetes.io/x/` + volume + ` podName:u1 nodeName:}" failed. No retries permitted until UNTIL m=+9.5 (durationBeforeRetry 1m0s). Error: ` +
			`UnmountVolume.TearDown failed for volume "` + volume + `" (UniqueName: "kubernetes.io/x/` + volume + `") pod "u1" (UID: "u1") : ` + why
	}
	write(50*time.Second, "E", failed("a", "unmount failed: exit status 32\nUnmounting arguments: /a\nOutput: umount: /a: target is busy."))
	write(40*time.Second, "I", `"SyncLoop ADD"`)
	write(30*time.Second, "E", failed("b", "no such device"))
	write(20*time.Second, "W", "cleaning up: unmount failed: exit status 32\nUnmounting arguments: /c\nOutput: umount: /c: not mounted.")
	const lost = `UnmountVolume.NewUnmounter failed for volume "d" (UniqueName: "kubernetes.io/x/d") pod "u1" (UID: "u1") : gone`
	for ago := 17 * time.Second; ago >= 15*time.Second; ago -= 100 * time.Millisecond {
		write(ago, "E", fmt.Sprintf("%q err=%q", "operationExecutor.UnmountVolume failed (controllerAttachDetachEnabled true) for volume : "+lost, lost))
	}
	write(12*time.Second, "E", `"Error syncing pod, skipping" err="mounted volumes=[kubernetes.io/x/a]: context deadline exceeded" pod="shop/web-0" podUID="u1"`)
	write(11*time.Second, "I", `"Failed to delete status for pod" pod="shop/web-0" err="admission webhook denied the request"`)
	write(11*time.Second, "I", `"Failed to update status for pod" pod="shop/web-0" err="admission webhook denied the request"`)
	write(11*time.Second, "E", `"Error syncing pod, skipping" err="network is not ready" pod="shop/web-0" podUID="u1"`)
	journal = append(journal, now.Add(-10*time.Second).Format("Jan _2 15:04:05.000000")+" n1 systemd[1]: kubelet.service: mount failed: as systemd says it")
	view, err := kubeletServer(t, map[string]http.HandlerFunc{"pods": says(kubeletPods), "metrics": says(kubeletMetrics), "logs/": func(w http.ResponseWriter, r *http.Request) {
		pattern, query := regexp.MustCompile(r.URL.Query().Get("pattern")), r.URL.Query()
		if query.Get("query") != "kubelet" || query.Get("tailLines") == "" {
			t.Errorf("asked for %v", query)
		}
		for _, line := range slices.Backward(journal) {
			if _, text, _ := strings.Cut(line, "]: "); pattern.MatchString(text) {
				fmt.Fprintln(w, line)
			}
		}
	}}).Kubelet(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range view.Failures {
		got = append(got, f.Message)
	}
	want := []string{"UnmountVolume.TearDown failed for volume \"a\" : unmount failed: exit status 32\nUnmounting arguments: /a\nOutput: umount: /a: target is busy.",
		`UnmountVolume.TearDown failed for volume "b" : no such device`, `UnmountVolume.NewUnmounter failed for volume "d" : gone`,
		"mounted volumes=[kubernetes.io/x/a]: context deadline exceeded", "admission webhook denied the request"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Each way of not getting an answer is a gap with its reason; the other half is
// read all the same.
func TestKubeletGaps(t *testing.T) {
	for name, c := range map[string]struct {
		pods   http.HandlerFunc
		reason string
		says   string
	}{
		"forbidden":   {refuses(403, "Forbidden", `nodes "n1" is forbidden`), snapshot.ReasonForbidden, "the right to get nodes/proxy"},
		"unreachable": {refuses(503, "ServiceUnavailable", "error trying to reach service: dial tcp: connection refused"), snapshot.ReasonUnavailable, "connection refused"},
		"not allowed": {refuses(400, "BadRequest", "address not allowed"), snapshot.ReasonUnavailable, "address not allowed"},
		"no kubelet": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "404 page not found", 404) },
			snapshot.ReasonUnavailable, "the kubelet of n1"},
		"not JSON": {says("<html>"), snapshot.ReasonUndecodable, "not what such a server answers"},
		"not pods": {says(`{"kind":"Status"}`), snapshot.ReasonUndecodable, `kind "Status"`},
		"cut off":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, snapshot.ReasonUnavailable, "the kubelet of n1"},
		"cut half": {says(kubeletPods[:100]), snapshot.ReasonUndecodable, "not what such a server answers"},
		"far too long": {func(w http.ResponseWriter, _ *http.Request) {
			block := []byte(strings.Repeat(" ", 1<<20))
			for range kubeletSays/len(block) + 1 {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, snapshot.ReasonTruncated, "32 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view, err := kubeletServer(t, map[string]http.HandlerFunc{"pods": c.pods, "metrics": says(kubeletMetrics)}).Kubelet(t.Context(), "n1")
			if err != nil {
				t.Fatal(err)
			}
			if len(view.Gaps) != 1 || view.Gaps[0].Kind != trace.KubeletPods || view.Gaps[0].Reason != c.reason || !strings.Contains(view.Gaps[0].Detail, c.says) {
				t.Errorf("gaps %+v, want %s with %q", view.Gaps, c.reason, c.says)
			}
			if len(view.Pods) > 0 || len(view.Samples) != 3 {
				t.Errorf("%d pods, %d samples", len(view.Pods), len(view.Samples))
			}
		})
	}
}

func TestKubeletBadMetrics(t *testing.T) {
	for _, text := range []string{"volume_manager_total_volumes{", "volume_manager_total_volumes -1\n", "volume_manager_total_volumes NaN\n",
		"volume_manager_total_volumes{a=\"b\"\n", strings.Repeat("x", metrics.MostLine+1)} {
		view, err := kubeletServer(t, map[string]http.HandlerFunc{"pods": says(kubeletPods), "metrics": says(text)}).Kubelet(t.Context(), "n1")
		if err != nil || len(view.Gaps) != 1 || view.Gaps[0].Kind != trace.KubeletMetrics || view.Gaps[0].Reason != snapshot.ReasonUndecodable {
			t.Errorf("%.40q: %v, gaps %+v", text, err, view.Gaps)
		}
	}
}

func TestKubeletInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := kubeletServer(t, map[string]http.HandlerFunc{"pods": func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}})
	if _, err := c.Kubelet(ctx, "n1"); err == nil || err.Error() != "interrupted" {
		t.Errorf("error %v", err)
	}
}

// Whatever a kubelet sends, reading it neither panics nor gives a number that no
// counter has.
func FuzzKubeletMetrics(f *testing.F) {
	for _, seed := range []string{kubeletMetrics, "", "volume_manager_total_volumes 1", "# TYPE volume_manager_total_volumes histogram\nvolume_manager_total_volumes_count 1\n",
		"volume_manager_total_volumes{plugin_name=\"\\\"\",state=\"x\"} 1e300\n", "plugin_manager_total_plugins{socket_path=\"\u202e\"} +Inf\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		samples, err := metrics.Decode(strings.NewReader(text), trace.KubeletFamilies())
		if err != nil && samples != nil {
			t.Error("samples beside an error")
		}
		for _, s := range samples {
			if !slices.Contains(trace.KubeletFamilies(), s.Family) || !(s.Value >= 0) {
				t.Errorf("sample %+v", s)
			}
		}
	})
}

// FuzzKubeletPods holds the kubelet's list against itself: an error of one line, or pods.
func FuzzKubeletPods(f *testing.F) {
	for _, seed := range []string{kubeletPods, `{"kind":"PodList","items":[null]}`, `{"kind":"PodList"}`, "[]", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pods, err := decodePods(strings.NewReader(text))
		if err != nil && pods != nil || slices.Contains(pods, nil) {
			t.Errorf("pods %v, error %v", pods, err)
		}
	})
}
