package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// create makes a file of what write writes.
func create(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, 1<<20)
	return cmp.Or(write(out), out.Flush(), file.Close())
}

// resourceOf is the resource of the object's kind; false if no snapshot holds such objects.
func resourceOf(o load.Object) (snapshot.Resource, bool) {
	for _, r := range snapshot.Resources() {
		if kind := o.GetObjectKind().GroupVersionKind(); r.Object == kind.Kind && r.Group() == kind.Group {
			return r, true
		}
	}
	return snapshot.Resource{}, false
}

// typed gives the objects of a cluster their kind, as an API server's answer has it.
func typed(c load.Cluster, each func(load.Object) error) error {
	for o := range c.All() {
		kinds, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return err
		}
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
		if err := each(o); err != nil {
			return err
		}
	}
	return nil
}

// writeKubectl writes what `kubectl get KINDS -A -o FORMAT` prints of the kinds that
// snapshots hold, which leaves out who manages which fields. The format is yaml or json.
func writeKubectl(w io.Writer, c load.Cluster, format string) error {
	order := map[snapshot.Kind][]load.Object{}
	if err := typed(c, func(o load.Object) error {
		if r, ok := resourceOf(o); ok {
			o.SetManagedFields(nil)
			order[r.Kind] = append(order[r.Kind], o)
		}
		return nil
	}); err != nil {
		return err
	}
	namespaces := map[string]bool{metav1.NamespaceDefault: true}
	for _, o := range order[snapshot.Pods] {
		namespaces[o.GetNamespace()] = true
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		order[snapshot.Events] = append(order[snapshot.Events], someEvent(c, namespace))
	}
	begin, between, end := "apiVersion: v1\nitems:\n", "", "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	if format == "json" {
		begin, between, end = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n        ", ",\n        ",
			"\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
	}
	if _, err := io.WriteString(w, begin); err != nil {
		return err
	}
	first := true
	for _, kind := range snapshot.Kinds() {
		for _, o := range order[kind] {
			item, err := listItem(o, format)
			if err != nil {
				return err
			}
			if !first {
				item = append([]byte(between), item...)
			}
			first = false
			if _, err := w.Write(item); err != nil {
				return err
			}
		}
	}
	_, err := io.WriteString(w, end)
	return err
}

// someEvent is one of those that every namespace at work has: a file without any may lack them.
func someEvent(c load.Cluster, namespace string) load.Object {
	e := &corev1.Event{Type: corev1.EventTypeNormal, Reason: "ScalingReplicaSet", Message: "Scaled up replica set app-1 to 2",
		FirstTimestamp: metav1.NewTime(c.Now), LastTimestamp: metav1.NewTime(c.Now)}
	e.APIVersion, e.Kind, e.Namespace, e.Name = "v1", "Event", namespace, "app.1"
	e.InvolvedObject = corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: "app"}
	return e
}

// listItem is an item of a list as kubectl prints it.
func listItem(o load.Object, format string) ([]byte, error) {
	if format == "yaml" {
		return yaml.Marshal([]any{o})
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var fields any // as unstructured: fields in the order of their names
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	return json.MarshalIndent(fields, "        ", "    ")
}

// heldFile is a file of an archive that grows.
type heldFile struct {
	packed bytes.Buffer
	zip    *gzip.Writer
	size   int64
	parts  []heldPart // where it is several files in a row
}

type heldPart struct {
	name string
	size int64
}

func (f *heldFile) write(text []byte) error {
	if f.zip == nil {
		f.zip, _ = gzip.NewWriterLevel(&f.packed, gzip.BestSpeed) // there is this level
	}
	f.size += int64(len(text))
	_, err := f.zip.Write(text)
	return err
}

// text is what was written, from its beginning.
func (f *heldFile) text() (io.Reader, error) {
	if err := f.zip.Close(); err != nil {
		return nil, err
	}
	return gzip.NewReader(&f.packed)
}

// writeMustGather writes an archive as `oc adm must-gather` leaves one of a cluster
// whose namespaces were all inspected: a list for each kind in a namespace, and a file
// for each other object, with all that the API server sent. Inspecting also writes each pod
// into a folder of its own; thirteen in twenty have one here, which makes two gigabytes of
// 150,000 pods. It returns the size of the files.
func writeMustGather(w io.Writer, c load.Cluster) (size int64, err error) {
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)
	const top = "must-gather.local.1/quay-io-openshift/"
	add := func(name string, length int64, text io.Reader) error {
		size += length
		if err := out.WriteHeader(&tar.Header{Name: top + name, Mode: 0o644, Size: length, ModTime: c.Now, Format: tar.FormatPAX}); err != nil {
			return err
		}
		_, err := io.Copy(out, text)
		return err
	}
	one := func(name string, text []byte) error { return add(name, int64(len(text)), bytes.NewReader(text)) }
	if err := one("timestamp", fmt.Appendf(nil, "%s\n%s\n", stamped(c.Now.Add(-time.Minute)), stamped(c.Now))); err != nil {
		return 0, err
	}
	lists, own, pods := map[string]*heldFile{}, map[string]*heldFile{}, 0
	namespaces := map[string]bool{}
	err = typed(c, func(o load.Object) error {
		text, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		text = append([]byte("---\n"), text...)
		r, ok := resourceOf(o)
		group := cmp.Or(r.Group(), "core")
		switch {
		case !ok:
			if o.GetObjectKind().GroupVersionKind().Kind != "Namespace" {
				return nil
			}
			return one(path.Join("cluster-scoped-resources", "core", "namespaces", o.GetName()+".yaml"), text)
		case !r.Namespaced:
			return one(path.Join("cluster-scoped-resources", group, string(r.Kind), o.GetName()+".yaml"), text)
		case r.Kind == snapshot.Leases:
			namespaces[o.GetNamespace()] = true
			return one(path.Join("namespaces", o.GetNamespace(), group, string(r.Kind), o.GetName()+".yaml"), text)
		}
		namespaces[o.GetNamespace()] = true
		name := path.Join("namespaces", o.GetNamespace(), group, string(r.Kind)+".yaml")
		if r.Kind == snapshot.Pods {
			if pods++; pods%20 < 13 {
				if own[name] == nil {
					own[name] = &heldFile{}
				}
				folder := path.Join("namespaces", o.GetNamespace(), "pods", o.GetName(), o.GetName()+".yaml")
				own[name].parts = append(own[name].parts, heldPart{folder, int64(len(text))})
				if err := own[name].write(text); err != nil {
					return err
				}
			}
		}
		list := lists[name]
		if list == nil {
			list = &heldFile{}
			lists[name] = list
			if err := list.write([]byte("---\napiVersion: v1\nitems:\n")); err != nil {
				return err
			}
		}
		if text, err = yaml.Marshal([]any{o}); err != nil {
			return err
		}
		return list.write(text)
	})
	if err != nil {
		return 0, err
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		for _, r := range snapshot.Resources() {
			name := path.Join("namespaces", namespace, cmp.Or(r.Group(), "core"), string(r.Kind)+".yaml")
			if r.Namespaced && r.Kind != snapshot.Leases && lists[name] == nil {
				items := []any{}
				if r.Kind == snapshot.Events {
					items = append(items, someEvent(c, namespace))
				}
				text, err := yaml.Marshal(map[string]any{"apiVersion": r.Version, "items": items, "kind": r.Object + "List", "metadata": map[string]any{"resourceVersion": "1"}})
				if err != nil {
					return 0, err
				}
				if err := one(name, append([]byte("---\n"), text...)); err != nil {
					return 0, err
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		list := lists[name]
		kind := "PodList"
		if path.Base(name) != string(snapshot.Pods)+".yaml" {
			kind = "PersistentVolumeClaimList"
		}
		if err := list.write([]byte("kind: " + kind + "\nmetadata:\n  resourceVersion: \"1\"\n")); err != nil {
			return 0, err
		}
		text, err := list.text()
		if err != nil {
			return 0, err
		}
		if err := add(name, list.size, text); err != nil {
			return 0, err
		}
		if own[name] == nil {
			continue
		}
		if text, err = own[name].text(); err != nil {
			return 0, err
		}
		for _, part := range own[name].parts {
			if err := add(part.name, part.size, io.LimitReader(text, part.size)); err != nil {
				return 0, err
			}
		}
	}
	return size, cmp.Or(out.Close(), zip.Close())
}

// stamped is a line of the file that says when an inspection began or ended.
func stamped(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST") }
