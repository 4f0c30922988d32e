package cmd

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// outputFlags are the values of -o: FORMAT, or FORMAT=FILE.
type outputFlags struct {
	values  []string
	formats []string
}

func (o *outputFlags) add(cmd *cobra.Command, formats []string) {
	o.formats = formats
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

// print calls render for each format with where it goes to.
func (o *outputFlags) print(stdout io.Writer, render func(w io.Writer, format string) error) error {
	for _, value := range o.values {
		format, file, toFile := strings.Cut(value, "=")
		if !toFile {
			if err := render(stdout, format); err != nil {
				return err
			}
			continue
		}
		if err := writeFile(file, func(w io.Writer) error { return render(w, format) }); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
