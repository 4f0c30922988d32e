package cmd

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// globalFlags are the flags of every command that reads a cluster or a file.
type globalFlags struct {
	kube              *genericclioptions.ConfigFlags
	allNamespaces     bool
	file              string
	now               string
	whole             []string
	color             string
	kubernetesVersion string
	chunkSize         int64
	// asks reports whether the command is about the pod, which is then kept though no
	// check looks at it; nil is about none, and all is about every pod.
	asks func(*corev1.Pod) bool
	all  bool
	// spool takes the pods of a cluster where the snapshot is only written to a file.
	spool *snapshot.Spool
	// controller is the value of --controller: the file of kube-controller-manager's log, or
	// one of the words; "" for none.
	controller string
	// backends are the files of --backend, and lists their contents.
	backends      []string
	lists         []*backend.List
	driverObjects bool // whether to read the cluster's driver objects, as the lists are
	// member is the fleet's cluster that is looked at, within the budget; nil for the cluster
	// of the other flags.
	member *member
	budget *cluster.Budget
	// given reports whether a flag of all commands was given.
	given func(name string) bool

	disableForceDetach bool
	// verifySync and featureGates are the settings that kube-controller-manager reported.
	verifySync        time.Duration
	featureGates      map[string]bool
	maxWaitForUnmount time.Duration
	flexAttachable    []string
}

func newGlobalFlags(root *cobra.Command) *globalFlags {
	g := &globalFlags{kube: genericclioptions.NewConfigFlags(true)}
	f := root.PersistentFlags()
	g.given = f.Changed
	g.kube.AddFlags(f)
	f.BoolVarP(&g.allNamespaces, "all-namespaces", "A", false, "Report on all namespaces (the default without -n)")
	f.StringVarP(&g.file, "filename", "f", "", "Read a snapshot file, a directory or kubectl output (- for standard input) instead of a cluster")
	f.StringVar(&g.now, "now", "", "With -f: the time (RFC 3339) from which ages count; the file's own by default")
	f.StringSliceVar(&g.whole, "whole", nil, "With -f: kinds of which the file has every object of the cluster, as pods,volumeattachments, where it does not say so itself")
	_ = root.RegisterFlagCompletionFunc("whole", cobra.FixedCompletions(each(snapshot.Kinds(), func(k snapshot.Kind) string { return string(k) }), cobra.ShellCompDirectiveNoFileComp))
	f.StringVar(&g.color, "color", "auto", "Colour the output: auto, always or never")
	f.StringVar(&g.kubernetesVersion, "kubernetes-version", "", "The release whose controller to assume; the API server's by default")
	f.Int64Var(&g.chunkSize, "chunk-size", cluster.PageSize, "Read large lists in chunks of this many objects; 0 reads each in one piece")
	f.BoolVar(&g.disableForceDetach, "disable-force-detach-on-timeout", false, "Set where kube-controller-manager runs with this flag")
	f.DurationVar(&g.maxWaitForUnmount, "max-wait-for-unmount", reconcile.DefaultMaxWaitForUnmount,
		"How long the controller waits for a node that is not Ready to unmount")
	f.StringArrayVar(&g.flexAttachable, "flex-attachable", nil, "A flexvolume driver (vendor/driver) that kube-controller-manager can attach; repeatable")
	return g
}

func (g *globalFlags) validate() error {
	switch {
	case g.file == "" && g.now != "":
		return errors.New("--now goes with -f: a cluster's own clock counts otherwise")
	case g.file == "" && len(g.whole) > 0:
		return errors.New("--whole goes with -f: of a cluster every list is read whole, or a gap")
	case g.controller == controllerBundle && (g.file == "" || g.file == "-"):
		return errors.New("--controller bundle goes with -f and the folder or the archive of a bundle")
	case g.standardInput() != nil:
		return g.standardInput()
	case g.color != "auto" && g.color != "always" && g.color != "never":
		return fmt.Errorf("--color is auto, always or never, not %q", g.color)
	case g.chunkSize < 0:
		return fmt.Errorf("--chunk-size must not be negative, not %d", g.chunkSize)
	case g.maxWaitForUnmount <= 0:
		return fmt.Errorf("--max-wait-for-unmount must be more than 0s, not %s", g.maxWaitForUnmount)
	case g.kubernetesVersion != "" && !reconcile.IsRelease(g.kubernetesVersion):
		return fmt.Errorf("--kubernetes-version %q is not a release: write it as v1.36.3", g.kubernetesVersion)
	case g.allNamespaces && *g.kube.Namespace != "":
		return errors.New("-A and -n exclude each other")
	default:
		return nil
	}
}

func (g *globalFlags) options() reconcile.Options {
	return reconcile.Options{
		MaxWaitForUnmount:           g.maxWaitForUnmount,
		DisableForceDetachOnTimeout: g.disableForceDetach,
		FlexAttachable:              g.flexAttachable,
		VerifySync:                  g.verifySync,
		FeatureGates:                g.featureGates,
	}
}

// paints reports whether the output to out is coloured.
func (g *globalFlags) paints(out io.Writer) bool {
	return g.color == "always" || g.color == "auto" && printers.AllowsColorOutput(out)
}

// assume applies --kubernetes-version, which the model follows, and the settings that
// kube-controller-manager reported. It warns of a release that is older than all modelled
// ones: a report must not hide that.
func (g *globalFlags) assume(s *snapshot.Snapshot, warn io.Writer) {
	if g.controller == controllerOff {
		s.Controller, s.Manager = nil, nil
	}
	if s.Manager != nil {
		g.assumeManager(s, warn)
	}
	if g.kubernetesVersion != "" {
		s.Source.ServerVersion = g.kubernetesVersion
	}
	if reconcile.TooOld(s.Source.ServerVersion) {
		fmt.Fprintf(warn, "warning: the model is that of Kubernetes %s and later; %s decides differently in places\n", reconcile.OldestModelled, s.Source.ServerVersion)
	}
}
