package output

import (
	"cmp"

	"github.com/fatih/color"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
)

// stageTexts are the stages in words, where the name alone is not enough.
var stageTexts = map[trace.StageName]string{
	trace.StageClaimBound: "claim bound", trace.StageInVolumesInUse: "in volumesInUse",
	trace.StageInVolumesAttached: "in volumesAttached",
	trace.StageRegistered:        "driver registered", trace.StageStopped: "containers stopped",
}

func stageText(name trace.StageName) string {
	return cmp.Or(stageTexts[name], string(name))
}

var traceWaits = map[finding.WaitState]string{
	finding.NoWait: "no volume is waited for", finding.InFlight: "in flight",
	finding.Stuck: "stuck", finding.Unsure: "unknown",
}

// paintVerdict returns the verdict on the pod.
func paintVerdict(t *trace.Trace, opts Options) string {
	return paintVerdictAs(traceWaits, t.Verdict.State, t, opts)
}

// paintVerdictAs shows that nothing waits as good only if everything was read and no check found
// anything.
func paintVerdictAs(texts map[finding.WaitState]string, state finding.WaitState, of trace.Document, opts Options) string {
	but := ""
	switch unknown, wrong := of.Found(false); {
	case state != finding.NoWait:
	case wrong:
		but = ", but something is wrong"
	case unknown:
		but = ", as far as was read"
	}
	if but != "" {
		return paint(opts.Color, texts[state]+but, color.FgYellow, color.Bold)
	}
	return paintWaitAs(texts, state, opts)
}

func paintWaitAs(texts map[finding.WaitState]string, state finding.WaitState, opts Options) string {
	text := texts[state]
	switch state {
	case finding.NoWait:
		return paint(opts.Color, text, color.FgGreen)
	case finding.InFlight:
		return paint(opts.Color, text, color.FgCyan)
	case finding.Stuck:
		return paint(opts.Color, text, color.FgRed, color.Bold)
	default:
		return paint(opts.Color, text, color.FgYellow, color.Bold)
	}
}

func paintStage(s trace.Stage, v trace.VolumeTrace, text string, opts Options) string {
	switch {
	case s.State == trace.StageDone:
		return paint(opts.Color, text, color.FgGreen)
	case stageFails(s, v):
		return paint(opts.Color, text, color.FgRed, color.Bold)
	case (s.State == trace.StageWaiting || s.State == trace.StageBlocked) && s.Stage == v.Broken:
		return paint(opts.Color, text, color.FgCyan)
	case s.State == trace.StageUnknown:
		return paint(opts.Color, text, color.FgYellow)
	default:
		return text
	}
}

func stateText(s trace.Stage) string {
	if s.State == trace.StageNotNeeded {
		return "not needed"
	}
	return string(s.State)
}
