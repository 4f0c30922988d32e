package kubelettrace

import (
	"reflect"
	"testing"
)

func TestTallyIsKept(t *testing.T) {
	dir := t.TempDir()
	kept := newTally(7, Newest)
	kept.Pods, kept.Wrong, kept.Looks["as they end"] = 20, 1, 3
	if err := kept.save(dir); err != nil {
		t.Fatal(err)
	}
	read := newTally(7, Newest)
	if done, err := read.load(dir, 20); !done || err != nil {
		t.Fatalf("load = %v, %v, want the tally", done, err)
	}
	if !reflect.DeepEqual(read, kept) {
		t.Errorf("load gives %+v, want %+v", read, kept)
	}
	if _, err := newTally(7, Newest).load(dir, 21); err == nil {
		t.Error("a tally of 20 pods is taken for one of 21")
	}
	if done, err := newTally(8, Newest).load(dir, 20); done || err != nil {
		t.Errorf("load of another seed = %v, %v, want nothing", done, err)
	}
}
