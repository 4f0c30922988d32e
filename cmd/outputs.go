package cmd

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// outputFlags are the values of -o: FORMAT, or FORMAT=FILE.
type outputFlags struct {
	cmd     *cobra.Command
	values  []string
	formats []string
}

func (o *outputFlags) add(cmd *cobra.Command, formats []string) {
	o.cmd, o.formats = cmd, formats
	cmd.Flags().StringArrayVarP(&o.values, "output", "o", []string{"table"},
		"Output format: "+strings.Join(formats, ", ")+"; FORMAT=FILE writes to a file; repeatable")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

func (o *outputFlags) validate() error {
	toStdout := 0
	for _, value := range o.values {
		format, file, toFile := strings.Cut(value, "=")
		if !slices.Contains(o.formats, format) {
			return fmt.Errorf("unknown output format %q: use one of %s", format, strings.Join(o.formats, ", "))
		}
		if toFile && file == "" {
			return fmt.Errorf("-o %s names no file", value)
		}
		if !toFile {
			toStdout++
		}
	}
	if toStdout > 1 {
		return fmt.Errorf("only one -o can go to standard output: write the others as FORMAT=FILE")
	}
	return nil
}

// printTo prints the document in each format.
func printTo[D any](g *globalFlags, o *outputFlags, stdout io.Writer, document D, printed func(io.Writer, string, D, output.Options) error) error {
	return o.print(stdout, func(w io.Writer, format string) error {
		return printed(w, format, document, g.shown(w))
	})
}

// print calls render for each format with its destination.
func (o *outputFlags) print(stdout io.Writer, render func(w io.Writer, format string) error) error {
	for _, value := range o.values {
		format, file, toFile := strings.Cut(value, "=")
		if !toFile {
			if err := render(stdout, format); err != nil {
				return err
			}
			continue
		}
		if err := writeFile(o.cmd.Context(), file, func(w io.Writer) error { return render(w, format) }); err != nil {
			return err
		}
	}
	return nil
}

// each calls of for each item, and returns the results.
func each[T, R any](items []T, of func(T) R) []R {
	var made []R
	for _, item := range items {
		made = append(made, of(item))
	}
	return made
}
