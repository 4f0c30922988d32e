package cluster

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/fields"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// reduced is the object as a reading gives it in which nobody asks about it.
func reduced[T any, P interface {
	*T
	object
	marshaler
}](t *testing.T, kind snapshot.Kind, o P) P {
	t.Helper()
	raw, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	pod, isPod := any(o).(*corev1.Pod)
	if isPod {
		var ok bool
		if pod, ok = peekAt[corev1.Pod](podPeek)(raw); !ok {
			t.Fatal("could not be peeked at")
		}
	}
	raw, ok := usedFields[kind].Of(nil, raw, pod)
	if !ok {
		t.Fatal("could not be reduced")
	}
	less := P(new(T))
	if err := less.Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	trim.Object(less)
	return less
}

// TestReduced: of every cluster of the corpus, the findings, the repairs and the
// plan are the same whether its objects were read in full or reduced.
func TestReduced(t *testing.T) {
	long.Test(t)
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	less, all := 0, 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		o := s.Objects
		o.Pods, o.Nodes, o.Claims, o.Volumes = nil, nil, nil, nil
		for _, pod := range s.Pods {
			furnish(pod)
			o.Pods = append(o.Pods, reduced(t, snapshot.Pods, pod))
			less, all = less+o.Pods[len(o.Pods)-1].Size(), all+pod.Size()
		}
		for _, node := range s.Nodes {
			o.Nodes = append(o.Nodes, reduced(t, snapshot.Nodes, node))
		}
		for _, claim := range s.Claims {
			o.Claims = append(o.Claims, reduced(t, snapshot.Claims, claim))
		}
		for _, pv := range s.Volumes {
			o.Volumes = append(o.Volumes, reduced(t, snapshot.Volumes, pv))
		}
		fewer := snapshot.New(s.TakenAt, s.Source, o, s.Gaps)
		fewer.Backends = s.Backends
		if diff := cmp.Diff(told(t, s, c.Settings), told(t, fewer, c.Settings)); diff != "" {
			t.Errorf("%s:\n%s", c.Name, diff)
		}
	}
	if less*10 > all*8 {
		t.Errorf("%d of %d bytes are left: what is left out?", less, all)
	}
}

// furnish gives a pod what most have, and what nobody here looks at.
func furnish(pod *corev1.Pod) {
	token := corev1.Volume{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}
	pod.Spec.Volumes = append([]corev1.Volume{token}, pod.Spec.Volumes...)
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			containers[i].VolumeMounts = append(containers[i].VolumeMounts, corev1.VolumeMount{Name: token.Name, MountPath: "/var/run/secrets"})
		}
	}
	for _, condition := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers} {
		if !reconcile.PodTerminated(pod) { // of one that has ended, its age would tell
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue})
		}
	}
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].ContainerID = "containerd://0123456789abcdef"
	}
	pod.Spec.ServiceAccountName, pod.Spec.SchedulerName, pod.Spec.DNSPolicy = "default", "default-scheduler", corev1.DNSClusterFirst
}

// told is all that is said of a cluster without naming a pod.
func told(t *testing.T, s *snapshot.Snapshot, settings reconcile.Options) string {
	view := repair.Look(s, diagnose.Options{Reconcile: settings}, repair.Consent{})
	repairs := repair.Propose(view)
	return asJSON(t, view.Report) + asJSON(t, repairs) + asJSON(t, view.Plan)
}

// TestUsedFields looks, in all code that is handed the objects, for fields of theirs
// that are read and would be left out.
func TestUsedFields(t *testing.T) {
	long.Test(t)
	read := fieldsRead(t, "./diagnose/...", "./reconcile", "./repair", "./output", "./cmd")
	if len(read["k8s.io/api/core/v1.Pod"]) < 3 || len(read["k8s.io/api/core/v1.ContainerStatus"]) < 4 {
		t.Fatalf("the code reads no more of pods than %v?", read)
	}
	for kind, object := range map[snapshot.Kind]struct {
		reflect.Type
		// others are fields of types that stand in other kinds too, and that are
		// read of those alone.
		others []string
	}{
		snapshot.Pods:    {reflect.TypeFor[corev1.Pod](), []string{"ManagedFields"}},
		snapshot.Nodes:   {reflect.TypeFor[corev1.Node](), nil},
		snapshot.Claims:  {reflect.TypeFor[corev1.PersistentVolumeClaim](), []string{"ManagedFields", "Labels"}},
		snapshot.Volumes: {reflect.TypeFor[corev1.PersistentVolume](), []string{"ManagedFields"}},
	} {
		left := map[string][]string{}
		collect(left, object.Type, usedFields[kind])
		for name, fields := range left {
			for _, field := range slices.Sorted(maps.Keys(read[name])) {
				if !slices.Contains(fields, field) && !slices.Contains(object.others, field) {
					t.Errorf("%s reads %s of %s, which usedFields leaves out of %s", read[name][field], field, name, kind)
				}
			}
		}
	}
}

// collect finds, of each type of which not all belongs to the part of t, the
// fields that do, wherever it stands.
func collect(left map[string][]string, t reflect.Type, p *fields.Part) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if p.Fields == nil { // all of it
		return
	}
	name := t.PkgPath() + "." + t.Name()
	var taken []string
	for f := range t.Fields() {
		listed, inner := false, (*fields.Part)(nil)
		if tag := strings.Split(f.Tag.Get("protobuf"), ","); len(tag) > 1 { // TypeMeta has none, and is never sent
			number, err := strconv.Atoi(tag[1])
			if err != nil {
				panic(err)
			}
			inner = p.Listed(protowire.Number(number))
			listed = inner != nil
		}
		if listed && (inner.Fields != nil || inner.Wants != nil) {
			collect(left, f.Type, inner)
		} else if listed == p.Exclude && f.Name != "TypeMeta" {
			continue
		}
		taken = append(taken, f.Name)
	}
	if before, ok := left[name]; ok { // what one of two places lacks counts
		taken = slices.DeleteFunc(taken, func(f string) bool { return !slices.Contains(before, f) })
	}
	left[name] = taken
}

// fieldsRead are, by type, the fields of structs that the packages' code selects,
// with a file that does.
func fieldsRead(t *testing.T, packages ...string) map[string]map[string]string {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export,DepOnly,Dir,GoFiles"}, packages...)...)
	list.Dir, list.Stderr = "..", os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	type listed struct {
		ImportPath, Export, Dir string
		DepOnly                 bool
		GoFiles                 []string
	}
	exports := map[string]string{}
	var asked []listed
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			asked = append(asked, p)
		}
	}
	files := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	read := map[string]map[string]string{}
	for _, p := range asked {
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
		if _, err := config.Check(p.ImportPath, files, parsed, info); err != nil {
			t.Fatal(err)
		}
		for expression, selection := range info.Selections {
			selected(selection, func(name, field string) {
				if read[name] == nil {
					read[name] = map[string]string{}
				}
				read[name][field] = filepath.Base(files.Position(expression.Pos()).Filename)
			})
		}
	}
	return read
}

// selected tells of each struct on the way of a selection, and of its field.
func selected(s *types.Selection, found func(name, field string)) {
	at := s.Recv()
	for i, index := range s.Index() {
		if pointer, ok := at.Underlying().(*types.Pointer); ok {
			at = pointer.Elem()
		}
		message, ok := at.Underlying().(*types.Struct)
		if !ok || i == len(s.Index())-1 && s.Kind() != types.FieldVal {
			return
		}
		found(types.TypeString(at, (*types.Package).Path), message.Field(index).Name())
		at = message.Field(index).Type()
	}
}
