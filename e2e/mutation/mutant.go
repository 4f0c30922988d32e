package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
)

// Mutant is one edit to a production file of the model that makes it decide otherwise
// in one branch.
type Mutant struct {
	Name string
	// File is in Folder, which is reconcile where it is empty.
	Folder, File string
	// Old occurs once in File, and New stands in its place.
	Old, New string
	// Branch is the upstream function or release that is no longer mirrored.
	Branch string
	// Releases are asked in this order; the newest alone where there are none.
	Releases []conformance.Release
	// Unseen says why its judge cannot tell; empty where it must.
	Unseen string
}

// Mutants are all edits, by the file that they change.
func Mutants() []Mutant {
	var all []Mutant
	for _, list := range []struct {
		file    string
		mutants []Mutant
	}{
		{"world.go", worldMutants}, {"actual.go", actualMutants}, {"plan.go", detachMutants}, {"plan.go", attachMutants},
		{"plan.go", statusMutants}, {"objects.go", objectMutants}, {"plugin.go", pluginMutants}, {"plugin.go", nameMutants},
		{"spec.go", specMutants}, {"intree.go", inTreeMutants}, {"release.go", releaseMutants}, {"lookup.go", lookupMutants},
		{"resolved.go", resolvedMutants},
		{"until.go", untilMutants},
		{"rivals.go", rivalMutants},
	} {
		for _, m := range list.mutants {
			m.File = list.file
			all = append(all, m)
		}
	}
	return all
}

// asked are the releases that the mutant is held against.
func (m Mutant) asked() []conformance.Release {
	if len(m.Releases) == 0 {
		return []conformance.Release{conformance.Newest}
	}
	return m.Releases
}

// Apply returns the file with the edit made; the file itself stays as it is.
func (m Mutant) Apply(root string) (string, error) {
	source, err := os.ReadFile(m.path(root))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.Old); n != 1 {
		return "", fmt.Errorf("%s: the old text occurs %d times in %s, not once:\n%s", m.Name, n, m.path(""), m.Old)
	}
	return strings.Replace(string(source), m.Old, m.New, 1), nil
}

func (m Mutant) path(root string) string {
	return filepath.Join(root, cmp.Or(m.Folder, "reconcile"), m.File)
}
