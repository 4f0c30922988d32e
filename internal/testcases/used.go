package testcases

import (
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	strictjson "sigs.k8s.io/json"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

var kinds = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(corev1.AddToScheme, storagev1.AddToScheme, coordinationv1.AddToScheme, appsv1.AddToScheme)
	utilruntime.Must(builder.AddToScheme(scheme))
	return scheme
}()

// mistake returns an error for a change that changes nothing, for a field of it that the API does
// not have, and for one that trim.Object removes, so that no check can see it. To look for them in
// each case takes longer than to read it: one test does.
func (c change) mistake() error {
	if c.made == nil {
		return nil
	}
	if c.old != nil && jsonpatch.Equal(c.old, c.made) {
		return fmt.Errorf("patch %q changes nothing", c.id)
	}
	return used(c.id, c.fields, c.made)
}

func used(id string, fields map[string]json.RawMessage, document []byte) error {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(document, &meta); err != nil {
		return err
	}
	typed, err := kinds.New(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
	if err != nil {
		return fmt.Errorf("%s: no API has apiVersion %s with kind %s", id, meta.APIVersion, meta.Kind)
	}
	wrong, err := strictjson.UnmarshalStrict(document, typed)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s: %w", id, wrong[0])
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return err
	}
	trim.Object(typed.(metav1.Object))
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return err
	}
	for name, raw := range fields {
		var set any
		if err := json.Unmarshal(raw, &set); err != nil {
			return err
		}
		if path := lost(name, set, before[name], after[name]); path != "" {
			return fmt.Errorf("%s: nothing reads %s: trim.Object takes it away; leave it out", id, path)
		}
	}
	return nil
}

// lost is the path of a field that was set and exists before, but not after; "" where there
// is none.
func lost(path string, set, before, after any) string {
	if set == nil || before == nil {
		return ""
	}
	if after == nil {
		return path
	}
	switch set := set.(type) {
	case map[string]any:
		before, _ := before.(map[string]any)
		after, _ := after.(map[string]any)
		for name, value := range set {
			if found := lost(path+"."+name, value, before[name], after[name]); found != "" {
				return found
			}
		}
	case []any:
		before, _ := before.([]any)
		after, _ := after.([]any)
		if len(after) < len(before) {
			return path
		}
		for i, value := range set {
			if i < len(before) {
				if found := lost(fmt.Sprintf("%s[%d]", path, i), value, before[i], after[i]); found != "" {
					return found
				}
			}
		}
	}
	return ""
}
