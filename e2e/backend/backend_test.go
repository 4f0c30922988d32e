// Package backend_test holds what the command says of a storage system's own list
// against that list: the publish table of the driver.
package backend_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

// older is by how much the objects are made older, so that nobody waits the 5 min out in
// which an attacher may not have asked the driver again.
const older = 9 * time.Minute

func makeOlder(t *testing.T) {
	t.Helper()
	_, err := load.Age(t.Context(), cluster.EtcdURL(), older, func(load.Object) bool { return true })
	must(t, err)
}

const namespace = "backend"

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	options := controlplane.Options{Controllers: []string{controlplane.VolumeBinder}}
	os.Exit(controlplane.Main(m, options, func(c *controlplane.Cluster) { cluster = c }))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// volume makes a claim with its volume, and has the driver give it to one machine at a
// time, as storage systems do.
func volume(t *testing.T, claim string) fixture.Volume {
	t.Helper()
	v, err := fixture.ClaimVolume(t.Context(), cluster.Client(), namespace, claim, csidriver.Name, nil)
	must(t, err)
	cluster.Driver.OneAtATime(v.Handle)
	return v
}

// pod makes a pod with the name of its claim.
func pod(t *testing.T, name string) {
	t.Helper()
	_, err := fixture.CreatePod(t.Context(), cluster.Client(), fixture.Pod(namespace, name, "n1", name))
	must(t, err)
}

// list writes what ListVolumes answers now, and lets two seconds pass: a list must not be
// younger than the objects, and the API server's clock has whole seconds.
func list(t *testing.T) (path string) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+cluster.Driver.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer func() { _ = conn.Close() }()
	answer, err := csi.NewControllerClient(conn).ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	must(t, err)
	text, err := protojson.Marshal(answer)
	must(t, err)
	path = filepath.Join(t.TempDir(), "volumes.json")
	must(t, os.WriteFile(path, text, 0o600))
	time.Sleep(2 * time.Second)
	return path
}

func run(t *testing.T, kubeconfig string, args ...string) command.Result {
	t.Helper()
	r, err := command.Run(t.Context(), command.Binary, kubeconfig, args...)
	must(t, err)
	t.Logf("%s\nexit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	return r
}

// found is what the checks that ask the storage system are certain of: code and pod.
func found(t *testing.T, kubeconfig string, args ...string) (names []string, all []finding.Finding) {
	t.Helper()
	r := run(t, kubeconfig, append([]string{"diagnose", "-o", "json", "--check", "VD308,VD404,VD610"}, args...)...)
	var report finding.Report
	must(t, json.Unmarshal([]byte(r.Stdout), &report))
	for _, f := range report.Findings {
		if f.Confidence == finding.Suspected {
			continue
		}
		all = append(all, f)
		names = append(names, fmt.Sprintf("%s %s", f.Code, f.Subject.Name))
	}
	slices.Sort(names)
	return names, all
}

// TestTenDisagreements: the publish table and the cluster differ in ten places. Each is
// found with the table, nothing else is, and none is without it.
func TestTenDisagreements(t *testing.T) {
	client := cluster.Client()
	must(t, fixture.Storage(t.Context(), client))
	must(t, fixture.Namespace(t.Context(), client, namespace))
	for _, node := range []string{"n1", "n2"} {
		user, err := cluster.ClientFor(controlplane.UserKubelet)
		must(t, err)
		k, err := kubelet.Start(t.Context(), user, kubelet.Options{Node: node, Machine: "machine-" + node})
		must(t, err)
		t.Cleanup(k.Stop)
	}

	// Eight pods run; nothing happens to two of them.
	volumes := map[string]fixture.Volume{}
	for i := range 8 {
		name := fmt.Sprintf("runs-%d", i)
		volumes[name] = volume(t, name)
		pod(t, name)
	}
	for name := range volumes {
		must(t, fixture.Await(t.Context(), fixture.PodRunning(client, namespace, name)))
		must(t, fixture.Await(t.Context(), fixture.Attached(client, "n1", volumes[name])))
	}
	makeOlder(t)
	if names, _ := found(t, cluster.Kubeconfig, "--backend", list(t)); len(names) > 0 {
		t.Fatalf("the table and the cluster agree, and there is %v", names)
	}

	// Six volumes are detached under their pods, and four are where the cluster does not
	// know of them when a pod needs them. One pod waits for another reason.
	var want []string
	for i := range 6 {
		name := fmt.Sprintf("runs-%d", i)
		cluster.Driver.DetachByHand(volumes[name].Handle, "machine-n1")
		want = append(want, "VD308 "+name)
	}
	for i, holder := range []string{"machine-n2", "machine-n2", "stranger-1", "stranger-2"} {
		name := fmt.Sprintf("waits-%d", i)
		volumes[name] = volume(t, name)
		cluster.Driver.AttachByHand(volumes[name].Handle, holder)
		pod(t, name)
		want = append(want, "VD404 "+name)
	}
	volumes["refused"] = volume(t, "refused")
	cluster.Driver.AttachByHand(volumes["refused"].Handle, "machine-n2")
	cluster.Driver.DetachByHand(volumes["refused"].Handle, "machine-n2") // the table knows it, and has it nowhere
	cluster.Driver.FailPublish(status.Error(codes.Internal, "the storage system is busy"), volumes["refused"].Handle)
	pod(t, "refused")
	for _, name := range []string{"waits-0", "waits-1", "waits-2", "waits-3", "refused"} {
		must(t, fixture.Await(t.Context(), fixture.PodWaiting(client, namespace, name)))
		must(t, fixture.Await(t.Context(), fixture.Attachment(client, "n1", volumes[name], "the attach of "+name+" fails",
			func(s fixture.AttachmentState) bool {
				return s.Attachment != nil && s.Attachment.Status.AttachError != nil
			})))
	}

	makeOlder(t)
	if names, _ := found(t, cluster.Kubeconfig); len(names) > 0 {
		t.Errorf("without the table there is %v", names)
	}
	table := list(t)
	names, all := found(t, cluster.Kubeconfig, "--backend", table)
	if !slices.Equal(names, want) {
		t.Errorf("with the table there is %v, want %v", names, want)
	}
	for _, f := range all {
		if !slices.ContainsFunc(f.Evidence, func(e finding.Evidence) bool { return strings.HasPrefix(e.Object, "the storage system's list of ") }) {
			t.Errorf("%s of %s does not have the table among its evidence: %+v", f.Code, f.Subject.Name, f.Evidence)
		}
	}

	// The guards. A repair that was reviewed while the table had the volume on n2 is
	// refused once it does not.
	repair := func(name, backend string, args ...string) command.Result {
		return run(t, cluster.Kubeconfig, append([]string{"diagnose", "pod/" + name, "-n", namespace, "--check", "VD404", "--for", "1s", "--backend", backend,
			"--journal", filepath.Join(t.TempDir(), "journal"), "--allow", "unpublish-orphan", "--settle", "10s", "--apply", "--yes"}, args...)...)
	}
	// The attacher here pauses for at most 5 s.
	const refusedTwice = "20s"
	if r := repair("waits-2", table); r.Code == 0 {
		t.Errorf("a repair where a machine that is no node has the volume: exit code %d", r.Code)
	}
	reviewed := filepath.Join(t.TempDir(), "repairs.yaml")
	if r := repair("waits-1", table, "--save-repairs", reviewed, "--for", refusedTwice); r.Code > 1 {
		t.Fatalf("the repair was not saved: exit code %d", r.Code)
	}
	cluster.Driver.FailPublish(status.Error(codes.FailedPrecondition, "the volume is already attached to node n2"), volumes["waits-1"].Handle)
	cluster.Driver.DetachByHand(volumes["waits-1"].Handle, "machine-n2")
	before := attachments(t)
	if r := repair("waits-1", list(t), "--approved", reviewed); r.Code != 3 {
		t.Errorf("a repair that the table contradicts: exit code %d, want 3", r.Code)
	}
	if after := attachments(t); !slices.Equal(before, after) {
		t.Errorf("it wrote: VolumeAttachments %v, and then %v", before, after)
	}
	// And the one that it confirms is made.
	if r := repair("waits-0", list(t), "--for", refusedTwice); r.Code != 0 {
		t.Errorf("a repair that the table confirms: exit code %d", r.Code)
	}
	if on := cluster.Driver.PublishedOn(volumes["waits-0"].Handle); slices.Contains(on, "machine-n2") {
		t.Errorf("the volume is still on %v", on)
	}
	if v := cluster.Driver.Violations(); len(v) > 0 {
		t.Errorf("on two machines at a time: %v", v)
	}
}

// attachments are the names of all, with their UIDs.
func attachments(t *testing.T) (names []string) {
	t.Helper()
	list, err := cluster.Client().StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, va := range list.Items {
		names = append(names, va.Name+" "+string(va.UID))
	}
	return names
}
