package cmd

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// completionTime is how long a person who has pressed Tab is kept waiting.
const completionTime = 5 * time.Second

// shortKinds are the kinds as completion writes them, in the order in which it
// offers them.
var shortKinds = []struct {
	name string
	kind snapshot.Kind
}{
	{"pod", snapshot.Pods}, {"pvc", snapshot.Claims}, {"pv", snapshot.Volumes}, {"node", snapshot.Nodes}, {"volumeattachment", snapshot.VolumeAttachments},
}

// completeTargets completes KIND/NAME: first the kind, then the names that the
// cluster or the file has. most is how many the command takes, 0 any number.
func (g *globalFlags) completeTargets(streams genericiooptions.IOStreams, most int, kinds ...snapshot.Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		word, begin, named := strings.Cut(word, "/")
		if !named {
			var words []string
			for _, k := range shortKinds {
				if len(kinds) == 0 || slices.Contains(kinds, k.kind) {
					words = append(words, k.name+"/")
				}
			}
			return words, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		}
		kind, known := kindNames[strings.ToLower(word)]
		if !known || len(kinds) > 0 && !slices.Contains(kinds, kind) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		streams.ErrOut = io.Discard // whatever is said now lands in the line that is being typed
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		names, err := g.names(ctx, streams, kind)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var words []string
		for _, name := range names {
			if strings.HasPrefix(name, begin) {
				words = append(words, word+"/"+name)
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
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
	s, err := g.readFile(streams)
	if err != nil {
		return nil, err
	}
	var names []string
	add := func(in, name string) {
		if in == "" || in == namespace {
			names = append(names, name)
		}
	}
	switch kind {
	case snapshot.Pods:
		for _, o := range s.Pods {
			add(o.Namespace, o.Name)
		}
	case snapshot.Claims:
		for _, o := range s.Claims {
			add(o.Namespace, o.Name)
		}
	case snapshot.Volumes:
		for _, o := range s.Volumes {
			add("", o.Name)
		}
	case snapshot.Nodes:
		for _, o := range s.Nodes {
			add("", o.Name)
		}
	case snapshot.VolumeAttachments:
		for _, o := range s.VolumeAttachments {
			add("", o.Name)
		}
	default: // kindNames has no other
	}
	return names, nil
}

// didYouMean is what an unknown word may have been meant for, ready to stand
// behind the error; "" where nothing is near it.
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
