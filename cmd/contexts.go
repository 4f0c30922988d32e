package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// contextsAtOnce bounds the clusters that are held in memory side by side.
const contextsAtOnce = 4

// everything is what is missing of a cluster that cannot be reached.
const everything snapshot.Kind = "*"

// oneCluster are the flags that name one cluster, or one way to it.
var oneCluster = []string{
	"context", "cluster", "server", "tls-server-name", "certificate-authority", "user", "token", "client-certificate", "client-key",
	"filename", "controller", "backend", "apply", "events", "selector",
}

func validateContexts(names []string, flags *pflag.FlagSet, args []string) error {
	if len(names) == 0 {
		return errors.New("--contexts names no context")
	}
	seen := map[string]bool{}
	for _, name := range names {
		if name == "" || seen[name] {
			return fmt.Errorf("--contexts %s: each context is named once", strings.Join(names, ","))
		}
		seen[name] = true
	}
	for _, flag := range oneCluster {
		if flags.Changed(flag) {
			return fmt.Errorf("--contexts and --%s exclude each other", flag)
		}
	}
	if len(args) > 0 {
		return fmt.Errorf("--contexts examines whole clusters: %q is in one of them; -n narrows the report", args[0])
	}
	return nil
}

// acrossContexts examines several clusters and makes one report of it. One that
// cannot be read is a gap in it, and takes nothing from the others.
type acrossContexts struct {
	*examination
	contexts []string
}

func (m *acrossContexts) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	config, err := m.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return err
	}
	for _, name := range m.contexts {
		if config.Contexts[name] == nil {
			return fmt.Errorf("--contexts: the kubeconfig has no context %q", name)
		}
	}
	reports, errs := make([]*finding.Report, len(m.contexts)), make([]error, len(m.contexts))
	used := make([]bool, len(m.contexts))
	var warnings sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, contextsAtOnce)
	for i, name := range m.contexts {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			there := streams
			there.ErrOut = &prefixed{prefix: name + ": ", w: streams.ErrOut, mu: &warnings}
			reports[i], used[i], errs[i] = m.inContext(ctx, name, there)
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	atLeast := exitHealthy
	var unread []string
	for i, name := range m.contexts {
		if errs[i] == nil {
			continue
		}
		atLeast, used[i] = exitNoAnswer, true
		text := oneLine(errs[i].Error())
		unread = append(unread, name+": "+text)
		reports[i] = &finding.Report{
			Source: snapshot.Source{Context: name},
			Gaps:   []snapshot.Gap{{Kind: everything, Reason: snapshot.ReasonUnavailable, Detail: safetext.Redact(text)}},
		}
	}
	if len(unread) == len(m.contexts) {
		return fmt.Errorf("no cluster could be read: %s", strings.Join(unread, "; "))
	}
	if !slices.Contains(used, true) {
		return m.unused()
	}
	for _, text := range unread {
		fmt.Fprintf(streams.ErrOut, "error: %s\n", output.Safe(text))
	}
	all := finding.Merge(reports)
	m.leaveOut.sayExpired(streams.ErrOut, all.TakenAt.Time)
	if err := m.leaveOut.from(all); err != nil {
		return err
	}
	return m.finish(streams, all, atLeast)
}

// inContext is the report on one of the clusters, and says whether it uses the
// namespace of -n: any of several may lack it, but not all.
func (m *acrossContexts) inContext(ctx context.Context, name string, streams genericiooptions.IOStreams) (r *finding.Report, used bool, err error) {
	global, there := *m.globalFlags, *m.examination
	global.kube = ofContext(m.kube, name)
	there.globalFlags = &global
	c, err := there.connectTo(ctx, streams)
	if err != nil {
		return nil, false, err
	}
	s, first, err := there.readTwice(ctx, c, streams.ErrOut)
	if err != nil {
		return nil, false, err
	}
	if used, err = there.usesNamespace(ctx, c.Cluster, s); err != nil {
		return nil, false, err
	}
	view, _, err := there.look(s, first)
	if err != nil {
		return nil, false, err
	}
	return view.Report, used, nil
}

// ofContext is a copy of the flags for another context: what they have made of
// the kubeconfig they keep, and so cannot be shared.
func ofContext(flags *genericclioptions.ConfigFlags, name string) *genericclioptions.ConfigFlags {
	c := genericclioptions.NewConfigFlags(true)
	c.KubeConfig, c.CacheDir, c.Namespace, c.Timeout = flags.KubeConfig, flags.CacheDir, flags.Namespace, flags.Timeout
	c.Impersonate, c.ImpersonateUID, c.ImpersonateGroup = flags.Impersonate, flags.ImpersonateUID, flags.ImpersonateGroup
	c.ImpersonateUserExtra, c.Insecure, c.DisableCompression = flags.ImpersonateUserExtra, flags.Insecure, flags.DisableCompression
	c.Context = &name
	return c
}

// prefixed puts a name before each line, and keeps the lines of several writers
// whole: each Write is one or more of them.
type prefixed struct {
	prefix string
	w      io.Writer
	mu     *sync.Mutex
}

func (p *prefixed) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for line := range bytes.Lines(text) {
		_, err := fmt.Fprintf(p.w, "%s%s", p.prefix, line)
		errs = append(errs, err)
	}
	return len(text), errors.Join(errs...)
}
