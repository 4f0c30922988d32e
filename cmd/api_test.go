package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
)

// api is an API server for the command: it lists the objects of a case of the corpus and
// patches nodes. Its leases are renewed as long as it runs.
type api struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	objects map[string][]*unstructured.Unstructured // by the path of their list
	version int
	stored  int
	// now is the time, ahead how far the Date of the answers is ahead of it, and renewals
	// how often each lease was renewed.
	now      time.Time
	ahead    time.Duration
	renewals int
	// looking is called before each list is answered, and writing before each patch is
	// stored.
	looking, writing func()
	// any makes the API server accept every write, and not only patches of nodes.
	any bool
}

// listPaths are the paths of all kinds that are read.
var listPaths = map[string]string{
	"Node": "/api/v1/nodes", "Pod": "/api/v1/pods", "Event": "/api/v1/events",
	"PersistentVolume": "/api/v1/persistentvolumes", "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
	"VolumeAttachment": "/apis/storage.k8s.io/v1/volumeattachments", "CSINode": "/apis/storage.k8s.io/v1/csinodes",
	"CSIDriver": "/apis/storage.k8s.io/v1/csidrivers", "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
	"Lease": "/apis/coordination.k8s.io/v1/leases", "Deployment": "/apis/apps/v1/deployments",
}

// newAPI serves a case of the corpus, and returns the path of a kubeconfig for it.
func newAPI(t testing.TB, name string) (a *api, kubeconfig string) {
	t.Helper()
	c, err := testcases.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	a = &api{t: t, objects: map[string][]*unstructured.Unstructured{}, version: 100, writing: func() {}, looking: func() {},
		now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
	for _, document := range strings.Split(string(c.Cluster), "\n---\n")[1:] {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetResourceVersion("100")
		path := listPaths[object.GetKind()]
		a.objects[path] = append(a.objects[path], object)
	}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}`, a.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return a, kubeconfig
}

func (a *api) add(o *unstructured.Unstructured) {
	a.mu.Lock()
	defer a.mu.Unlock()
	path := listPaths[o.GetKind()]
	a.objects[path] = append(a.objects[path], o)
}

// clock is the time of the API server.
func (a *api) clock() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// sleepPath is where a command says for how long it would have waited; the clock then moves on.
const sleepPath = "/sleep/"

// tellTimeTo names the environment variable with the address of the API server that a command
// tells its waits.
const tellTimeTo = "TELL_TIME_TO"

// tellTime returns a wait that takes no time on this machine, and all of it on the API server.
func tellTime(address string) func(context.Context, time.Duration) error {
	return func(_ context.Context, wait time.Duration) error {
		answer, err := http.Post(address+sleepPath+wait.String(), "", nil)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
}

// inItsTime is the command, whose waits pass on the API server alone.
func (a *api) inItsTime(dir string, args ...string) *exec.Cmd {
	command := exec.Command("told-the-time", args...)
	command.Dir, command.Env = dir, append(os.Environ(), tellTimeTo+"="+a.URL)
	return command
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", a.clock().Add(a.ahead).Format(http.TimeFormat))
	node, isNode := strings.CutPrefix(strings.TrimSuffix(r.URL.Path, "/status"), listPaths["Node"]+"/")
	slept, sleeps := strings.CutPrefix(r.URL.Path, sleepPath)
	switch {
	case sleeps:
		wait, err := time.ParseDuration(slept)
		if err != nil {
			a.t.Error(err)
		}
		a.mu.Lock()
		a.now = a.now.Add(wait)
		a.mu.Unlock()
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
	case r.Method == http.MethodPatch && isNode:
		a.patch(w, r, node)
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events"):
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"kind":"Event","apiVersion":"v1","metadata":{"name":"e","namespace":"default"}}`)
	case r.Method != http.MethodGet && a.any:
		a.write(w, r)
	case r.Method == http.MethodGet:
		a.mu.Lock()
		looking := a.looking
		a.mu.Unlock()
		looking()
		a.list(w, r.URL.Path)
	default:
		a.t.Errorf("nobody serves %s %s", r.Method, r.URL.Path)
	}
}

func (a *api) list(w http.ResponseWriter, path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	namespace := ""
	if group, in, found := strings.Cut(path, "/namespaces/"); found {
		var resource string
		namespace, resource, _ = strings.Cut(in, "/")
		path = group + "/" + resource
	}
	for kind, of := range listPaths {
		if of != path {
			continue
		}
		objects := slices.DeleteFunc(slices.Clone(a.objects[path]), func(o *unstructured.Unstructured) bool {
			return namespace != "" && o.GetNamespace() != namespace
		})
		if kind == "Lease" {
			objects = a.renew(objects)
		}
		group := strings.TrimPrefix(strings.TrimPrefix(path[:strings.LastIndex(path, "/")], "/apis/"), "/api/")
		list := map[string]any{"kind": kind + "List", "apiVersion": group, "metadata": map[string]any{"resourceVersion": "1"}, "items": objects}
		text, err := json.Marshal(list)
		if err != nil {
			a.t.Error(err)
		}
		_, _ = w.Write(text) // the client may have ended meanwhile
		return
	}
	if a.any { // this server does not have the API
		w.WriteHeader(http.StatusNotFound)
		return
	}
	a.t.Errorf("nobody lists %s", path)
}

// renew renews the leases of the living: those that were renewed recently, and those of the
// kubelets of Ready Nodes.
func (a *api) renew(leases []*unstructured.Unstructured) []*unstructured.Unstructured {
	a.renewals++
	at := a.now.Add(-time.Second + time.Duration(a.renewals)*time.Microsecond).Format("2006-01-02T15:04:05.000000Z07:00")
	has := map[string]bool{}
	for i, lease := range leases {
		has[lease.GetNamespace()+"/"+lease.GetName()] = true
		last, found, err := unstructured.NestedString(lease.Object, "spec", "renewTime")
		renewed, parsed := time.Parse(time.RFC3339Nano, last)
		if err == nil && found && parsed == nil && renewed.After(a.now.Add(-time.Minute)) && !renewed.After(a.now) {
			leases[i] = lease.DeepCopy()
			_ = unstructured.SetNestedField(leases[i].Object, at, "spec", "renewTime") // spec is there
		}
	}
	for _, node := range a.objects[listPaths["Node"]] {
		conditions, _, _ := unstructured.NestedSlice(node.Object, "status", "conditions")
		ready := slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == "Ready" && condition["status"] == "True"
		})
		if ready && !has["kube-node-lease/"+node.GetName()] {
			leases = append(leases, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": map[string]any{"renewTime": at, "holderIdentity": node.GetName()},
				"metadata": map[string]any{"namespace": "kube-node-lease", "name": node.GetName(), "resourceVersion": "100"},
			}})
		}
	}
	return leases
}

func (a *api) patch(w http.ResponseWriter, r *http.Request, name string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
	}
	dryRun := r.URL.Query().Get("dryRun") != ""
	if !dryRun {
		a.mu.Lock()
		writing := a.writing
		a.mu.Unlock()
		writing()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, node := range a.objects[listPaths["Node"]] {
		if node.GetName() != name {
			continue
		}
		before, err := node.MarshalJSON()
		if err != nil {
			a.t.Error(err)
		}
		patch, err := jsonpatch.DecodePatch(body)
		if err != nil {
			a.t.Error(err)
		}
		after, err := patch.Apply(before)
		if err != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"a test failed"}`)
			return
		}
		patched := &unstructured.Unstructured{}
		if err := patched.UnmarshalJSON(after); err != nil {
			a.t.Error(err)
		}
		if !dryRun {
			a.version++
			a.stored++
			patched.SetResourceVersion(fmt.Sprint(a.version))
			a.objects[listPaths["Node"]][i] = patched
		}
		if err := json.NewEncoder(w).Encode(patched); err != nil {
			a.t.Error(err)
		}
		return
	}
	w.WriteHeader(http.StatusNotFound)
}

// write answers any write as if it were made, and counts those that are not dry runs.
func (a *api) write(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.URL.Query().Get("dryRun") == "" && !strings.Contains(string(body), `"dryRun"`) {
		a.stored++
	}
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
		return
	}
	path := strings.Split(strings.TrimSuffix(r.URL.Path, "/status"), "/")
	for _, objects := range a.objects {
		for _, o := range objects {
			if o.GetName() != path[len(path)-1] || !strings.HasSuffix(listPaths[o.GetKind()], "/"+path[len(path)-2]) {
				continue
			}
			after, err := o.MarshalJSON()
			if err != nil {
				a.t.Error(err)
			}
			if patch, notOne := jsonpatch.DecodePatch(body); r.Method == http.MethodPatch && notOne == nil {
				after, err = patch.Apply(after)
			} else if r.Method == http.MethodPatch {
				after, err = jsonpatch.MergePatch(after, body)
			}
			if err != nil {
				w.WriteHeader(http.StatusUnprocessableEntity)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"a test failed"}`)
				return
			}
			_, _ = w.Write(after)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

// onLook may be called while requests are served.
func (a *api) onLook(looking func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looking = looking
}

// onWrite may be called while requests are served.
func (a *api) onWrite(writing func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writing = writing
}

func (a *api) writes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stored
}
