package serve_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/recording"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

var soak = flag.Duration("soak", time.Minute, "how long pods come and go under TestSoak")

const (
	// soakRests is the pause between two scrapes.
	soakRests = time.Second
	// soakPod is what a pod may take to come and go, the restarts included.
	soakPod = 20 * time.Second
	// soakGrowth is by how much the last quarter of a soak may hold more than the
	// second: events are kept for an hour, and grow.
	soakGrowth = 1.25
)

// TestSoak: pods come with their volumes and go, the API server restarts twice, and serve
// finds nothing and does not grow.
func TestSoak(t *testing.T) {
	world, err := scenario.Healthy(t.Context(), cluster, scenario.Options{Namespace: "soak", Node: "soak-n1"})
	must(t, err)
	t.Cleanup(func() { must(t, world.Close(context.WithoutCancel(t.Context()))) })
	p := start(t, cluster.Kubeconfig, "--leader-elect=false", "--events")
	p.until(t, time.Minute, "it has looked", func(m scrape) bool { return m.count("volume_doctor_last_look_timestamp_seconds") == 1 })

	recorded := recording.Of(t, p.address, soakRests)
	began := time.Now()
	var most [4]float64
	restarts, pods, scrapes := 0, 0, 0
	looks := func() {
		m := p.scrape(t)
		scrapes++
		if found := m.series(since); len(found) > 0 {
			t.Errorf("after %s it finds %v", time.Since(began).Round(time.Second), found)
		}
		quarter := min(3, int(4*time.Since(began)/(*soak)))
		most[quarter] = max(most[quarter], m["process_resident_memory_bytes"])
		time.Sleep(soakRests)
	}
	client := cluster.Client()
	for ; time.Since(began) < *soak || restarts < 2; pods++ {
		if time.Since(began) > time.Duration(restarts+1)*(*soak)/3 {
			restarts++
			cluster.StopAPIServer()
			p.until(t, time.Minute, "the gaps", func(m scrape) bool { return m.count("volume_doctor_gaps") > 0 })
			must(t, cluster.ResumeAPIServer(t.Context()))
			// One that was there before may see the next pod before its volume, because it
			// lists each kind again at a time of its own, and then not look for 3 minutes
			// (DesiredStateOfWorldPopulatorListPodsRetryDuration, 1.36). The attacher's lists
			// are as late.
			must(t, cluster.RestartController(t.Context()))
			cluster.KillAttacher()
			must(t, cluster.StartAttacher(t.Context()))
			p.until(t, 2*time.Minute, "no gap is left", func(m scrape) bool { return m.count("volume_doctor_gaps") == 0 })
		}
		v, err := fixture.BoundVolume(t.Context(), client, world.Namespace, fmt.Sprintf("come-%d", pods), corev1.ReadWriteOnce)
		must(t, err)
		_, err = fixture.CreatePod(t.Context(), client, fixture.Pod(world.Namespace, v.Claim, world.Node, v.Claim))
		must(t, err)
		looks()
		must(t, fixture.Await(t.Context(), fixture.PodRunning(client, world.Namespace, v.Claim)))
		looks()
		must(t, fixture.DeletePod(t.Context(), client, world.Namespace, v.Claim))
		must(t, fixture.Await(t.Context(), fixture.PodGone(client, world.Namespace, v.Claim)))
		looks()
	}
	m := p.scrape(t)
	t.Logf("%s: %d pods, %d scrapes, %d restarts of the API server; at most %.1f, %.1f, %.1f and %.1f MB in the quarters; %v looks took %.2f s together; %.1f s of CPU",
		time.Since(began).Round(time.Second), pods, scrapes, restarts, most[0]/1e6, most[1]/1e6, most[2]/1e6, most[3]/1e6,
		m["volume_doctor_look_duration_seconds_count"], m["volume_doctor_look_duration_seconds_sum"], m["process_cpu_seconds_total"])
	if restarts != 2 || pods < int(*soak/soakPod) {
		t.Errorf("%d restarts and %d pods", restarts, pods)
	}
	if most[3] > soakGrowth*most[1] {
		t.Errorf("it grew from %.1f to %.1f MB", most[1]/1e6, most[3]/1e6)
	}
	silent(t, recorded)
	if code := p.end(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}

// silent: no alert fires, and none about a finding begins to. While the API server is away
// the one about gaps does.
func silent(t *testing.T, recorded *recording.Recording) {
	t.Helper()
	alerts, _ := recorded.Alerts(t)
	for _, a := range alerts {
		if a.Firing != nil || a.Name != "VolumeDoctorGaps" {
			t.Errorf("an alert: %+v", a)
		}
	}
}
