package cmd

import (
	"cmp"
	"fmt"
	"io"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// reportPrinter prints reports, and decides their exit code.
type reportPrinter struct {
	*globalFlags
	outputs   outputFlags
	failOn    string
	allowGaps bool
	quiet     bool
}

func (p *reportPrinter) validate() error {
	if err := cmp.Or(p.globalFlags.validate(), p.outputs.validate()); err != nil {
		return err
	}
	switch finding.Severity(p.failOn) {
	case finding.Error, finding.Warning, finding.Info, finding.Never:
		return nil
	default:
		return fmt.Errorf("--fail-on is error, warning, info or never, not %q", p.failOn)
	}
}

// finish prints the report and returns its exit code, which is at least atLeast.
func (p *reportPrinter) finish(streams genericiooptions.IOStreams, r *finding.Report, atLeast int) error {
	stdout := streams.Out
	if p.quiet && len(r.Findings) == 0 && r.Complete {
		stdout = io.Discard
	}
	err := p.outputs.print(stdout, func(w io.Writer, format string) error {
		return output.ReportFormats.Print(w, format, r, p.shown(w))
	})
	switch {
	case err != nil:
		return err
	case atLeast != exitHealthy:
		return exitCode(atLeast)
	default:
		return p.verdict(r)
	}
}

// verdict is the exit code of the report itself.
func (p *reportPrinter) verdict(r *finding.Report) error {
	return exitWith(!r.Complete && !p.allowGaps, r.Reaches(finding.Severity(p.failOn)))
}
