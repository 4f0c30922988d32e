package cmd

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// versions are printed by the version command.
type versions struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	// Oldest and Newest are the Kubernetes releases whose controller is modelled.
	Oldest string `json:"oldestKubernetes"`
	Newest string `json:"newestKubernetes"`
}

func newVersion(streams genericiooptions.IOStreams) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of volume-doctor and of the controller that it models",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versions{Version(), commit(), runtime.Version(), reconcile.OldestModelled, reconcile.NewestModelled}
			switch format {
			case "":
				_, err := fmt.Fprintf(streams.Out, "kubectl volume-doctor %s\nmodel: attach/detach controllers of Kubernetes %s to %s\n", v.Version, v.Oldest, v.Newest)
				return err
			case "json":
				encoder := json.NewEncoder(streams.Out)
				encoder.SetIndent("", "  ")
				return encoder.Encode(v)
			case "yaml":
				text, err := yaml.Marshal(v)
				if err != nil {
					return err
				}
				_, err = streams.Out.Write(text)
				return err
			default:
				return fmt.Errorf("unknown output format %q: use json or yaml", format)
			}
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "", "Output format: json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// Version is the version that the Go tool wrote into the binary: the module's version after
// "go install", else the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

// commit is the commit from which the binary was built; "" if Go did not record it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return ""
}
