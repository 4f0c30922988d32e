package snapshot

import (
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClockContradicted(t *testing.T) {
	lease := func(namespace string, renewed time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "n1"},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: renewed}},
		}
	}
	late := metav1.Time{Time: noon.Add(time.Hour)}
	for _, tt := range []struct {
		name    string
		objects Objects
		want    string
	}{
		{"nothing", Objects{}, ""},
		{"within the tolerance", Objects{Leases: []*coordinationv1.Lease{lease("kube-node-lease", noon.Add(ClockTolerance))}}, ""},
		{"a lease", Objects{Leases: []*coordinationv1.Lease{lease("kube-node-lease", noon.Add(30*time.Minute))}},
			"the time 2026-11-20T12:00:00Z is contradicted: spec.renewTime of Lease kube-node-lease/n1 is 2026-11-20T12:30:00Z, which is 30m0s later"},
		{"a lease that any user may write", Objects{Leases: []*coordinationv1.Lease{lease("shop", noon.Add(30*time.Minute))}}, ""},
		{"the end of a grace period", Objects{Pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a", DeletionTimestamp: &late}}}}, ""},
		{"a creation", Objects{Volumes: []*corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "pv1", CreationTimestamp: late}}}},
			"the time 2026-11-20T12:00:00Z is contradicted: metadata.creationTimestamp of PersistentVolume pv1 is 2026-11-20T13:00:00Z, which is 1h0m0s later"},
		{"the newest of several", Objects{
			Events: []*corev1.Event{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "e"}, LastTimestamp: late}},
			Leases: []*coordinationv1.Lease{lease("kube-system", noon.Add(30*time.Minute))},
		}, "the time 2026-11-20T12:00:00Z is contradicted: lastTimestamp of Event a/e is 2026-11-20T13:00:00Z, which is 1h0m0s later"},
	} {
		got := ""
		if err := ClockContradicted(New(noon, Source{}, tt.objects, nil)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// TestNewestTimeFields sets every time field of every kind, one by one: each
// counts, but for those that may lie in the future or that users write.
func TestNewestTimeFields(t *testing.T) {
	skipped := []string{
		"metadata.deletionTimestamp",
		"spec.volumes.ephemeral", "spec.template", // a user wrote them
	}
	for _, s := range resources {
		found := 0
		setTimes(t, s, func(o apiObject, path string) {
			found++
			want := noon
			for _, prefix := range skipped {
				if strings.HasPrefix(path, prefix) {
					want = time.Time{}
				}
			}
			if e := newestTime(o); !e.at.Equal(want) {
				t.Errorf("%s of %s: newest time %s, want %s", path, s.Object, e.at, want)
			} else if !want.IsZero() && !strings.HasSuffix(strings.ToLower(path), strings.ToLower(e.field[strings.LastIndex(e.field, ".")+1:])) {
				t.Errorf("%s of %s is called %s", path, s.Object, e.field)
			}
		})
		if found < 2 {
			t.Errorf("%d times in a %s", found, s.Object)
		}
	}
}

// setTimes calls check with an object for each time field of the kind, in which
// that field alone is set.
func setTimes(t *testing.T, s *row, check func(apiObject, string)) {
	t.Helper()
	empty, _, err := s.decode([]byte(`{"metadata": {"name": "a", "namespace": "kube-system"}}`))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(typ reflect.Type, path string, set func(root reflect.Value, leaf reflect.Value), depth int)
	walk = func(typ reflect.Type, path string, set func(root, leaf reflect.Value), depth int) {
		switch {
		case depth > 12:
		case typ == reflect.TypeFor[metav1.Time](), typ == reflect.TypeFor[metav1.MicroTime]():
			object := empty.DeepCopyObject().(apiObject)
			leaf := reflect.New(typ).Elem()
			leaf.FieldByName("Time").Set(reflect.ValueOf(noon))
			set(reflect.ValueOf(object).Elem(), leaf)
			check(object, strings.TrimPrefix(path, "."))
		case typ.Kind() == reflect.Pointer:
			walk(typ.Elem(), path, func(root, leaf reflect.Value) {
				p := reflect.New(typ.Elem())
				p.Elem().Set(leaf)
				set(root, p)
			}, depth+1)
		case typ.Kind() == reflect.Slice:
			walk(typ.Elem(), path, func(root, leaf reflect.Value) {
				set(root, reflect.Append(reflect.Zero(typ), leaf))
			}, depth+1)
		case typ.Kind() == reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				if !f.IsExported() {
					continue
				}
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				at := path
				if name != "" {
					at += "." + name
				}
				walk(f.Type, at, func(root, leaf reflect.Value) {
					holder := reflect.New(typ).Elem()
					if typ == root.Type() {
						holder = root
					}
					if typ == reflect.TypeFor[metav1.ObjectMeta]() {
						holder.FieldByName("Name").SetString("a")
						holder.FieldByName("Namespace").SetString("kube-system")
					}
					holder.Field(i).Set(leaf)
					if typ != root.Type() {
						set(root, holder)
					}
				}, depth+1)
			}
		}
	}
	walk(reflect.TypeOf(empty).Elem(), "", func(_, _ reflect.Value) {}, 0)
}
