package cmd

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/hashnames"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func newSnapshot(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var allowGaps bool
	names := namesFlag{say: keepNames}
	cmd := &cobra.Command{
		Use:   "snapshot [FILE]",
		Short: "Write what diagnose would read to a file that is safe to attach to a ticket",
		Long: `snapshot writes the objects that diagnose reads to FILE, or to standard output.
Environment variables, arguments, secrets and managed fields are left out. A
FILE that ends in .gz is compressed. With -f it trims another file.

With --names=hash a hash stands in place of each name of a node, namespace, pod, workload
and host, and of each address, wherever it stands: the same name has the same hash, and
diagnose finds the same. Names of claims, volumes, volume handles, classes and drivers
stay, and so do labels of your own. The hashes of two files differ, unless you give both
the same word, as in --names=hash:WORD.

Somebody without the plug-in can send the folder in which the following line was run:
a file for each kind, of which an empty one proves that there are none. -f reads it as
well, but nothing has been left out of it, not even environment variables:

  ` + withoutPlugin(),
		Example: `  kubectl volume-doctor snapshot case.yaml.gz
  kubectl volume-doctor diagnose -f case.yaml.gz

  # no name of a node, namespace or pod leaves the house
  kubectl volume-doctor snapshot --names=hash case.yaml.gz`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := g.validate(); err != nil {
				return err
			}
			if err := g.readBackends(streams.In); err != nil {
				return err
			}
			g.all = true
			if g.file == "" && g.controller != controllerAuto && !names.hash() { // its counts are compared with the pods
				g.spool = &snapshot.Spool{}
			}
			s, err := g.read(cmd.Context(), streams)
			if err != nil {
				return err
			}
			if err := g.remember(s, streams); err != nil {
				return err
			}
			s.Backends = g.sayBackends(s, streams)
			kept := "names of nodes, namespaces and pods are in it (--names=hash replaces them)"
			if names.hash() {
				if s, kept, err = names.replace(s); err != nil {
					return err
				}
			}
			written, err := save(cmd.Context(), s, g.spool, args, streams.Out)
			if err != nil {
				return err
			}
			sayWritten(streams.ErrOut, s, g.spool, args, written, kept)
			for _, gap := range s.Gaps {
				fmt.Fprintf(streams.ErrOut, "warning: %s could not be read (%s): the snapshot says so\n", gap.Kind, gap.Reason)
			}
			return exitWith(len(s.Gaps) > 0 && !allowGaps, false)
		},
	}
	g.addController(cmd)
	g.addBackend(cmd)
	cmd.Flags().Var(&names, "names", "What becomes of names of nodes, namespaces, pods, hosts and addresses: keep, hash, or hash:WORD for the same hashes in several files")
	cmd.Flags().BoolVar(&allowGaps, "allow-gaps", false, "Do not fail because something could not be read")
	return cmd
}

// withoutPlugin is the shell line that writes everything that diagnose reads, one file for
// each kind: kubectl prints an empty list of several kinds without their names.
func withoutPlugin() string {
	kinds := each(snapshot.Kinds(), func(kind snapshot.Kind) string { return string(kind) })
	return "for kind in " + strings.Join(kinds, " ") + "; do kubectl get $kind -A -o yaml >$kind.yaml; done"
}

// save writes the snapshot and returns the number of bytes.
func save(ctx context.Context, s *snapshot.Snapshot, pods *snapshot.Spool, args []string, stdout io.Writer) (int64, error) {
	var out counted
	if toStdout(args) {
		out.to = stdout
		err := snapshot.WriteSpooled(&out, s, pods, false)
		return out.n, err
	}
	err := writeFile(ctx, args[0], func(w io.Writer) error {
		out.to = w
		return snapshot.WriteSpooled(&out, s, pods, strings.HasSuffix(args[0], ".gz"))
	})
	return out.n, err
}

func toStdout(args []string) bool { return len(args) == 0 || args[0] == "-" }

// counted counts the bytes that are written.
type counted struct {
	to io.Writer
	n  int64
}

func (c *counted) Write(text []byte) (int, error) {
	n, err := c.to.Write(text)
	c.n += int64(n)
	return n, err
}

// sayWritten prints what is in the file, what is not, and which commands read it.
func sayWritten(w io.Writer, s *snapshot.Snapshot, pods *snapshot.Spool, args []string, size int64, names string) {
	counts := s.Counts()
	counts[snapshot.Pods] += pods.Count()
	var objects []string
	for _, kind := range snapshot.Kinds() {
		if n := counts[kind]; n > 0 {
			objects = append(objects, fmt.Sprintf("%d %s", n, kind))
		}
	}
	file := "FILE"
	if !toStdout(args) {
		file = args[0]
	}
	fmt.Fprintf(w, "wrote %s: %s, as of %s: %s\n", file, sizeOf(size), s.TakenAt.UTC().Format(time.RFC3339), cmp.Or(strings.Join(objects, ", "), "no object"))
	fmt.Fprintf(w, "left out: environment variables, arguments, secrets, annotations and managed fields that say nothing about volumes; %s\n", names)
	fmt.Fprintf(w, "read it with: %s\n", safetext.Kubectl("volume-doctor", "diagnose", "-f", file))
}

// sizeOf is a number of bytes in units that people use.
func sizeOf(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1<<10-1)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// The values of --names.
const (
	keepNames = "keep"
	hashNames = "hash"
)

// namesFlag says how the names in a snapshot are treated.
type namesFlag struct {
	say string
	// key is the key of the hashes.
	key string
}

func (f *namesFlag) String() string { return f.say }

func (f *namesFlag) Type() string { return "keep|hash" }

// Set implements pflag.Value.
func (f *namesFlag) Set(text string) error {
	how, word, given := strings.Cut(text, ":")
	switch {
	case text == keepNames, how == hashNames && given == (word != ""):
		f.say, f.key = how, cmp.Or(word, rand.Text())
		return nil
	default:
		return fmt.Errorf("it takes %s, %s, or %s:WORD", keepNames, hashNames, hashNames)
	}
}

func (f *namesFlag) hash() bool { return f.say == hashNames }

// replace returns the snapshot with its names replaced, and a sentence about it.
func (f *namesFlag) replace(s *snapshot.Snapshot) (*snapshot.Snapshot, string, error) {
	names := hashnames.Of(s, f.key)
	hashed, err := names.Snapshot(s)
	if err != nil {
		return nil, "", err
	}
	c := names.Counts()
	return hashed, fmt.Sprintf("in place of %d nodes, %d namespaces, %d workloads, %d pods, %d hosts and %d addresses stand hashes; names of claims, volumes, handles, classes and drivers are in it",
		c.Nodes, c.Namespaces, c.Workloads, c.Pods, c.Hosts, c.Addresses), nil
}
