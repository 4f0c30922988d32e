package snapshot

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

var updateKept = flag.Bool("update-kept", false, "rewrite testdata/kept-fields.txt; read the difference, as each line is a text that leaves the cluster")

const keptFields = "testdata/kept-fields.txt"

// planter gives every string field below a value a text of its own.
type planter struct {
	text  func(marker string) string
	paths map[string]string // by marker
}

func (p *planter) plant(v reflect.Value, path string, above []reflect.Type) {
	switch v.Kind() {
	case reflect.Pointer:
		if slices.Contains(above, v.Type()) {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		p.plant(v.Elem(), path, append(above, v.Type()))
	case reflect.Struct:
		switch v.Interface().(type) {
		case metav1.Time, metav1.MicroTime, metav1.TypeMeta:
			return
		case metav1.FieldsV1:
			v.Set(reflect.ValueOf(*metav1.NewFieldsV1(`{"f:status":{"f:volumesInUse":{},"f:` + p.marker(path) + `":{}}}`)))
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				p.plant(v.Field(i), path+"."+f.Name, above)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(p.marker(path)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		p.plant(v.Index(0), path+"[]", above)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		p.plant(key, path+"[key]", above)
		p.plant(value, path+"[value]", above)
		v.SetMapIndex(key, value)
		if strings.HasSuffix(path, ".Annotations") {
			for _, kept := range trim.KeptAnnotations {
				value := reflect.New(v.Type().Elem()).Elem()
				p.plant(value, path+"[a kept key]", above)
				v.SetMapIndex(reflect.ValueOf(kept), value)
			}
		}
	case reflect.String:
		v.SetString(p.text(p.marker(path)))
	}
}

func (p *planter) marker(path string) string {
	m := fmt.Sprintf("mark%05dm", len(p.paths))
	p.paths[m] = path
	return m
}

var planted = regexp.MustCompile(`mark\d{5}m`)

// kept are the paths of the fields whose texts come into a file, of one object of
// each kind with a text in every field.
func kept(t *testing.T, reasonOf func(kind Kind) string, text func(marker string) string) []string {
	t.Helper()
	p := &planter{text: text, paths: map[string]string{}}
	objects := Objects{}
	v := reflect.ValueOf(&objects).Elem()
	for i := range v.NumField() {
		p.plant(v.Field(i), v.Type().Field(i).Name, nil)
	}
	for _, e := range objects.Events {
		e.Reason = reasonOf(Events)
	}
	for _, pod := range objects.Pods {
		pod.Status.ContainerStatuses[0].State.Waiting.Reason = reasonOf(Pods)
	}
	gaps := []Gap{{Kind: Pods}}
	p.plant(reflect.ValueOf(&gaps[0].Detail).Elem(), "Gaps[].Detail", nil)
	var out bytes.Buffer
	if err := Write(&out, New(noon, Source{}, objects, gaps)); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, m := range planted.FindAllString(out.String(), -1) {
		paths = append(paths, p.paths[m])
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// TestKeptFields: a file has the texts of the fields in the list and of no other.
// The next release of the API brings new fields; each is left out until somebody
// has decided that it is none that holds a secret.
func TestKeptFields(t *testing.T) {
	got := kept(t, func(k Kind) string { return map[Kind]string{Events: "FailedMount", Pods: "ImagePullBackOff"}[k] }, func(m string) string { return m })
	if *updateKept {
		if err := os.WriteFile(keptFields, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(keptFields)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(data)), "\n")
	for _, path := range got {
		if !slices.Contains(want, path) {
			t.Errorf("%s comes into a file", path)
		}
	}
	for _, path := range want {
		if !slices.Contains(got, path) {
			t.Errorf("%s does not come into a file any more", path)
		}
	}
}

// TestKeptMessages: of what programs say no secret comes into a file, and none of
// what a container runtime says about a container that it could not start.
func TestKeptMessages(t *testing.T) {
	for _, secret := range []string{
		"mount -o username=joe,password=%s //host/share: failed", "Post https://joe:%s@host/x: refused", "refused: token: %s", `{"secret":"%s"}`, "GET https://h/x?sig=%s",
		"--password %s --verbose", "Authorization: Bearer %s", "AccountKey=%s;x",
	} {
		for _, path := range kept(t, func(Kind) string { return "FailedMount" }, func(m string) string { return fmt.Sprintf(secret, m) }) {
			if strings.HasSuffix(path, "Message") || strings.HasSuffix(path, "Detail") {
				t.Errorf("%q: %s comes into a file", secret, path)
			}
		}
	}
	for _, reason := range []string{"CreateContainerError", "RunContainerError", "StartError", "PostStartHookError", "ContainerCannotRun", "Failed", "BackOff", "Unhealthy", "Killing", "anything"} {
		for _, path := range kept(t, func(Kind) string { return reason }, func(m string) string { return m }) {
			if path == "Events[].Message" || strings.HasSuffix(path, "ContainerStatuses[].State.Waiting.Message") && strings.HasPrefix(path, "Pods[].Status.Container") &&
				(strings.HasSuffix(reason, "Error") || reason == "ContainerCannotRun") {
				t.Errorf("%s: %s comes into a file", reason, path)
			}
		}
	}
}

// TestKeptNamespace: a pod that names no namespace is one of the default namespace before
// anybody asks whether it is kept, and is kept in full.
func TestKeptNamespace(t *testing.T) {
	const pod = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: %s\n  spec:\n    hostNetwork: true\n  status:\n    phase: Running\n"
	var list strings.Builder
	for i := range 200 {
		fmt.Fprintf(&list, pod, fmt.Sprint("p", i))
	}
	for form, text := range map[string]string{
		"YAML list": "apiVersion: v1\nitems:\n" + list.String() + "kind: List\n",
		"documents": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"hostNetwork":true}}` + "\n---\n" +
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"hostNetwork":true}}` + "\n",
	} {
		opts := ReadOptions{Now: noon, PodsOfUse: func(*Objects) func(*corev1.Pod) bool {
			return func(pod *corev1.Pod) bool { return pod.Namespace == metav1.NamespaceDefault }
		}}
		s, _, err := Read("f", strings.NewReader(text), opts)
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if len(s.Pods) < 2 || slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return !pod.Spec.HostNetwork }) {
			t.Errorf("%s: not all of %d pods are read in full", form, len(s.Pods))
		}
	}
}
