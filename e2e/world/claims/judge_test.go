package claims

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var gap = []snapshot.Gap{{Kind: snapshot.Pods, Reason: snapshot.ReasonForbidden}}

var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func at(minutes float64) time.Time { return began.Add(time.Duration(minutes * float64(time.Minute))) }

func looksAt(minutes float64, findings []finding.Finding, waiting ...finding.Waiting) Look {
	l := Look{At: at(minutes), Report: finding.Report{Findings: findings, Waiting: waiting}}
	for _, f := range findings {
		if f.Severity == finding.Info {
			l.Report.Summary.Info++
		} else {
			l.Report.Summary.Error++
		}
	}
	return l
}

// TestJudges: each judge notices the false claim that it is there for, and lets the true one
// pass. In all of them one pod waits from minute 1 on.
func TestJudges(t *testing.T) {
	serves := func(minutes float64) []Pod {
		p := Pod{Name: "shop/db-0", Claims: []string{"data"}, Node: "n1", Created: at(1), Scheduled: at(1)}
		if minutes > 0 {
			p.Running = at(minutes)
		}
		return []Pod{p}
	}
	// rebooted is a pod whose machine was off from minute 2 to 3, and which runs again then or never.
	rebooted := func(minutes float64) []Pod {
		p := serves(1.5)
		p[0].Stopped = []Span{{From: at(3)}}
		if minutes > 0 {
			p[0].Stopped[0].To = at(minutes)
		}
		return p
	}
	two := func(pods []Pod) []Pod {
		pods[0].Claims = append(pods[0].Claims, "log")
		return pods
	}
	const volume = "kubernetes.io/csi/d^vol-1"
	about := func(f finding.Finding) []finding.Finding {
		f.Code, f.Severity, f.Pods, f.Volume, f.Fingerprint = "VD413", finding.Error, []string{"shop/db-0"}, volume, "1"
		return []finding.Finding{f}
	}
	never := about(finding.Finding{})
	soon := about(finding.Finding{SelfHeals: finding.SelfHeals{Will: true, After: "2m0s"}})
	suspected := about(finding.Finding{Confidence: finding.Suspected})
	unknown := about(finding.Finding{SelfHeals: finding.SelfHeals{Unknown: true}})
	of := func(code finding.Code) []finding.Finding {
		named := slices.Clone(never)
		named[0].Code = code
		return named
	}
	another := slices.Clone(never)
	another[0].Fingerprint = "2"
	away, unmounted, rest := of("VD604"), of("VD411"), of("VD409")
	acts := func(actor string) finding.Waiting {
		return finding.Waiting{Pod: "shop/db-0", Verdict: finding.Stuck, Stage: "mounted", Actor: actor}
	}
	waits := func(verdict finding.WaitState, due float64) finding.Waiting {
		w := finding.Waiting{Pod: "shop/db-0", Verdict: verdict, Stage: "attached", Actor: "the driver"}
		if verdict == finding.InFlight {
			t := metav1.NewTime(at(due))
			w.DueAt = &t
		}
		return w
	}
	ofVolume := func(volume string, w finding.Waiting) finding.Waiting {
		w.Volume = volume
		return w
	}
	hands := func(verdict finding.WaitState, due float64) finding.Waiting {
		w := waits(verdict, due)
		w.Actor = "the attacher"
		return w
	}
	// on lets the kubelet of n2 act, which has the volume yet.
	on := func(w finding.Waiting) finding.Waiting {
		w.Actor = "the kubelet of n2"
		return w
	}
	// handedOver are a refused attach, and the detach elsewhere that ends what it was refused for.
	handedOver := []Try{{At: at(3), Call: "ControllerPublishVolume", Volume: "vol-1", Node: "n1", Failed: true}, {At: at(4), Call: "ControllerUnpublishVolume", Volume: "vol-1", Node: "n2"}}
	refused := acts("CSI driver d or its external-attacher")
	refused.Node = "n1"
	// lacks is a pod whose claim is not there, which somebody has deleted, and provisioned one whose claim is.
	lacks, provisioned := acts("whoever is to create persistentvolumeclaim/data"), waits(finding.Unsure, 0)
	provisioned.Stage = lacks.Stage
	unsureOf := func(w finding.Waiting) finding.Waiting {
		w.Verdict = finding.Unsure
		return w
	}
	attached := func(name string, l Look) Look {
		l.Attached = []string{name}
		return l
	}
	changes := func(attachments string, l Look) Look {
		l.Attachments = attachments
		return l
	}
	for name, c := range map[string]struct {
		record Record
		want   string
	}{
		"a pod without a word that waits on":      {Record{Pods: serves(0), Looks: []Look{looksAt(5, nil)}}, "nothing is wrong "},
		"a pod without a word that runs soon":     {Record{Pods: serves(6), Looks: []Look{looksAt(5, nil)}}, ""},
		"a pod that has only begun to wait":       {Record{Pods: serves(0), Looks: []Look{looksAt(1.1, nil)}}, ""},
		"a pod whose kubelet does not run":        {Record{Pods: serves(0), Looks: []Look{looksAt(5, nil)}, Stopped: map[string][]Span{"n1": {{From: at(4)}}}}, ""},
		"a rebooted pod without a word":           {Record{Pods: rebooted(0), Looks: []Look{looksAt(5, nil)}}, "nothing is wrong "},
		"a rebooted pod that runs again soon":     {Record{Pods: rebooted(6), Looks: []Look{looksAt(5, nil)}}, ""},
		"a rebooted pod that runs again, healed":  {Record{Pods: rebooted(20), Looks: []Look{looksAt(5, never)}}, "does not heal VD413"},
		"a pod without a word, and somebody acts": {Record{Pods: serves(0), Looks: []Look{looksAt(5, nil)}, Acts: []Act{{At: at(6)}}}, ""},
		"a gap":                               {Record{Looks: []Look{{At: at(5), Report: finding.Report{Gaps: gap}}}}, "exit code "},
		"stuck without a finding":             {Record{Pods: serves(0), Looks: []Look{looksAt(5, nil, waits(finding.Stuck, 0))}}, "exit code "},
		"exit 0 while it is stuck":            {Record{Pods: serves(0), Looks: []Look{looksAt(5, never, waits(finding.Stuck, 0)), looksAt(6, nil, waits(finding.Unsure, 0))}}, "exit code "},
		"exit 0 when the claim is made":       {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "delete the claim"}}, Looks: []Look{looksAt(5, never, lacks), looksAt(6, nil, provisioned)}}, ""},
		"exit 0 while the claim is not there": {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "delete the claim"}}, Looks: []Look{looksAt(5, never, lacks), looksAt(6, nil, unsureOf(lacks))}}, "exit code "},
		"exit 0 when a cure begins to show":   {Record{Pods: serves(0), Acts: []Act{{At: at(4.9), Shown: at(5.4)}}, Looks: []Look{looksAt(5, never, waits(finding.Stuck, 0)), looksAt(6, nil, waits(finding.Unsure, 0))}}, ""},
		"exit 0 of what was done meanwhile":   {Record{Pods: serves(0), Acts: []Act{{At: at(6.1)}}, Looks: []Look{looksAt(5, never, waits(finding.Stuck, 0)), {At: at(6), Until: at(6.2)}}}, ""},
		"a trace of long ago":                 {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(1), To: at(2)}, Kind: "delete the node"}}, Looks: []Look{looksAt(20, of("VD302"))}}, ""},
		"an entry comes back after an edit":   {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(1)}, Kind: "drop the entry"}}, Looks: []Look{looksAt(20, of("VD302"))}}, ""},
		"an entry comes back, and no edit":    {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(1)}, Kind: "run a second pod"}}, Looks: []Look{looksAt(20, of("VD302"))}}, "cause VD302"},
		"exit 0 when a call succeeds at last": {Record{Pods: serves(0), Tries: []Try{{At: at(4), Call: "Attach", Volume: "vol-1", Failed: true}, {At: at(5.5), Call: "Attach", Volume: "vol-1"}}, Looks: []Look{looksAt(5, never, waits(finding.Stuck, 0)), looksAt(6, nil, waits(finding.Unsure, 0))}}, ""},
		"exit 0 when another call succeeds":   {Record{Pods: serves(0), Tries: []Try{{At: at(5.5), Call: "Attach", Volume: "vol-2"}}, Looks: []Look{looksAt(5, never, waits(finding.Stuck, 0)), looksAt(6, nil, waits(finding.Unsure, 0))}}, "exit code "},
		"exit 0 when a detach begins":         {Record{Pods: serves(0), Looks: []Look{looksAt(5, never, waits(finding.Stuck, 0)), changes("; pv1 on n1 is being deleted", looksAt(6, nil, waits(finding.Unsure, 0)))}}, ""},
		"exit 0 when another node has it now": {Record{Pods: serves(0), Looks: []Look{attached("va1", looksAt(5, never, waits(finding.Stuck, 0))), attached("va2", looksAt(6, nil, waits(finding.Unsure, 0)))}}, ""},
		"exit 0 when the same node has it":    {Record{Pods: serves(0), Looks: []Look{attached("va1", looksAt(5, never, waits(finding.Stuck, 0))), attached("va1", looksAt(6, nil, waits(finding.Unsure, 0)))}}, "exit code "},
		"exit 0 when the user has gone":       {Record{Pods: append(serves(0), Pod{Name: "shop/db-old", Claims: []string{"data"}, Created: at(0), Gone: at(5.5)}), Looks: []Look{looksAt(5, never, waits(finding.Stuck, 0)), looksAt(6, nil, waits(finding.Unsure, 0))}}, ""},
		"exit 0 when a stranger has gone":     {Record{Pods: append(serves(0), Pod{Name: "shop/web-0", Claims: []string{"web"}, Created: at(0), Gone: at(5.5)}), Looks: []Look{looksAt(5, never, waits(finding.Stuck, 0)), looksAt(6, nil, waits(finding.Unsure, 0))}}, "exit code "},
		"exit 0 when the driver answers":      {Record{Pods: serves(0), Looks: []Look{changes("; pv1 on n1 is not attached", looksAt(5, never, waits(finding.Stuck, 0))), changes("; pv1 on n1 is not attached, refused", looksAt(6, nil, waits(finding.Unsure, 0)))}}, "exit code "},
		"exit 0 when it runs":                 {Record{Pods: serves(5.5), Acts: []Act{{At: at(5.2)}}, Looks: []Look{looksAt(5, never, waits(finding.Stuck, 0)), looksAt(6, nil)}}, ""},
		"in flight past its time":             {Record{Pods: serves(0), Looks: []Look{looksAt(5, nil, waits(finding.InFlight, 6)), looksAt(6.5, nil, waits(finding.InFlight, 8))}}, "in flight "},
		"another part acts, and is due later": {Record{Pods: serves(0), Looks: []Look{looksAt(5, nil, waits(finding.InFlight, 6)), looksAt(6.5, nil, hands(finding.InFlight, 8.5))}}, ""},
		"another part acts, and due too late": {Record{Pods: serves(0), Looks: []Look{looksAt(5, nil, waits(finding.InFlight, 6)), looksAt(6.5, nil, hands(finding.InFlight, 10))}}, "in flight "},
		"one of two volumes comes, and the other is due later": {Record{Pods: two(serves(0)), Tries: []Try{{At: at(5.5), Call: "ControllerPublishVolume", Volume: "vol-2", Node: "n1"}},
			Looks: []Look{looksAt(5, nil, waits(finding.InFlight, 6)), looksAt(6.5, nil, waits(finding.InFlight, 8))}}, ""},
		"one of two volumes goes, and the other is due later": {Record{Pods: two(serves(0)), Tries: []Try{{At: at(5.5), Call: "ControllerUnpublishVolume", Volume: "vol-2", Node: "n1"}},
			Looks: []Look{looksAt(5, nil, waits(finding.InFlight, 6)), looksAt(6.5, nil, waits(finding.InFlight, 8))}}, "in flight "},
		"one of two volumes was mounted before, and the other is due later": {Record{Pods: two(serves(0)), Tries: []Try{{At: at(4), Call: "NodePublishVolume", Volume: "vol-2", Node: "n1"}},
			Looks: []Look{looksAt(5, nil, waits(finding.InFlight, 6)), looksAt(6.5, nil, waits(finding.InFlight, 8))}}, ""},
		"one of two volumes was attached before, and the other is due later": {Record{Pods: two(serves(0)), Tries: []Try{{At: at(4), Call: "ControllerPublishVolume", Volume: "vol-2", Node: "n1"}},
			Looks: []Look{looksAt(5, nil, waits(finding.InFlight, 6)), looksAt(6.5, nil, waits(finding.InFlight, 8))}}, "in flight "},
		"its only volume comes, and is due later": {Record{Pods: serves(0), Tries: []Try{{At: at(5.5), Call: "ControllerPublishVolume", Volume: "vol-1", Node: "n1"}},
			Looks: []Look{looksAt(5, nil, waits(finding.InFlight, 6)), looksAt(6.5, nil, waits(finding.InFlight, 8))}}, "in flight "},
		"the driver begins to fail": {Record{Pods: serves(0), Breaks: []Try{{At: at(4.9), Call: "Attach"}}, Tries: []Try{{At: at(5.5), Call: "Attach", Volume: "vol-1", Failed: true}},
			Looks: []Look{looksAt(5, nil, waits(finding.InFlight, 6)), looksAt(6.5, nil, waits(finding.InFlight, 8))}}, ""},
		"the driver has failed before": {Record{Pods: serves(0), Breaks: []Try{{At: at(4), Call: "Attach"}}, Tries: []Try{{At: at(4.5), Call: "Attach", Volume: "vol-1", Failed: true}, {At: at(5.5), Call: "Attach", Volume: "vol-1", Failed: true}},
			Looks: []Look{looksAt(5, nil, waits(finding.InFlight, 6)), looksAt(6.5, nil, waits(finding.InFlight, 8))}}, "in flight "},
		"a node is lost, and its part is due later": {Record{Pods: serves(0), GivenUp: map[string][]time.Time{"n2": {at(5.7)}}, Looks: []Look{looksAt(5, nil, on(waits(finding.InFlight, 6))), looksAt(6.5, nil, waits(finding.InFlight, 11))}}, ""},
		"another node is lost, and it is due later": {Record{Pods: serves(0), GivenUp: map[string][]time.Time{"n1": {at(5.7)}}, Looks: []Look{looksAt(5, nil, on(waits(finding.InFlight, 6))), looksAt(6.5, nil, waits(finding.InFlight, 11))}}, "in flight "},
		"exit 0 when the node is lost":              {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "stop the kubelet", Node: "n2"}}, GivenUp: map[string][]time.Time{"n2": {at(5.7)}}, Looks: []Look{looksAt(5, never, on(waits(finding.Stuck, 0))), looksAt(6, nil, waits(finding.Unsure, 0))}}, ""},
		"exit 0 when the node was lost before":      {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "stop the kubelet", Node: "n2"}}, GivenUp: map[string][]time.Time{"n2": {at(4.7)}}, Looks: []Look{looksAt(5, never, on(waits(finding.Stuck, 0))), looksAt(6, nil, waits(finding.Unsure, 0))}}, "exit code "},
		"stuck when its time has come":              {Record{Pods: serves(0), Looks: []Look{looksAt(5, nil, waits(finding.InFlight, 6)), looksAt(6.5, never, waits(finding.Stuck, 0))}}, ""},
		"stuck, then in flight":                     {Record{Pods: serves(0), Looks: []Look{looksAt(5, never, waits(finding.Stuck, 0)), looksAt(5.5, suspected, waits(finding.InFlight, 40))}}, "in flight "},
		"stuck, then in flight for another volume":  {Record{Pods: serves(0), Looks: []Look{looksAt(5, never, ofVolume("log", waits(finding.Stuck, 0))), looksAt(5.5, suspected, ofVolume("data", waits(finding.InFlight, 40)))}}, ""},
		"in flight, and certain not to heal":        {Record{Pods: serves(0), Looks: []Look{looksAt(5, never, waits(finding.InFlight, 40))}}, "in flight VD413"},
		"does not heal, and does":                   {Record{Pods: serves(20), Looks: []Look{looksAt(5, never)}}, "does not heal VD413"},
		"does not heal, and does not":               {Record{Pods: serves(0), Looks: []Look{looksAt(5, never)}}, ""},
		"does not heal, and somebody heals it":      {Record{Pods: serves(20), Acts: []Act{{At: at(19)}}, Looks: []Look{looksAt(5, never)}}, ""},
		"nobody knows whether it heals":             {Record{Pods: serves(20), Looks: []Look{looksAt(5, unknown)}}, ""},
		"its cause was made":                        {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "stop the attacher"}}, Looks: []Look{looksAt(5, away)}}, ""},
		"its cause was made while it was read":      {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(5.05)}, Kind: "stop the attacher"}}, Looks: []Look{{At: at(5), Until: at(5.1), Report: looksAt(5, away).Report}}}, ""},
		"its cause is long over":                    {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(1), To: at(2)}, Kind: "stop the attacher"}}, Looks: []Look{looksAt(20, away)}}, "cause VD604"},
		"another cause was made":                    {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "stop the manager"}}, Looks: []Look{looksAt(5, away)}}, "cause VD604"},
		"a cause of another volume":                 {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "NodeStageVolume hangs", Volume: "vol-2"}}, Looks: []Look{looksAt(5, unmounted)}}, "cause VD411"},
		"the rest, and something is wrong":          {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "stop the manager"}}, Looks: []Look{looksAt(5, rest)}}, ""},
		"the rest, and only a node is drained":      {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "drain"}}, Looks: []Look{looksAt(5, rest)}}, "cause VD409"},
		"it acts with which something is wrong":     {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "NodeStageVolume hangs"}}, Looks: []Look{looksAt(5, never, acts("CSI driver d on n1"))}}, ""},
		"it acts with which nothing is wrong":       {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "NodeStageVolume hangs"}}, Looks: []Look{looksAt(5, never, acts("CSI driver d"))}}, "actor "},
		"what follows waits for the controller":     {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(1), To: at(3)}, Kind: "delete the node"}, {Span: Span{From: at(2), To: at(9)}, Kind: "stop the manager"}, {Span: Span{From: at(4), To: at(8)}, Kind: "stop the attacher"}}, Looks: []Look{looksAt(16, never, acts("CSI driver d"))}}, ""},
		"what follows has had its time":             {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(1), To: at(3)}, Kind: "delete the node"}, {Span: Span{From: at(2), To: at(9)}, Kind: "stop the manager"}}, Looks: []Look{looksAt(18, never, acts("node n1"))}}, "actor "},
		"the controller keeps to the old modes":     {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "edit the access modes"}}, Looks: []Look{looksAt(5, never, acts("whoever owns the pod"))}}, ""},
		"the kubelet has not asked for it yet":      {Record{Pods: serves(0), Acts: []Act{{At: at(4.9), Shown: at(5.1)}}, Looks: []Look{looksAt(5, never, acts("the kubelet of n1"))}}, ""},
		"the kubelet could have asked for it":       {Record{Pods: serves(0), Acts: []Act{{At: at(4.9), Shown: at(4.9)}}, Looks: []Look{looksAt(5, never, acts("the kubelet of n1"))}}, "actor "},
		"nobody has edited the modes":               {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "run a second pod"}}, Looks: []Look{looksAt(5, never, acts("whoever owns the pod"))}}, "actor "},
		"the claim has lost its volume for good":    {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(1), To: at(2)}, Kind: "edit the claimRef"}}, Looks: []Look{looksAt(20, never, acts(kubeletwords.Nobody))}}, ""},
		"nobody has parted it from its volume":      {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(1), To: at(2)}, Kind: "take the annotation"}}, Looks: []Look{looksAt(20, never, acts(kubeletwords.Nobody))}}, "actor "},
		"somebody has deleted the claim":            {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "delete the claim"}}, Looks: []Look{looksAt(5, never, acts("whoever is to create persistentvolumeclaim/data"))}}, ""},
		"nobody has deleted the claim":              {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "delete the volume"}}, Looks: []Look{looksAt(5, never, acts("whoever is to create persistentvolumeclaim/data"))}}, "actor "},
		"the driver's words name the storage":       {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "ControllerPublishVolume refuses"}}, Looks: []Look{looksAt(5, never, acts("the storage admin"))}}, ""},
		"the driver has said nothing":               {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "ControllerPublishVolume hangs"}}, Looks: []Look{looksAt(5, never, acts("the storage admin"))}}, "actor "},
		"it refuses what edited modes promised":     {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(1), To: at(2)}, Kind: "edit the access modes"}}, Looks: []Look{looksAt(20, never, acts("CSI driver d"))}}, ""},
		"a second pod, and the claim is made again": {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "run a second pod", Volume: "vol-0", Claim: "data"}}, Looks: []Look{looksAt(5, of("VD203"))}}, ""},
		"a second pod, of another claim":            {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "run a second pod", Volume: "vol-0", Claim: "log"}}, Looks: []Look{looksAt(5, of("VD203"))}}, "cause VD203"},
		"the attacher pauses after a refusal":       {Record{Pods: serves(0), Tries: handedOver, Looks: []Look{looksAt(5, never, refused)}}, ""},
		"the driver still refuses":                  {Record{Pods: serves(0), Tries: handedOver[:1], Looks: []Look{looksAt(5, never, refused)}}, "actor "},
		"it was detached before the refusal":        {Record{Pods: serves(0), Tries: []Try{handedOver[1], handedOver[0]}, Looks: []Look{looksAt(5, never, refused)}}, "actor "},
		"it refuses what it was to refuse once":     {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(1), To: at(2)}, Kind: "ControllerPublishVolume refuses"}}, Looks: []Look{looksAt(20, never, acts("CSI driver d"))}}, "actor "},
		"it refuses what edited modes promise":      {Record{Pods: serves(0), Causes: []Cause{{Span: Span{From: at(4)}, Kind: "edit the access modes"}}, Looks: []Look{looksAt(5, of("VD410"), acts("CSI driver d"))}}, ""},
		"for nobody, and it stands":                 {Record{Looks: []Look{looksAt(5, never), looksAt(9, never)}}, ""},
		"for nobody, and it is gone":                {Record{Looks: []Look{looksAt(5, never), looksAt(9, nil)}}, "stands VD413"},
		"for nobody, and somebody ended it":         {Record{Acts: []Act{{At: at(7)}}, Looks: []Look{looksAt(5, never), looksAt(9, nil)}}, ""},
		"for nobody, and another one tells":         {Record{Looks: []Look{looksAt(5, never), looksAt(9, another)}}, ""},
		"suspected":                                 {Record{Pods: serves(20), Looks: []Look{looksAt(5, suspected)}}, ""},
		"a cure that nobody has noticed":            {Record{Pods: serves(20), Cures: []Try{{At: at(4), Call: "Attach"}}, Tries: []Try{{At: at(3), Call: "Attach", Volume: "vol-1", Failed: true}}, Looks: []Look{looksAt(5, never)}}, ""},
		"a cure that somebody could notice":         {Record{Pods: serves(20), Cures: []Try{{At: at(4), Call: "Attach"}}, Tries: []Try{{At: at(4.5), Call: "Attach", Volume: "vol-1"}}, Looks: []Look{looksAt(5, never)}}, "does not heal VD413"},
		"a cure that no status shows yet":           {Record{Pods: serves(20), Cures: []Try{{At: at(4), Call: "Attach"}}, Tries: []Try{{At: at(4.9), Call: "Attach", Volume: "vol-1"}}, Looks: []Look{looksAt(5, never)}}, ""},
		"a cure of another volume":                  {Record{Pods: serves(20), Cures: []Try{{At: at(4), Call: "Attach", Volume: "vol-2"}}, Tries: []Try{{At: at(3), Call: "Attach", Volume: "vol-2", Failed: true}}, Looks: []Look{looksAt(5, never)}}, "does not heal VD413"},
		"heals, and is there after its time":        {Record{Pods: serves(0), Looks: []Look{looksAt(5, soon), looksAt(9, soon)}}, "heals VD413"},
		"heals in time":                             {Record{Pods: serves(6), Looks: []Look{looksAt(5, soon), looksAt(9, nil)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.record.Began, c.record.Ended = began, at(30)
			got := ""
			for _, f := range Judge(&c.record).False {
				if got == "" {
					got = f.Key()
				}
				t.Log(f)
			}
			if got != c.want {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}

// TestCures: a finding is false where the cure of another fault alone lets the pod run.
func TestCures(t *testing.T) {
	refuses, stopped := "ControllerPublishVolume refuses", "stop the manager"
	for name, c := range map[string]struct {
		wrong, freed []string
		alone        bool
		want         int
	}{
		"the cure of what it names":    {[]string{refuses, stopped}, []string{refuses}, false, 0},
		"the cure of something else":   {[]string{refuses, stopped}, []string{stopped}, false, 1},
		"either cure":                  {[]string{refuses, stopped}, []string{stopped, refuses}, false, 0},
		"no cure":                      {[]string{refuses}, nil, false, 0},
		"it heals by itself in a copy": {[]string{stopped}, []string{stopped}, true, 0},
	} {
		tally := NewTally()
		if tally.CausedBy(Question{Code: "VD410", Kinds: KindsOf("VD410")}, c.wrong, c.freed, c.alone); len(tally.False) != c.want {
			t.Errorf("%s: %v", name, tally.False)
		}
	}
}
