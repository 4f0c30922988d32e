package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// addBackend adds the flag to a command that compares the storage system's own list with the
// objects.
func (g *globalFlags) addBackend(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&g.backends, "backend", nil, "The storage system's own list of volumes, in the JSON or YAML of its tool (aws, az, gcloud, openstack, hcloud, CSI) or two columns; FILE@TIME where it is older or younger than its file; - for standard input; repeatable")
	_ = cmd.MarkFlagFilename("backend")
}

// readBackends reads the lists. It must run before the objects are read: a list proves
// nothing about an object that is younger.
func (g *globalFlags) readBackends(stdin io.Reader) error {
	g.driverObjects = true
	for _, name := range g.backends {
		if err := g.readList(name, stdin); err != nil {
			return err
		}
	}
	return nil
}

func (g *globalFlags) readList(name string, stdin io.Reader) error {
	var l *backend.List
	file, at := cutTime(name)
	in, written, err := openInput(file, stdin)
	if err == nil {
		defer func() { _ = in.Close() }()
		if !at.IsZero() {
			written = at
		}
		l, err = backend.Read(filepath.Base(file), in, written)
	}
	if i := strings.LastIndexByte(file, '@'); errors.Is(err, os.ErrNotExist) && i > 0 {
		err = fmt.Errorf("%w; what follows @ is no time as in FILE@2026-11-20T10:00:00Z", err)
	}
	if err != nil {
		return fmt.Errorf("--backend %s: %w", safetext.Quote(name), err)
	}
	if file == "-" && at.IsZero() {
		l.Taken = time.Now().UTC() // the tool may have been writing for long
	}
	g.lists = append(g.lists, l)
	return nil
}

// cutTime splits the time at which the list was made off the end of its name, as in
// volumes.json@2026-11-20T10:00:00Z: the file may have been copied since.
func cutTime(name string) (file string, at time.Time) {
	if i := strings.LastIndexByte(name, '@'); i > 0 {
		if t, err := time.Parse(time.RFC3339, name[i+1:]); err == nil {
			return name[:i], t
		}
	}
	return name, time.Time{}
}

// openInput opens a file, or standard input for -, and returns when it was last written.
func openInput(name string, stdin io.Reader) (io.ReadCloser, time.Time, error) {
	if name == "-" {
		return io.NopCloser(stdin), time.Now(), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, time.Time{}, withoutPath(err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("it is a directory")
	}
	if err != nil {
		f.Close()
		return nil, time.Time{}, err
	}
	return f, info.ModTime(), nil
}

// addLists adds the lists to the snapshot. A file's time comes from this machine's clock, and
// the time of a cluster's objects from the API server's: between them only the file's age
// counts.
func (g *globalFlags) addLists(s *snapshot.Snapshot) {
	for _, l := range g.lists {
		dated := *l
		if g.file == "" {
			dated.Taken = s.TakenAt.Add(-time.Since(l.Taken)).UTC()
		}
		s.Backends = append(s.Backends, &dated)
	}
}

// sayBackends prints for each list its time, its part of the storage system, and how much of
// the cluster it covers. It returns the lists with only the cluster's volumes and those that
// no PersistentVolume names any more.
func (g *globalFlags) sayBackends(s *snapshot.Snapshot, streams genericiooptions.IOStreams) []*backend.List {
	if len(s.Backends) == 0 {
		return nil
	}
	var own []*backend.List
	world := reconcile.NewWorld(s, g.options())
	unclaimed := storage.Unclaimed(s, world)
	for _, l := range s.Backends {
		trimmed, all := *l, 0
		trimmed.Volumes = nil
		for _, pv := range s.Volumes {
			name, err := world.VolumeName(pv)
			driver, handle, ok := reconcile.ParseCSI(name)
			if err != nil || !ok || !l.Format.Of(driver) {
				continue
			}
			all++
			if v, found := l.Find(driver, storage.InProject(s, handle)); found {
				trimmed.Volumes = append(trimmed.Volumes, v)
			}
		}
		found := len(trimmed.Volumes)
		for _, d := range unclaimed {
			if d.List == l {
				trimmed.Volumes = append(trimmed.Volumes, d.Volume)
			}
		}
		of := ""
		if len(l.Scope) > 0 {
			of = " of " + strings.Join(l.Scope[:min(len(l.Scope), 5)], ", ")
			if len(l.Scope) > 5 {
				of += fmt.Sprintf(" and %d more", len(l.Scope)-5)
			}
		}
		says := fmt.Sprintf("%s old, has %d of %d volumes", facts.Rounded(s.TakenAt.Sub(l.Taken)), found, all)
		if err := storage.Usable(s, l); err != nil {
			says = "is left out: " + err.Error()
		} else if l.Partial {
			says += "; it has further pages, which are missing"
		}
		fmt.Fprintf(streams.ErrOut, "note: the storage system's list %s%s: %s\n", output.Safe(l.File), output.Safe(of), says)
		trimmed.Sort()
		own = append(own, &trimmed)
	}
	return own
}

// backendFlags are the flags with which a command line uses the same lists.
func (g *globalFlags) backendFlags() []string {
	var words []string
	for _, name := range g.backends {
		if name != "-" {
			words = append(words, "--backend="+name)
		}
	}
	slices.Sort(words)
	return words
}

// standardInput returns an error where two flags would read standard input.
func (g *globalFlags) standardInput() error {
	from := slices.DeleteFunc(slices.Concat([]string{g.file, g.controller}, g.backends), func(name string) bool { file, _ := cutTime(name); return file != "-" })
	switch {
	case len(from) < 2:
		return nil
	case g.controller == "-" && g.file == "-":
		return errors.New("-f and --controller cannot both read standard input")
	default:
		return errors.New("--backend cannot read standard input that another flag reads")
	}
}
