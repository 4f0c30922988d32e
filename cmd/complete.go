package cmd

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// completionTime is how long a person who has pressed Tab waits at most.
const completionTime = 5 * time.Second

// completeTargets completes KIND/NAME: first the kind, then the names in the cluster or the
// file. most is how many the command takes, 0 any number.
func (g *globalFlags) completeTargets(streams genericiooptions.IOStreams, most int, kinds ...snapshot.Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		word, begin, named := strings.Cut(word, "/")
		if !named {
			var words []string
			for _, r := range slices.Backward(snapshot.Resources()) { // the kinds that are asked about most come last there
				if len(r.Names) > 0 && (len(kinds) == 0 || slices.Contains(kinds, r.Kind)) {
					words = append(words, r.Names[0]+"/")
				}
			}
			if len(kinds) > 0 { // the name alone is enough
				names, directive := g.completeNames(cmd, streams, kinds[0], "", word)
				if len(kinds) == 1 {
					return names, directive
				}
				words = append(words, names...)
			}
			return words, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		}
		kind, known := kindNames[strings.ToLower(word)]
		if !known || len(kinds) > 0 && !slices.Contains(kinds, kind) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return g.completeNames(cmd, streams, kind, word+"/", begin)
	}
}

// completeNames completes the name of an object of the kind, after the text in before.
func (g *globalFlags) completeNames(cmd *cobra.Command, streams genericiooptions.IOStreams, kind snapshot.Kind, before, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
	streams.ErrOut = io.Discard // a message would land in the line that is being typed
	list := func(ctx context.Context) ([]string, error) { return g.names(ctx, streams, kind) }
	names, directive := completeWords(list)(cmd, nil, begin)
	return each(names, func(name string) string { return before + name }), directive
}

// completeGlobal completes those flags of every command whose values can be listed.
func (g *globalFlags) completeGlobal(root *cobra.Command, streams genericiooptions.IOStreams) {
	streams.ErrOut = io.Discard
	for flag, complete := range map[string]func(context.Context) ([]string, error){
		"namespace": func(ctx context.Context) ([]string, error) {
			c, err := g.connect(streams)
			if err != nil {
				return nil, err
			}
			return c.Names(ctx, "namespaces", "")
		},
		"context": func(context.Context) ([]string, error) {
			config, err := g.kubeconfig()
			return slices.Sorted(maps.Keys(config.Contexts)), err
		},
		"cluster": func(context.Context) ([]string, error) {
			config, err := g.kubeconfig()
			return slices.Sorted(maps.Keys(config.Clusters)), err
		},
		"user": func(context.Context) ([]string, error) {
			config, err := g.kubeconfig()
			return slices.Sorted(maps.Keys(config.AuthInfos)), err
		},
		"color": func(context.Context) ([]string, error) { return []string{"auto", "always", "never"}, nil },
	} {
		_ = root.RegisterFlagCompletionFunc(flag, completeWords(complete))
	}
}

// completeWords completes with the words that list returns.
func completeWords(list func(context.Context) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		words, err := list(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		words = slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, begin) })
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeApply completes the flags of --apply.
func (g *globalFlags) completeApply(cmd *cobra.Command, streams genericiooptions.IOStreams) {
	streams.ErrOut = io.Discard
	for flag, complete := range map[string]func(context.Context) ([]string, error){
		"allow":  func(context.Context) ([]string, error) { return repairKinds(), nil },
		"fenced": func(ctx context.Context) ([]string, error) { return g.names(ctx, streams, snapshot.Nodes) },
		"detached": func(ctx context.Context) ([]string, error) {
			return g.names(ctx, streams, snapshot.VolumeAttachments)
		},
		"dry-run": func(context.Context) ([]string, error) { return []string{"none", "client", "server"}, nil },
		"contexts": func(context.Context) ([]string, error) {
			config, err := g.kubeconfig()
			return slices.Sorted(maps.Keys(config.Contexts)), err
		},
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, completeWords(complete))
	}
}

func (g *globalFlags) names(ctx context.Context, streams genericiooptions.IOStreams, kind snapshot.Kind) ([]string, error) {
	namespace, err := g.namespace()
	if err != nil {
		return nil, err
	}
	if g.file == "" {
		c, err := g.connect(streams)
		if err != nil {
			return nil, err
		}
		return c.Names(ctx, kind, namespace)
	}
	g.all = true
	s, err := g.readFile(streams)
	if err != nil {
		return nil, err
	}
	switch kind {
	case snapshot.Pods:
		return namesIn(namespace, s.Pods), nil
	case snapshot.Claims:
		return namesIn(namespace, s.Claims), nil
	case snapshot.Volumes:
		return each(s.Volumes, (*corev1.PersistentVolume).GetName), nil
	case snapshot.Nodes:
		return each(s.Nodes, (*corev1.Node).GetName), nil
	case snapshot.VolumeAttachments:
		return each(s.VolumeAttachments, (*storagev1.VolumeAttachment).GetName), nil
	default: // kindNames has no others
		return nil, nil
	}
}

func namesIn[O metav1.Object](namespace string, objects []O) []string {
	var names []string
	for _, o := range objects {
		if o.GetNamespace() == namespace {
			names = append(names, o.GetName())
		}
	}
	return names
}

// didYouMean suggests the word that was probably meant, as an addition to the error; "" where
// none is similar.
func didYouMean(word string, candidates []string) string {
	near := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, c := range candidates {
		near.AddCommand(&cobra.Command{Use: c, Run: func(*cobra.Command, []string) {}})
	}
	found := near.SuggestionsFor(word)
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return "; did you mean " + strings.Join(found, " or ") + "?"
}
