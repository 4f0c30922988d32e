package facts_test

import (
	"testing"

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

// clusterOf is the cluster of the case, as a copy that the test may change.
func clusterOf(t *testing.T, c *testcases.Case) *snapshot.Snapshot {
	t.Helper()
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func clusterNamed(t *testing.T, name string) *snapshot.Snapshot {
	t.Helper()
	c, err := testcases.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return clusterOf(t, c)
}

// remade is the snapshot with other objects and gaps, and the rest as it was.
func remade(s *snapshot.Snapshot, o snapshot.Objects, gaps ...snapshot.Gap) *snapshot.Snapshot {
	made := snapshot.New(s.TakenAt, s.Source, o, append(gaps, s.Gaps...))
	made.Backends = s.Backends
	return made
}
