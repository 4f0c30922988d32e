package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// read takes the snapshot that the flags ask for: of a file or of the cluster.
func (g *globalFlags) read(ctx context.Context, streams genericiooptions.IOStreams) (*snapshot.Snapshot, error) {
	return g.readAs(streams, func(c watched) (*snapshot.Snapshot, error) { return c.Snapshot(ctx) })
}

// readAs is read where live reads the cluster.
func (g *globalFlags) readAs(streams genericiooptions.IOStreams, live func(watched) (*snapshot.Snapshot, error)) (*snapshot.Snapshot, error) {
	var s *snapshot.Snapshot
	var err error
	if g.file != "" {
		s, err = g.readFile(streams)
	} else {
		var c watched
		if c, err = g.connect(streams); err != nil {
			return nil, err
		}
		s, err = live(c)
	}
	if err != nil {
		return nil, err
	}
	g.assumeVersion(s, streams.ErrOut)
	return s, nil
}

// takePod reads what there is to tell of the pod: its reach where that suffices,
// else the whole cluster. To trace it takes everyClaim.
func (g *globalFlags) takePod(ctx context.Context, c watched, pod types.NamespacedName, everyClaim bool) (*snapshot.Snapshot, error) {
	wanted := diagnose.ReachOf(pod)
	wanted.EveryClaim = everyClaim
	return c.SnapshotOf(ctx, wanted, func(s *snapshot.Snapshot) bool {
		g.assumeVersion(s, io.Discard)
		return diagnose.Suffices(s, pod, g.options())
	})
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
	s, warnings, err := g.decode(streams, opts)
	for _, w := range warnings {
		fmt.Fprintf(streams.ErrOut, "warning: %s\n", w)
	}
	return s, err
}

func (g *globalFlags) decode(streams genericiooptions.IOStreams, opts snapshot.ReadOptions) (*snapshot.Snapshot, []snapshot.Warning, error) {
	if g.file == "-" {
		return snapshot.Read("standard input", streams.In, opts)
	}
	info, err := os.Stat(g.file)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, nil, fmt.Errorf("cannot read %s: %w", g.file, err)
	}
	if info.IsDir() {
		return snapshot.ReadFS(g.file, os.DirFS(g.file), opts)
	}
	f, err := os.Open(g.file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return snapshot.Read(g.file, f, opts)
}

// connect makes ready to talk to the cluster of the kubeconfig.
func (g *globalFlags) connect(streams genericiooptions.IOStreams) (watched, error) {
	config, err := g.kube.ToRESTConfig()
	if err != nil {
		return watched{}, err
	}
	raw, err := g.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return watched{}, err
	}
	name := raw.CurrentContext
	if *g.kube.Context != "" {
		name = *g.kube.Context
	}
	p := &progress{w: streams.ErrOut}
	c, err := cluster.New(config, cluster.Options{
		Context: name, Namespace: *g.kube.Namespace, Progress: p.read, PageSize: g.chunkSize, Asked: g.asks, All: g.all,
	})
	return watched{c, p}, err
}

// namespace is the one that a bare pod or claim name is looked for in.
func (g *globalFlags) namespace() (string, error) {
	if *g.kube.Namespace != "" {
		return *g.kube.Namespace, nil
	}
	if g.file != "" {
		return "default", nil
	}
	name, _, err := g.kube.ToRawKubeConfigLoader().Namespace()
	return name, err
}
