package hashnames

import (
	"encoding/json"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// Snapshot is a copy of the snapshot with its names replaced.
func (n *Names) Snapshot(s *snapshot.Snapshot) (*snapshot.Snapshot, error) {
	var objects snapshot.Objects
	from, to := reflect.ValueOf(s.Objects), reflect.ValueOf(&objects).Elem()
	for i := range from.NumField() {
		for _, object := range from.Field(i).Seq2() {
			changed := object.MethodByName("DeepCopy").Call(nil)[0]
			n.change(changed, n.In)
			to.Field(i).Set(reflect.Append(to.Field(i), changed))
		}
	}
	gaps := append([]snapshot.Gap(nil), s.Gaps...)
	n.change(reflect.ValueOf(gaps), n.In)
	hashed := snapshot.New(s.TakenAt, s.Source, objects, gaps)
	hashed.OtherPods, hashed.NamesHashed = s.OtherPods, true
	for _, part := range []func() error{
		func() error { return n.copy(s.Controller, &hashed.Controller) },
		func() error { return n.copy(s.Manager, &hashed.Manager) },
	} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	for _, l := range s.Backends {
		var list *backend.List
		if err := n.copy(l, &list); err != nil {
			return nil, err
		}
		hashed.Backends = append(hashed.Backends, list)
	}
	if hashed.Controller != nil {
		hashed.Controller.Sort()
	}
	return hashed, nil
}

// copy copies, through JSON, a value that is not an API object.
func (n *Names) copy(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return err
	}
	n.change(reflect.ValueOf(to), n.In)
	return nil
}

// kept are the fields that never hold one of these names.
var kept = map[string]bool{"APIVersion": true, "Kind": true, "UID": true, "ResourceVersion": true, "Reason": true, "ImageID": true}

// ofPod are the parts of a pod that have names of their own.
var ofPod = map[reflect.Type]bool{
	reflect.TypeFor[corev1.Container](): true, reflect.TypeFor[corev1.EphemeralContainerCommon](): true, reflect.TypeFor[corev1.ContainerStatus](): true,
	reflect.TypeFor[corev1.Volume](): true, reflect.TypeFor[corev1.VolumeMount](): true, reflect.TypeFor[corev1.VolumeDevice](): true,
}

// change changes each text below the value.
func (n *Names) change(v reflect.Value, to func(string) string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n.change(v.Elem(), to)
		}
	case reflect.Struct:
		if raw, ok := v.Addr().Interface().(*metav1.FieldsV1); ok {
			raw.SetRawString(n.inText(raw.GetRawString()))
			return
		}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch {
			case !field.IsExported() || kept[field.Name]:
			case field.Name == "Image":
				n.change(v.Field(i), n.image)
			case field.Name == "Name" && ofPod[v.Type()]:
				n.change(v.Field(i), n.inText)
			default:
				n.change(v.Field(i), to)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			n.change(v.Index(i), to)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			n.change(value, to)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(to(v.String()))
	default: // it has no text
	}
}

// image replaces the registry, unless it is a public one.
func (n *Names) image(name string) string {
	registry, rest, ok := privateRegistry(name)
	if !ok {
		return name
	}
	return n.In(registry) + "/" + rest
}

// privateRegistry cuts the name of an image behind its registry, unless that is a public one.
func privateRegistry(image string) (registry, rest string, ok bool) {
	registry, rest, ok = strings.Cut(image, "/")
	return registry, rest, ok && strings.ContainsAny(registry, ".:") && !public[registry]
}

var public = map[string]bool{"docker.io": true, "registry.k8s.io": true, "k8s.gcr.io": true, "gcr.io": true, "ghcr.io": true, "quay.io": true, "public.ecr.aws": true, "mcr.microsoft.com": true}
