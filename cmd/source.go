package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// read takes the snapshot that the flags ask for, from a file or from the cluster.
func (g *globalFlags) read(ctx context.Context, streams genericiooptions.IOStreams) (s *snapshot.Snapshot, err error) {
	if g.file != "" {
		s, err = g.readFile(streams)
	} else {
		var c watched
		if c, err = g.connect(streams); err != nil {
			return nil, err
		}
		s, err = c.Snapshot(ctx)
	}
	if err != nil {
		return nil, err
	}
	g.assume(s, streams.ErrOut)
	return s, nil
}

// readTargets reads everything that a command with arguments of these kinds rests on, and
// fails where one of its targets does not exist.
func (g *globalFlags) readTargets(ctx context.Context, streams genericiooptions.IOStreams, outputs *outputFlags, args []string, kinds ...snapshot.Kind) ([]target, *snapshot.Snapshot, error) {
	if err := cmp.Or(g.validate(), outputs.validate()); err != nil {
		return nil, nil, err
	}
	namespace, err := g.namespace()
	if err != nil {
		return nil, nil, err
	}
	targets, err := parseTargets(args, namespace, kinds...)
	if err != nil {
		return nil, nil, err
	}
	g.asks = asks(targets)
	s, err := g.read(ctx, streams)
	if err != nil {
		return nil, nil, err
	}
	return targets, s, mustExist(targets, s)
}

func (g *globalFlags) readFile(streams genericiooptions.IOStreams) (*snapshot.Snapshot, error) {
	var opts snapshot.ReadOptions
	if g.now != "" {
		now, err := time.Parse(time.RFC3339, g.now)
		if err != nil {
			return nil, fmt.Errorf("--now %q is not a time: write it as 2026-11-20T10:00:00Z", g.now)
		}
		opts.Now = now
	}
	for _, name := range g.whole {
		kind, err := wholeKind(name)
		if err != nil {
			return nil, err
		}
		opts.Whole = append(opts.Whole, kind)
	}
	if !g.all {
		opts.PodsOfUse = g.podsOfUse
	}
	SaveMemory(80) // most of what is decoded of a file is garbage
	s, warnings, err := g.decode(streams, opts)
	for _, w := range warnings {
		fmt.Fprintf(streams.ErrOut, "warning: %s\n", w)
	}
	if s != nil && s.NamesHashed {
		fmt.Fprintln(streams.ErrOut, "note: hashes stand in this file in place of names (snapshot --names=hash): the cluster does not know them")
	}
	if err != nil {
		return nil, err
	}
	g.addLists(s)
	return s, nil
}

// wholeKind is the kind of --whole, by any of kubectl's names for it or by its plural.
func wholeKind(name string) (snapshot.Kind, error) {
	kind, known := kindNames[strings.ToLower(name)]
	if !known {
		kind = snapshot.Kind(strings.ToLower(name))
	}
	if !slices.Contains(snapshot.Kinds(), kind) {
		names := each(snapshot.Kinds(), func(k snapshot.Kind) string { return string(k) })
		return "", fmt.Errorf("--whole %q is not a kind that is read: use %s%s", name, strings.Join(names, ", "), didYouMean(name, names))
	}
	return kind, nil
}

// podsOfUse reports for a pod of a file whether it is kept: the same pods as from a cluster,
// and those in the namespace of -n, which show that the namespace is used.
func (g *globalFlags) podsOfUse(o *snapshot.Objects) func(*corev1.Pod) bool {
	ofUse := facts.NeedsOf(o).OfUse
	return func(pod *corev1.Pod) bool {
		return ofUse(pod) || g.asks != nil && g.asks(pod) || pod.Namespace == *g.kube.Namespace
	}
}

func (g *globalFlags) decode(streams genericiooptions.IOStreams, opts snapshot.ReadOptions) (*snapshot.Snapshot, []snapshot.Warning, error) {
	if g.file == "-" {
		return snapshot.Read("standard input", streams.In, opts)
	}
	info, err := os.Stat(g.file)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read %s: %w", g.file, withoutPath(err))
	}
	if info.IsDir() {
		// A stranger's folder may contain links; a root keeps them from leading out of it.
		folder, err := os.OpenRoot(g.file)
		if err != nil {
			return nil, nil, err
		}
		defer folder.Close()
		return snapshot.ReadFS(g.file, folder.FS(), opts)
	}
	f, err := os.Open(g.file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return snapshot.Read(g.file, f, opts)
}

// connect prepares the connection to the kubeconfig's cluster.
func (g *globalFlags) connect(streams genericiooptions.IOStreams) (watched, error) {
	config, name, err := g.wayThere()
	if err != nil {
		return watched{}, err
	}
	p := &progress{w: streams.ErrOut, silent: g.member != nil}
	c, err := cluster.New(config, cluster.Options{
		Context: name, Namespace: *g.kube.Namespace, Progress: p.read, PageSize: g.chunkSize, Asked: g.asks, All: g.all, Spool: g.spool, Manager: g.controller == controllerAuto,
		Budget: g.budget, Drivers: cluster.Notes(streams.ErrOut, g.driverObjects),
	})
	return watched{c, p, g.addLists}, err
}

// wayThere is the client configuration for the cluster, and the name of its context.
func (g *globalFlags) wayThere() (*rest.Config, string, error) {
	if g.member != nil {
		config, err := g.member.REST(overridesOf(g.kube))
		return config, g.member.Context, err
	}
	raw, err := g.kubeconfig()
	if err != nil {
		return nil, "", err
	}
	config, err := g.kube.ToRESTConfig()
	return config, cmp.Or(*g.kube.Context, raw.CurrentContext), err
}

// kubeconfig reads the kubeconfig; its error says where it was looked for.
func (g *globalFlags) kubeconfig() (clientcmdapi.Config, error) {
	loader := g.kube.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return raw, fmt.Errorf("cannot read the kubeconfig %s: %w", path.Path, path.Err)
	}
	if err != nil {
		return raw, err
	}
	if context := *g.kube.Context; context != "" && raw.Contexts[context] == nil {
		return raw, fmt.Errorf("the kubeconfig has no context %q; it has %s", context, strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
	}
	_, inCluster := os.LookupEnv("KUBERNETES_SERVICE_HOST")
	if len(raw.Clusters) == 0 && *g.kube.APIServer == "" && !inCluster {
		return raw, fmt.Errorf("there is no kubeconfig: looked for %s; name one with --kubeconfig, or read a file with -f",
			strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", "))
	}
	return raw, nil
}

// namespace is the namespace of a pod or claim that is named without one.
func (g *globalFlags) namespace() (string, error) {
	if *g.kube.Namespace != "" {
		return *g.kube.Namespace, nil
	}
	if g.file != "" {
		return "default", nil
	}
	if _, err := g.kubeconfig(); err != nil {
		return "", err
	}
	name, _, err := g.kube.ToRawKubeConfigLoader().Namespace()
	return name, err
}
