package output

import (
	"github.com/fatih/color"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

// stageTexts are the stages as a person says them.
var stageTexts = map[diagnose.StageName]string{
	diagnose.StageClaimBound: "claim bound", diagnose.StageAskedFor: "asked for",
	diagnose.StageRegistered: "driver registered", diagnose.StageStopped: "containers stopped",
}

func stageText(name diagnose.StageName) string {
	if text, ok := stageTexts[name]; ok {
		return text
	}
	return string(name)
}

var traceWaits = map[diagnose.TraceWait]string{
	diagnose.TraceNoWait: "no volume is waited for", diagnose.TraceInFlight: "in flight",
	diagnose.TraceStuck: "stuck", diagnose.TraceUnsure: "unknown",
}

func paintWait(state diagnose.TraceWait, opts Options) string {
	text := traceWaits[state]
	switch state {
	case diagnose.TraceNoWait:
		return paint(opts.Color, text, color.FgGreen)
	case diagnose.TraceInFlight:
		return paint(opts.Color, text, color.FgCyan)
	case diagnose.TraceStuck:
		return paint(opts.Color, text, color.FgRed, color.Bold)
	default:
		return paint(opts.Color, text, color.FgYellow, color.Bold)
	}
}

func paintStage(s diagnose.Stage, text string, opts Options) string {
	switch {
	case s.State == diagnose.StageDone:
		return paint(opts.Color, text, color.FgGreen)
	case s.State == diagnose.StageBlocked || s.Overdue:
		return paint(opts.Color, text, color.FgRed, color.Bold)
	case s.State == diagnose.StageWaiting:
		return paint(opts.Color, text, color.FgCyan)
	case s.State == diagnose.StageUnknown:
		return paint(opts.Color, text, color.FgYellow)
	default:
		return text
	}
}

func stateText(s diagnose.Stage) string {
	if s.State == diagnose.StageNotNeeded {
		return "not needed"
	}
	return string(s.State)
}
