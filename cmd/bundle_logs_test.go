package cmd

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBundledLogs: --controller bundle finds the leader's log among those in a must-gather,
// and --kubelet the log of the pod's node. Where there is none, one line says so.
func TestBundledLogs(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("../testdata/snapshots/bundles/must-gather")))
	root := filepath.Join(dir, "quay-io-openshift-must-gather-sha256-0a1b2c")
	put := func(text string, segments ...string) {
		file := filepath.Join(append([]string{root}, segments...)...)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	line := func(clock, rest string) string {
		return "2026-11-20T" + clock + ".000000000Z I1120 " + clock + ".000000       1 file.go:1] " + rest + "\n"
	}
	run := func(args ...string) (int, string, string) {
		var out, errOut strings.Builder
		code := Main(args, nil, &out, &errOut)
		return code, out.String(), errOut.String()
	}
	if code, _, errOut := run("plan", "-f", dir, "--controller=bundle"); code != exitNoAnswer || !strings.Contains(errOut, "there is no log of kube-controller-manager in it") {
		t.Errorf("without a log: exit code %d, %s", code, errOut)
	}
	if code, _, errOut := run("trace", "pod/web-0", "-f", dir, "--kubelet"); code != exitNoAnswer || !strings.Contains(errOut, "there is none of node n1") {
		t.Errorf("without a kubelet's log: exit code %d, %s", code, errOut)
	}
	const volume = "kubernetes.io/csi/d^v"
	for replica, of := range map[string]string{"master-0": "master-0_7c1e2f0a-6d3b-4b8e-9f57-2a4c6e8d0b13", "master-1": "master-1_other"} {
		log := line("09:00:00", `FLAG: --v="2"`)
		log += line("09:00:01", fmt.Sprintf(`"Event occurred" object="kube-system/kube-controller-manager" kind="Lease" message="%s became leader"`, of))
		log += line("09:00:02", `"Starting attach detach controller" logger="persistentvolume-attach-detach-controller"`)
		log += line("09:59:50", `"something" volumeName="`+volume+`"`)
		put(log, "namespaces", "openshift-kube-controller-manager", "pods", "kube-controller-manager-"+replica, "kube-controller-manager", "kube-controller-manager", "logs", "current.log")
	}
	code, _, errOut := run("plan", "-f", dir, "--controller=bundle")
	if code == exitNoAnswer || !strings.Contains(errOut, "pods/kube-controller-manager-master-0/") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := fmt.Fprintln(w, `Nov 20 09:59:40.123456 n1 kubelet[1234]: E1120 09:59:40.123456    1234 nestedpendingoperations.go:348] Operation for "{volumeName:`+volume+` podName: nodeName:}" failed.`)
	must(t, err)
	must(t, w.Close())
	put(packed.String(), "nodes", "n1", "n1_logs_kubelet.gz")
	if code, out, errOut := run("trace", "pod/web-0", "-f", dir, "--kubelet"); code != exitFindings || !strings.Contains(out, "web-0") {
		t.Errorf("trace: exit code %d, %s%s", code, out, errOut)
	}
	put("Nov 20 12:59:40.123456 n1 kubelet[1234]: I1120 12:59:40.123456    1234 file.go:1] in a zone that no line shows\n", "nodes", "n1", "n1_logs_kubelet")
	must(t, os.Remove(filepath.Join(root, "nodes", "n1", "n1_logs_kubelet.gz")))
	if code, out, errOut := run("trace", "pod/web-0", "-f", dir, "--kubelet"); code != exitFindings || !strings.Contains(strings.Join(strings.Fields(out), " "), "nodes/proxy/logs could not be read (OtherTime): ") {
		t.Errorf("a log of another time: exit code %d, %s%s", code, out, errOut)
	}
	must(t, os.Remove(filepath.Join(root, "nodes", "n1", "n1_logs_kubelet")))
	failed := func(host string) string {
		return `Nov 20 09:59:40.123456 ` + host + ` kubenswrapper[1234]: E1120 09:59:40.123456    1234 nestedpendingoperations.go:348] Operation for "{volumeName:` + volume + ` podName: nodeName:}" failed.` + "\n"
	}
	put(failed("n2"), "host_service_logs", "masters", "kubelet_service.log")
	if code, _, errOut := run("trace", "pod/web-0", "-f", dir, "--kubelet"); code != exitNoAnswer || !strings.Contains(errOut, "there is none of node n1") {
		t.Errorf("other nodes' log: exit code %d, %s", code, errOut)
	}
	put(failed("n2")+failed("n1.acme.io")+failed("n1"), "host_service_logs", "workers", "kubelet_service.log")
	if code, out, errOut := run("trace", "pod/web-0", "-f", dir, "--kubelet"); code != exitFindings || !strings.Contains(out, "web-0") {
		t.Errorf("trace by the service's log: exit code %d, %s%s", code, out, errOut)
	}
	must(t, os.RemoveAll(filepath.Join(root, "host_service_logs")))
	node := func(k3s string) {
		var zipped bytes.Buffer
		w := zip.NewWriter(&zipped)
		for name, text := range map[string]string{"n1/logs/kubelet.log": "-- No entries --\n", "n1/logs/k3s-agent-service.log": k3s, "n1/logs/dmesg.log": failed("n1")} {
			f, err := w.Create(name)
			must(t, err)
			_, err = f.Write([]byte(text))
			must(t, err)
		}
		must(t, w.Close())
		put(zipped.String(), "nodes", "n1.zip")
	}
	node("-- No entries --\n")
	if code, _, errOut := run("trace", "pod/web-0", "-f", dir, "--kubelet"); code != exitNoAnswer || !strings.Contains(errOut, "there is none of node n1") {
		t.Errorf("a node's archive without a kubelet's log: exit code %d, %s", code, errOut)
	}
	node(failed("n1"))
	if code, out, errOut := run("trace", "pod/web-0", "-f", dir, "--kubelet"); code != exitFindings || !strings.Contains(out, "web-0") {
		t.Errorf("trace by a node's archive: exit code %d, %s%s", code, out, errOut)
	}
	if code, _, errOut := run("diagnose", "--controller=bundle"); code != exitNoAnswer || !strings.Contains(errOut, "goes with -f") {
		t.Errorf("without -f: exit code %d, %s", code, errOut)
	}
}

// TestBundledLeader: in a bundle without leases, the replica that said that it leads and still
// writes is taken for the leader. One that stopped writing has lost the lease, and one that never
// said so waits for it.
func TestBundledLeader(t *testing.T) {
	const first, second, third = "master-0", "master-1", "master-2"
	line := func(clock, rest string) string {
		return "2026-11-20T" + clock + ".000000000Z I1120 " + clock + ".000000       1 file.go:1] " + rest + "\n"
	}
	led := func(last string) string {
		return line("09:00:00", `FLAG: --v="2"`) + line("09:00:01", `"Event occurred" object="kube-system/kube-controller-manager" kind="Lease" message="x_1 became leader"`) +
			line("09:00:02", `"Starting attach detach controller" logger="persistentvolume-attach-detach-controller"`) + line(last, `"something" volumeName="kubernetes.io/csi/d^v"`)
	}
	waits := line("09:00:00", `FLAG: --v="2"`) + line("09:59:58", `"attempting to acquire leader lease kube-system/kube-controller-manager..."`)
	for name, tt := range map[string]struct {
		logs   map[string]string
		leases bool
		from   string
		leads  bool
		warns  string
	}{
		"one that stopped, one that leads, one that waits": {map[string]string{first: led("09:30:00"), second: led("09:59:50"), third: waits}, false, second, true, ""},
		"the lease is of another":                          {map[string]string{first: led("09:59:50")}, true, first, false, "is not of the kube-controller-manager that leads now"},
		"the leader's log is missing":                      {map[string]string{first: led("09:30:00"), third: waits}, false, first, false, "no lease shows that it leads"},
		"all wait":                                         {map[string]string{third: waits}, false, third, false, "does not show how the controller starts"},
	} {
		dir := t.TempDir()
		must(t, os.CopyFS(dir, os.DirFS("../testdata/snapshots/bundles/must-gather")))
		root := filepath.Join(dir, "quay-io-openshift-must-gather-sha256-0a1b2c")
		if !tt.leases {
			must(t, os.RemoveAll(filepath.Join(root, "namespaces", "kube-system", "coordination.k8s.io")))
		}
		for replica, log := range tt.logs {
			file := filepath.Join(root, "namespaces", "openshift-kube-controller-manager", "pods", "kube-controller-manager-"+replica, "kube-controller-manager", "kube-controller-manager", "logs", "current.log")
			must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must(t, os.WriteFile(file, []byte(log), 0o600))
		}
		var out, errOut strings.Builder
		Main([]string{"plan", "-f", dir, "--controller=bundle", "-o", "json"}, nil, &out, &errOut)
		var plan struct{ Controller *struct{ Leads bool } }
		if err := json.Unmarshal([]byte(out.String()), &plan); err != nil {
			t.Fatalf("%s: %v: %s", name, err, errOut.String())
		}
		if leads := plan.Controller != nil && plan.Controller.Leads; leads != tt.leads || !strings.Contains(errOut.String(), "pods/kube-controller-manager-"+tt.from+"/") {
			t.Errorf("%s: leads %t: %s", name, leads, errOut.String())
		}
		if warning := "warning: the controller's log "; !strings.Contains(errOut.String(), tt.warns) || tt.warns == "" && strings.Contains(errOut.String(), warning) {
			t.Errorf("%s: %s", name, errOut.String())
		}
	}
}
