package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// controllerBundle is the value of --controller for the logs in the bundle of -f.
const controllerBundle = "bundle"

// eachLog calls read with each log in the bundle of -f.
func (g *globalFlags) eachLog(read func(snapshot.Log, io.Reader) error) error {
	info, err := os.Stat(g.file)
	if err != nil {
		return withoutPath(err)
	}
	if info.IsDir() {
		folder, err := os.OpenRoot(g.file)
		if err != nil {
			return withoutPath(err)
		}
		defer folder.Close()
		return snapshot.LogsFS(folder.FS(), read)
	}
	f, err := os.Open(g.file)
	if err != nil {
		return withoutPath(err)
	}
	defer f.Close()
	return snapshot.Logs(f, read)
}

// bundledController is what the log of the leading kube-controller-manager proves. A bundle
// has a log of each replica. The lease shows which one leads; where leases could not be read,
// the latest log counts in which a replica says that it leads.
func (g *globalFlags) bundledController(s *snapshot.Snapshot, streams genericiooptions.IOStreams) (*snapshot.Controller, error) {
	var best *snapshot.Controller
	from, logs := "", 0
	err := g.eachLog(func(l snapshot.Log, in io.Reader) error {
		if l.Kubelet {
			return nil
		}
		logs++
		log, err := controllerlog.Read(in, controllerlog.Options{Now: s.TakenAt.Add(reconcile.ClocksDiffer), Release: s.Source.ServerVersion})
		if err != nil {
			fmt.Fprintf(streams.ErrOut, "note: %s is passed over: %s\n", output.Safe(l.Path), output.Safe(err.Error()))
			return nil
		}
		if best == nil || leads(s, log, best) > 0 {
			best, from = log, l.Path
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case best == nil && logs == 0:
		return nil, errors.New("there is no log of kube-controller-manager in it")
	case best == nil:
		return nil, errors.New("no log of kube-controller-manager in it could be read")
	}
	fmt.Fprintf(streams.ErrOut, "note: the controller's log is %s\n", output.Safe(from))
	return best, nil
}

// leads compares two logs by how much shows that the log is the leader's.
func leads(s *snapshot.Snapshot, a, b *snapshot.Controller) int {
	rank := func(c *snapshot.Controller) int {
		with := *s
		with.Controller = c
		switch m := reconcile.MemoryOf(&with); {
		case m == nil:
			return 0
		case m.Leads:
			return 3
		case m.Identity != "":
			return 2
		default:
			return 1
		}
	}
	return cmp.Or(rank(a)-rank(b), a.Last.Compare(b.Last))
}

// bundledKubelet has the failures from the log of the node's kubelet in the bundle of -f; nil
// if the bundle has no such log. No bundle has a kubelet's pods and metrics. In a log of several
// nodes, the lines that name this one count.
func (g *globalFlags) bundledKubelet(s *snapshot.Snapshot, node types.NodeName) (heard *trace.KubeletView, err error) {
	if g.file == "-" {
		return nil, nil
	}
	err = g.eachLog(func(l snapshot.Log, in io.Reader) error {
		if !l.Kubelet || l.Node != "" && l.Node != node || heard != nil {
			return nil
		}
		var hosts []string
		if l.Node == "" {
			hosts = hostsOf(s, node)
		}
		failures, err := controllerlog.ReadKubelet(in, s.TakenAt.Add(reconcile.ClocksDiffer), hosts...)
		if errors.Is(err, controllerlog.ErrOtherHosts) || errors.Is(err, controllerlog.ErrNoLine) && strings.HasSuffix(l.Path, ".zip") {
			return nil // not each archive of a node has a log of its kubelet
		}
		if err != nil && !errors.Is(err, controllerlog.ErrZoneUnknown) {
			return fmt.Errorf("%s: %w", output.Safe(l.Path), err)
		}
		heard = &trace.KubeletView{Failures: failures, Gaps: []snapshot.Gap{
			{Kind: trace.KubeletPods, Reason: snapshot.ReasonNotInBundle}, {Kind: trace.KubeletMetrics, Reason: snapshot.ReasonNotInBundle},
		}}
		if err != nil {
			heard.Gaps = append(heard.Gaps, snapshot.Gap{Kind: trace.KubeletLog, Reason: snapshot.ReasonOtherTime, Detail: fmt.Sprintf("%s: %s", output.Safe(l.Path), err)})
		}
		return nil
	})
	return heard, err
}

// hostsOf are the names that the node's machine may have in its own logs.
func hostsOf(s *snapshot.Snapshot, node types.NodeName) []string {
	hosts := []string{string(node)}
	if n := s.Node(node); n != nil && n.Labels[corev1.LabelHostname] != "" {
		hosts = append(hosts, n.Labels[corev1.LabelHostname])
	}
	for _, host := range hosts {
		short, _, _ := strings.Cut(host, ".")
		if !slices.ContainsFunc(s.Nodes, func(n *corev1.Node) bool {
			return n.Name != string(node) && (n.Name == short || strings.HasPrefix(n.Name, short+"."))
		}) {
			hosts = append(hosts, short)
		}
	}
	return hosts
}
