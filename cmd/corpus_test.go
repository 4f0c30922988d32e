package cmd

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func corpus(t *testing.T) []*testcases.Case {
	t.Helper()
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func read(t *testing.T, c *testcases.Case) *snapshot.Snapshot {
	t.Helper()
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eachString calls change with every string below the value, and the path of
// fields to it, and stores what it returns.
func eachString(v reflect.Value, path string, change func(path, s string) string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			eachString(v.Elem(), path, change)
		}
	case reflect.Struct:
		switch v.Interface().(type) {
		case metav1.Time, metav1.MicroTime, metav1.FieldsV1:
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				eachString(v.Field(i), path+"."+v.Type().Field(i).Name, change)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachString(v.Index(i), path, change)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			eachString(value, path+"[]", change)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(change(path, v.String()))
		}
	}
}
