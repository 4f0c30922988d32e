// Package testcases reads testdata/cases for the tests of every package: clusters, with the
// expected plan and findings of each. No other code uses it.
//
// A case is a txtar archive, which may also have the lists of storage systems. Its cluster
// stands in cluster.yaml, in the form that the command snapshot writes, or in overlay.yaml,
// as the difference from a cluster of testdata/bases.
package testcases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// Case is one file of testdata/cases.
type Case struct {
	Name string
	Path string
	// Archive is the unchanged file.
	Archive *txtar.Archive
	// Cluster is the whole cluster as a snapshot file.
	Cluster  []byte
	Settings reconcile.Options

	read func() (*snapshot.Snapshot, error)
}

// Directory is the path of testdata from the directory of the running test.
func Directory() (string, error) {
	for dir := "testdata"; len(dir) < 100; dir = filepath.Join("..", dir) {
		if info, err := os.Stat(filepath.Join(dir, "cases")); err == nil && info.IsDir() {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find testdata/cases: no directory above has it")
}

// All returns every case, by name. The cases are shared: a test that changes one
// changes it for the others.
var All = sync.OnceValues(func() ([]*Case, error) {
	dir, err := Directory()
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "cases", "*.txtar"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("read the cases of %s: there are none", dir)
	}
	cases := make([]*Case, len(paths))
	for i, path := range paths {
		if cases[i], err = load(dir, path); err != nil {
			return nil, err
		}
	}
	return cases, nil
})

// Load reads the case of the name.
func Load(name string) (*Case, error) {
	dir, err := Directory()
	if err != nil {
		return nil, err
	}
	return load(dir, filepath.Join(dir, "cases", name+".txtar"))
}

func load(dir, path string) (*Case, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a case: %w", err)
	}
	c := &Case{Name: strings.TrimSuffix(filepath.Base(path), ".txtar"), Path: path, Archive: archive}
	whole, overlay := c.File("cluster.yaml"), c.File("overlay.yaml")
	switch {
	case (whole == nil) == (overlay == nil):
		return nil, fmt.Errorf("%s: it needs either a cluster.yaml or an overlay.yaml", path)
	case whole != nil:
		c.Cluster = whole
	default:
		if c.Cluster, _, err = merge(dir, overlay); err != nil {
			return nil, fmt.Errorf("%s: overlay.yaml: %w", path, err)
		}
	}
	if err := c.addStorage(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if settings := c.File("settings.json"); settings != nil {
		if err := json.Unmarshal(settings, &c.Settings); err != nil {
			return nil, fmt.Errorf("%s: settings.json: %w", path, err)
		}
	}
	c.read = sync.OnceValues(func() (*snapshot.Snapshot, error) {
		s, warnings, err := snapshot.Read(c.Name, bytes.NewReader(c.Cluster), snapshot.ReadOptions{})
		if err == nil && len(warnings) > 0 {
			err = fmt.Errorf("%s: %s", path, warnings[0])
		}
		return s, err
	})
	return c, nil
}

// File returns the text of a file of the archive, nil where it has none.
func (c *Case) File(name string) []byte {
	i := slices.IndexFunc(c.Archive.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return c.Archive.Files[i].Data
}

// Snapshot is the cluster, as a copy that the caller may change. The file is read only once:
// reading it for every test would take most of the time.
func (c *Case) Snapshot() (*snapshot.Snapshot, error) {
	s, err := c.read()
	if err != nil {
		return nil, err
	}
	made := snapshot.New(s.TakenAt, s.Source, Copy(s.Objects), slices.Clone(s.Gaps))
	made.Backends = slices.Clone(s.Backends)
	return made, nil
}

// addStorage adds the storage systems' lists to the cluster. Each is a file "storage TIME",
// whose text is a tool's output at that time.
func (c *Case) addStorage() error {
	for _, f := range c.Archive.Files {
		kind, at, _ := strings.Cut(f.Name, " ")
		if kind != "storage" {
			continue
		}
		taken, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return err
		}
		l, err := backend.Read("list.json", bytes.NewReader(f.Data), taken)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		text, err := json.Marshal(struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			*backend.List
		}{"volume-doctor/v1", "Backend", l})
		if err != nil {
			return err
		}
		c.Cluster = slices.Concat(c.Cluster, []byte("---\n"), text, []byte("\n"))
	}
	return nil
}

// Copy returns objects that share nothing with these.
func Copy(o snapshot.Objects) snapshot.Objects {
	return snapshot.Objects{
		VolumeAttachments: copies(o.VolumeAttachments),
		Nodes:             copies(o.Nodes),
		CSINodes:          copies(o.CSINodes),
		CSIDrivers:        copies(o.CSIDrivers),
		StorageClasses:    copies(o.StorageClasses),
		Volumes:           copies(o.Volumes),
		Claims:            copies(o.Claims),
		Leases:            copies(o.Leases),
		Events:            copies(o.Events),
		Pods:              copies(o.Pods),
		Deployments:       copies(o.Deployments),
	}
}

func copies[T interface{ DeepCopy() T }](list []T) []T {
	if list == nil {
		return nil
	}
	made := make([]T, len(list))
	for i, o := range list {
		made[i] = o.DeepCopy()
	}
	return made
}
