package finding

import (
	"slices"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
)

// TestActionsOf: what makes a refused repair safe is told where nothing heals, and where the advice
// does not already end the pod once its data is saved; and no look at one object stands under the
// command of another without a sentence.
func TestActionsOf(t *testing.T) {
	refused := func() *Repair { return &Repair{Kind: "k", BlockedBy: "guard: why", SafeOnce: "end the pods there"} }
	wait := Action{Kind: Wait, Sentence: "wait for the retry", When: Now, Advised: true}
	save := Action{Kind: DoAsTheySay, Sentence: "save the data of pod a/b and end it", When: Now, Advised: true}
	remove := Action{Kind: ActionKind(step.DeletePod), Sentence: "delete pod a/b", Command: "kubectl delete pod/b --namespace=a", When: Now, Advised: true}
	look := Action{Kind: DoAsTheySay, Sentence: "correct the claim", When: Now, Advised: true}
	const describe = "kubectl describe persistentvolumeclaim/c -n a"
	for name, c := range map[string]struct {
		f    Finding
		want []string
	}{
		"refused":                    {Finding{Repair: refused()}, []string{"to make it safe: end the pods there"}},
		"refused, and heals":         {Finding{Repair: refused(), SelfHeals: SelfHeals{Will: true}}, []string{"wait"}},
		"... with an advice to wait": {Finding{Repair: refused(), Do: []Action{wait}, SelfHeals: SelfHeals{Will: true}}, []string{"wait for the retry"}},
		"refused, data to be saved":  {Finding{Repair: refused(), Do: []Action{save}}, []string{save.Sentence}},
		"a look at the same":         {Finding{Do: []Action{look}, AdviceCommands: []string{describe}}, []string{"correct the claim", "told: look at persistentvolumeclaim/a/c"}},
		"a look at something else":   {Finding{Do: []Action{remove}, AdviceCommands: []string{remove.Command, describe}}, []string{"delete pod a/b", "look at persistentvolumeclaim/a/c"}},
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
