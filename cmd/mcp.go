package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/mcp"
)

// shortestToken is the shortest length of a token that nobody guesses.
const shortestToken = 16

func newMCP(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var listen, tokenFile string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Let a language model ask: a server of the Model Context Protocol",
		Long: `mcp serves diagnose, trace, plan, explain and preflight as tools of the Model
Context Protocol. They only read. It speaks on standard input and output, or with
--listen over streamable HTTP. An answer has at most 2,000 tokens, and what comes
from the cluster stands in it between marks, as data.

The flags that name a cluster or a file, as --context, --kubeconfig, --as and -f,
hold for all calls. With --context or -f no call can name another cluster.`,
		Example: `  kubectl volume-doctor mcp --context staging
  kubectl volume-doctor mcp -f must-gather/
  kubectl volume-doctor mcp --listen 127.0.0.1:8765`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.validate(); err != nil {
				return err
			}
			if g.file == "-" {
				return errors.New("-f - does not go with mcp: name a file, which is read again for each call")
			}
			if tokenFile != "" && listen == "" {
				return errors.New("--token-file goes with --listen")
			}
			token, err := readToken(tokenFile)
			if err != nil {
				return err
			}
			s := mcp.New(mcp.Options{
				Run: inProcess, Base: setOnAll(cmd.InheritedFlags()), OneCluster: g.file != "" || slices.ContainsFunc(oneCluster, g.given),
				Version: Version(), Limit: mcp.DefaultLimit,
			})
			if listen == "" {
				return mcp.OverStdio(cmd.Context(), s, streams.In, streams.Out)
			}
			l, err := mcp.Listen(cmd.Context(), listen, token)
			if err != nil {
				return err
			}
			fmt.Fprintf(streams.ErrOut, "serving http://%s/\n", l.Addr())
			return mcp.OverHTTP(cmd.Context(), s, l, token, mcp.DefaultLimit)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "Serve HTTP at this address, as in 127.0.0.1:8765, instead of standard input and output")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "With --listen: the file of the token that clients have to send; needed at other addresses than loopback")
	return cmd
}

// setOnAll are the flags of all commands that are set, except those that only affect the
// display.
func setOnAll(flags *pflag.FlagSet) []string {
	return setFlags(flags, func(name string) bool { return name != "color" && name != "all-namespaces" })
}

func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < shortestToken || len(strings.Fields(token)) != 1 {
		return "", fmt.Errorf("--token-file %s needs one word of at least %d characters", file, shortestToken)
	}
	return token, nil
}

// inProcess runs a command within this process, and returns its exit code.
func inProcess(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
	stderr = &safeWriter{under: stderr}
	root := newRoot(genericiooptions.IOStreams{In: strings.NewReader(""), Out: captured{stdout}, ErrOut: stderr})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	sayError(stderr, err)
	return codeOf(err)
}
