package step

import (
	"slices"
	"testing"
)

func TestActionsOfAnAdvice(t *testing.T) {
	for text, want := range map[string][]string{
		"look at the events": {"look at the events"},
		"fix what it names; {delete-pod a/b}: its successor mounts; that takes a minute. The next one waits": {"fix what it names",
			"{delete-pod a/b}: its successor mounts; that takes a minute. The next one waits"},
		"{wait} for the retry; {if if it repeats,} look at the load.": {"{wait} for the retry", "{if if it repeats,} look at the load"},
		"find who made it; then {restart-kubelet n1}":                 {"find who made it", "{restart-kubelet n1}"},
		"": nil,
	} {
		if got := Actions(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestPastWait: past its time a wait goes, with the condition that refers to it. A condition that
// refers to another action stays.
func TestPastWait(t *testing.T) {
	for text, want := range map[string]string{
		"{wait} for the retry; {if if it repeats,} look at the load":                             "{if } look at the load",
		"{wait}; {check} look whether it runs; {if if it does not,} {reboot-node}":               "{check} look whether it runs; {if if it does not,} {reboot-node}",
		"{check} read its log; {if if it writes nothing,} {restart-kube-controller-manager} now": "{check} read its log; {if if it writes nothing,} {restart-kube-controller-manager} now",
		"{wait} for it": "{wait} for it",
	} {
		if got := PastWait(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestMarks(t *testing.T) {
	text := DeletePod.Of("a/b", "a/c") + ", or " + RestartKubelet.Of()
	if got, want := Marks(text), []Mark{{DeletePod, "a/b,a/c"}, {RestartKubelet, ""}}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got, want := Kinds("{later} {reboot-node}; {drain-node}"), []Kind{DrainNode, RebootNode}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got, want := Plain("{check} look whether it runs; {if else} {reboot-node}"), "Look whether it runs; else restart the node"; got != want {
		t.Errorf("%q", got)
	}
	for _, r := range Reaches() {
		if plain(Mark{Kind: r.Kind}) == "" {
			t.Errorf("no page can say %s", r.Kind)
		}
	}
}

// TestSay: each clause with a change says whether that can be undone, and of two changes the worse.
func TestSay(t *testing.T) {
	for text, want := range map[string]string{
		"{drain-node}":                   "drain (can be undone; ended pods stay away)",
		"{drain-node} and {reboot-node}": "drain and reboot (cannot be undone)",
		"{reversible} cordon n1, so that no pod starts there":        "cordon n1 (can be undone), so that no pod starts there",
		"if it is not, {delete-pod}: it returns":                     "if it is not, delete (no container runs; cannot be undone): it returns",
		"{fix} bring it back; {final} delete its record":             "bring it back; delete its record (cannot be undone)",
		"{check} look at it. Then {final} detach it":                 "look at it. Then detach it (cannot be undone)",
		"create the claim, or {change} name one that exists":         "create the claim, or name one that exists",
		"{change} use another disk, or {final} delete what is there": "use another disk, or delete what is there (cannot be undone)",
		"{delete-pod}, and let it return":                            "delete (no container runs; cannot be undone), and let it return",
	} {
		if got := Say(text, func(m Mark) string {
			return map[Kind]string{DrainNode: "drain", RebootNode: "reboot", DeletePod: "delete (no container runs)"}[m.Kind]
		}); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	for _, r := range Reaches() {
		if r.Kind.Undo() == "" {
			t.Errorf("nobody knows whether %s can be undone", r.Kind)
		}
	}
}
