package cmd

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// No text is laid out for a terminal narrower than narrowest, and none becomes wider than
// widest: longer lines are hard to read.
const (
	narrowest = 80
	widest    = 140
)

// shown are the options for output to out.
func (g *globalFlags) shown(out io.Writer) output.Options {
	return output.Options{Color: g.paints(out), Width: columns(out)}
}

// captured is output that a program reads, whatever the terminal's width.
type captured struct{ io.Writer }

// columns is the width in COLUMNS, or else the terminal's; 0 where out is no terminal.
func columns(out io.Writer) int {
	if _, ok := out.(captured); ok {
		return 0
	}
	asked, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil || asked <= 0 {
		file, ok := out.(*os.File)
		if !ok {
			return 0
		}
		if asked, _, err = term.GetSize(int(file.Fd())); err != nil || asked <= 0 {
			return 0
		}
	}
	return min(max(asked, narrowest), widest)
}
