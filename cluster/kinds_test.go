package cluster

import (
	"slices"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestKinds: each resource that a snapshot holds is read, nothing else is, and pods are
// the last.
func TestKinds(t *testing.T) {
	var described, read []snapshot.Kind
	for _, r := range snapshot.Resources() {
		described = append(described, r.Kind)
	}
	for _, k := range kinds {
		read = append(read, k.name())
	}
	if last := read[len(read)-1]; last != snapshot.Pods {
		t.Errorf("%s are read after the pods", last)
	}
	slices.Sort(described)
	slices.Sort(read)
	if !slices.Equal(described, read) {
		t.Errorf("described are %v, read %v", described, read)
	}
}
