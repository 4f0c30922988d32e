package finding

import (
	"slices"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
)

// TestActionsOf: the advice that makes a refused repair safe is given where nothing heals,
// unless the advice already ends the pod after its data is saved. No look at one object is
// placed under the command of another without a sentence of its own.
func TestActionsOf(t *testing.T) {
	refused := func() *Repair { return &Repair{Kind: "k", BlockedBy: "guard: why", SafeOnce: "end the pods there"} }
	wait := Action{Kind: Wait, Sentence: "wait for the retry", When: Now, Advised: true}
	save := Action{Kind: DoAsTheySay, Sentence: "save the data of pod a/b and end it", When: Now, Advised: true}
	remove := Action{Kind: ActionKind(step.DeletePod), Sentence: "delete pod a/b", Command: "kubectl delete pod/b --namespace=a", When: Now, Advised: true}
	correct := Action{Kind: DoAsTheySay, Sentence: "correct claim a/c", When: Now, Advised: true}
	const describe = "kubectl describe -n a persistentvolumeclaim/c"
	for name, c := range map[string]struct {
		f    Finding
		want []string
	}{
		"refused":                    {Finding{Repair: refused()}, []string{"to make it safe: end the pods there"}},
		"refused, and heals":         {Finding{Repair: refused(), SelfHeals: SelfHeals{Will: true}}, []string{"wait"}},
		"... with an advice to wait": {Finding{Repair: refused(), Do: []Action{wait}, SelfHeals: SelfHeals{Will: true}}, []string{"wait for the retry"}},
		"refused, data to be saved":  {Finding{Repair: refused(), Do: []Action{save}}, []string{save.Sentence}},
		"a look at the same":         {Finding{Do: []Action{correct}, AdviceCommands: []string{describe}}, []string{"correct claim a/c", "told: look at claim a/c"}},
		"... of the headline":        {Finding{Message: "Claim a/c gets no volume", Do: []Action{{Kind: DoAsTheySay, Sentence: "correct it", When: Now}}, AdviceCommands: []string{describe}}, []string{"correct it; see claim a/c:", "told: look at claim a/c"}},
		"a look at another":          {Finding{Do: []Action{correct}, AdviceCommands: []string{describe + "1"}}, []string{"correct claim a/c", "look at claim a/c1"}},
		"all of a kind":              {Finding{Do: []Action{correct}, AdviceCommands: []string{"kubectl get pods -n a -l b=c"}}, []string{"correct claim a/c", "told: look at pods"}},
		"a look before an act":       {Finding{Do: []Action{{Kind: ActionKind(step.DrainNode), Sentence: "drain n1", Hits: []Step{{}}, When: Now}}, AdviceCommands: []string{"kubectl volume-doctor plan node/n1"}}, []string{"see what a controller that starts would do about node n1", "drain n1"}},
		"a look at something else":   {Finding{Do: []Action{remove}, AdviceCommands: []string{remove.Command, describe}}, []string{"delete pod a/b (cannot be undone)", "look at claim a/c"}},
	} {
		var got []string
		for _, a := range ActionsOf(c.f, time.Time{}) {
			if a.Told {
				a.Sentence = "told: " + a.Sentence
			}
			got = append(got, a.Sentence)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// TestLooksBesideARepair: beside a repair, refused or not, a look keeps its command. A change does not:
// the repair has its own commands.
func TestLooksBesideARepair(t *testing.T) {
	look := Action{Kind: Look, Sentence: "see on node n3 what is mounted", Command: "kubectl describe node/n3", When: Check, Advised: true}
	change := Action{Kind: ActionKind(step.Change), Sentence: "keep volume pv-1", Command: "kubectl patch pv/pv-1", When: Now, Advised: true}
	for name, repair := range map[string]*Repair{"proposed": {Kind: "k", Apply: "kubectl volume-doctor diagnose --apply"}, "refused": {Kind: "k", BlockedBy: "guard: why"}} {
		list := ActionsOf(Finding{Do: []Action{look, change}, Repair: repair}, time.Time{})
		if list[0].Command != look.Command || list[1].Command != "" {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

// TestSentencesOfCommands: a command without a sentence in the advice gets one that names its
// object.
func TestSentencesOfCommands(t *testing.T) {
	for command, want := range map[string]string{
		"kubectl volume-doctor trace pod/web-0 -n shop": "see stage by stage what keeps pod shop/web-0",
		"kubectl volume-doctor plan node/n1":            "see what a controller that starts would do about node n1",
		"kubectl describe node/n1":                      "look at node n1",
		"kubectl get pv/pv-1 -o yaml":                   "look at volume pv-1",
		"kubectl logs pod/a --namespace=b":              "read the log of pod b/a",
	} {
		if got := (Finding{}).Commanded(command).Sentence; got != want {
			t.Errorf("%s: %q", command, got)
		}
	}
	for name, want := range map[string]bool{"pod/a/web-0": true, "pod/a/web": false, "pod/b/web-0": false, "claim/a/look": false, "node/n1": true, "node/n": false, "pv/n1.x": false, "": false} {
		if (Action{Sentence: "look at pod a/web-0 on node n1."}).Names(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}
