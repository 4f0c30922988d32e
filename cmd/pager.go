package cmd

import (
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"

	"github.com/fatih/color"
	"k8s.io/cli-runtime/pkg/printers"
)

// showPage writes a page: unchanged to a file or a pipe, and to a terminal without its
// Markdown and through a pager.
func (g *globalFlags) showPage(ctx context.Context, out io.Writer, text string) error {
	if g.paints(out) {
		text = rendered(text)
	}
	pager := pagerOf(os.LookupEnv)
	if !printers.IsTerminal(out) || pager == "" {
		_, err := io.WriteString(out, text)
		return err
	}
	c := exec.CommandContext(ctx, "sh", "-c", pager)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(text), out, os.Stderr
	return c.Run()
}

// pagerOf is the command line of the user's pager; "" for none.
func pagerOf(env func(string) (string, bool)) string {
	pager, set := env("PAGER")
	switch {
	case runtime.GOOS == "windows" || pager == "cat":
		return ""
	case set:
		return pager
	}
	if _, err := exec.LookPath("less"); err != nil {
		return ""
	}
	return "less -FRX" // less ends by itself where the page fits the screen
}

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	inTicks = regexp.MustCompile("`([^`]+)`")
)

// rendered is a page with bold headings and coloured names instead of their marks.
func rendered(text string) string {
	bold, name := color.New(color.Bold), color.New(color.FgCyan)
	bold.EnableColor()
	name.EnableColor()
	text = heading.ReplaceAllStringFunc(text, func(line string) string { return bold.Sprint(strings.TrimLeft(line, "# ")) })
	return inTicks.ReplaceAllStringFunc(text, func(quoted string) string { return name.Sprint(strings.Trim(quoted, "`")) })
}
