package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

// patience is how long a single command may take.
const patience = 10 * time.Minute

// lists are those that diagnose reads of a cluster in which nothing waits.
var lists = []string{
	"/apis/storage.k8s.io/v1/volumeattachments", "/api/v1/nodes", "/apis/storage.k8s.io/v1/csinodes", "/apis/storage.k8s.io/v1/csidrivers",
	"/api/v1/persistentvolumes", "/api/v1/persistentvolumeclaims", "/apis/coordination.k8s.io/v1/leases", "/api/v1/events", "/api/v1/pods",
}

// took is what one command took.
type took struct {
	wall, cpu time.Duration
	memory    int64 // peak, in bytes
	requests  int64
	bytes     int64
	// missing is why nothing was measured, if it was not.
	missing string
}

// kubectlMost is the largest number of pods that kubectl is asked to list:
// it holds it several times over and takes 125 KB a pod, 19 GB of the largest.
const kubectlMost = 100_000

// roundsOfLargest is how many times as often the largest is measured: its API server
// collects garbage for seconds, now in one command's time and now in another's.
const roundsOfLargest = 3

// result is what was measured at one size; of each, the median by wall time.
type result struct {
	size                                      load.Size
	raw, ours, pod, kubectl, snapshot, reread took
	drifts                                    int
	// busy is the machine's load average before the control plane was started.
	busy string
	file int64
	// files are of other tools' files.
	files []fileTook
}

// fileTook is what `diagnose -f` took of a file of another tool.
type fileTook struct {
	took
	what string
	size int64 // unpacked
}

func measure(ctx context.Context, size load.Size, rounds int) (result, error) {
	r := result{size: size, busy: busy()}
	dir, err := command.Build()
	if err != nil {
		return r, err
	}
	l, err := start(ctx, size)
	if err != nil {
		return r, err
	}
	defer l.Stop()
	temp, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return r, err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	doctor, kubectl, file := filepath.Join(dir, command.Binary), filepath.Join(dir, "kubectl"), filepath.Join(temp, "snapshot.yaml.gz")
	pod := fmt.Sprintf("pod/%s", load.VolumePod(0))
	all := []string{kubectl, "get", "volumeattachments,pv,nodes,pods,pvc", "-A", "-o", "json"}

	var raw, ours, one, get, snap, again []took
	if size.Pods > kubectlMost {
		get = []took{{missing: "not run: it takes more memory than there is"}}
		rounds *= roundsOfLargest
	}
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "%d pods, round %d\n", size.Pods, round+1)
		if err := l.heartbeat(ctx); err != nil {
			return r, err
		}
		t, err := l.transfer(ctx)
		if err != nil {
			return r, err
		}
		raw = append(raw, t)
		var report bytes.Buffer
		if t, err = execute(ctx, l.Kubeconfig, &report, doctor, "diagnose", "-o", "json"); err != nil {
			return r, err
		}
		ours = append(ours, t)
		if err := l.check(report.Bytes()); err != nil {
			return r, err
		}
		if t, err = execute(ctx, l.Kubeconfig, io.Discard, doctor, "diagnose", pod, "-n", load.Namespace(0)); err != nil {
			return r, err
		}
		one = append(one, t)
		if len(get) == 0 || get[0].missing == "" {
			if t, err = execute(ctx, l.Kubeconfig, io.Discard, all...); err != nil {
				return r, err
			}
			get = append(get, t)
		}
	}
	if err := l.heartbeat(ctx); err != nil {
		return r, err
	}
	t, err := execute(ctx, l.Kubeconfig, io.Discard, doctor, "snapshot", file)
	if err != nil {
		return r, err
	}
	snap = append(snap, t)
	var report bytes.Buffer
	if t, err = execute(ctx, "", &report, doctor, "diagnose", "-f", file, "-o", "json"); err != nil {
		return r, err
	}
	again = append(again, t)
	if err := l.check(report.Bytes()); err != nil {
		return r, fmt.Errorf("the snapshot: %w", err)
	}
	if info, err := os.Stat(file); err == nil {
		r.file = info.Size()
	}
	r.raw, r.ours, r.pod, r.kubectl, r.snapshot, r.reread = median(raw), median(ours), median(one), median(get), median(snap), median(again)
	r.drifts = len(l.load.Drifts())
	if r.files, err = l.otherFiles(ctx, temp, doctor); err != nil {
		return r, err
	}
	return r, l.count(ctx, temp, &r, []string{doctor, "diagnose"}, []string{doctor, "diagnose", pod, "-n", load.Namespace(0)}, all)
}

// otherFiles measures files of the same cluster as other tools write them: of the
// largest a must-gather, of the one before what kubectl prints.
func (l *loaded) otherFiles(ctx context.Context, dir, doctor string) ([]fileTook, error) {
	c := l.load
	c.Now = time.Now()
	kubectl := func(format string) func(io.Writer) error {
		return func(w io.Writer) error { return writeKubectl(w, c, format) }
	}
	var gathered int64
	var list []fileTook
	for _, f := range []struct {
		pods       int
		name, what string
		write      func(io.Writer) error
	}{
		{150_000, "must-gather.tar.gz", mustGather, func(w io.Writer) (err error) {
			gathered, err = writeMustGather(w, c)
			return err
		}},
		{30_000, "kubectl.yaml", kubectlYAML, kubectl("yaml")},
		{30_000, "kubectl.json", kubectlJSON, kubectl("json")},
	} {
		if f.pods != c.Size.Pods {
			continue
		}
		name := filepath.Join(dir, f.name)
		if err := create(name, f.write); err != nil {
			return nil, err
		}
		size := gathered
		if info, err := os.Stat(name); err == nil && size == 0 {
			size = info.Size()
		}
		var report bytes.Buffer
		t, err := execute(ctx, "", &report, doctor, "diagnose", "-f", name, "-o", "json")
		if err != nil {
			return nil, err
		}
		if err := l.check(report.Bytes()); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		list = append(list, fileTook{t, f.what, size})
	}
	return list, nil
}

// The files of other tools.
const (
	mustGather  = "`diagnose -f` of a must-gather"
	kubectlYAML = "`diagnose -f` of what `kubectl get -o yaml` prints"
	kubectlJSON = "`diagnose -f` of what `kubectl get -o json` prints"
)

// count runs the commands once more with a Counter before the API server.
func (l *loaded) count(ctx context.Context, dir string, r *result, ours, pod, get []string) error {
	counter, err := load.NewCounter(l.RESTConfig())
	if err != nil {
		return err
	}
	defer counter.Close()
	kubeconfig := filepath.Join(dir, "counted")
	if err := counter.Kubeconfig(l.Kubeconfig, kubeconfig); err != nil {
		return err
	}
	for _, c := range []struct {
		into *took
		args []string
	}{{&r.ours, ours}, {&r.pod, pod}, {&r.kubectl, get}} {
		if c.into.missing != "" {
			continue
		}
		if _, err := execute(ctx, kubeconfig, io.Discard, c.args...); err != nil {
			return err
		}
		c.into.requests, c.into.bytes = counter.Count()
	}
	return nil
}

// check compares a report with what was broken.
func (l *loaded) check(text []byte) error {
	var report finding.Report
	if err := json.Unmarshal(text, &report); err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	wrong := load.Compare(l.load.Drifts(), report.Findings)
	if !report.Complete || len(wrong) > 0 {
		return fmt.Errorf("the report: gaps %v; %s", report.Gaps, strings.Join(wrong, "; "))
	}
	return nil
}

// transfer takes the lists over the wire, one after the other, and throws them away.
func (l *loaded) transfer(ctx context.Context) (took, error) {
	var sum took
	for _, path := range lists {
		t, err := l.curl(ctx, path)
		if err != nil {
			return took{}, err
		}
		sum = sum.and(t)
		sum.wall += t.wall
	}
	return sum, nil
}

// and adds up what two commands took but for the time, which depends on whether
// they ran side by side.
func (t took) and(other took) took {
	return took{t.wall, t.cpu + other.cpu, max(t.memory, other.memory), t.requests + other.requests, t.bytes + other.bytes, ""}
}

func (l *loaded) curl(ctx context.Context, path string) (took, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig)
	if err != nil {
		return took{}, err
	}
	var out bytes.Buffer
	t, err := execute(ctx, "", &out, "curl", "-s", "-k", "-f", "-o", os.DevNull, "-w", "%{size_download}",
		"-H", "Accept: application/vnd.kubernetes.protobuf", "-H", "Authorization: Bearer "+config.BearerToken, config.Host+path)
	if err != nil {
		return took{}, err
	}
	t.requests = 1
	if _, err := fmt.Sscan(out.String(), &t.bytes); err != nil {
		return took{}, fmt.Errorf("curl %s: %w", path, err)
	}
	return t, nil
}

// busy is the load average of the last minute.
func busy() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "not known"
	}
	return strings.Fields(string(text))[0]
}

func median(runs []took) took {
	slices.SortFunc(runs, func(a, b took) int { return int(a.wall - b.wall) })
	return runs[len(runs)/2]
}
