package step

import "testing"

// TestWithUndone: each sentence that advises a change says whether it can be undone, after the
// change. A noun, a purpose and a warning are no change.
func TestWithUndone(t *testing.T) {
	for text, want := range map[string]string{
		"drain n1":                               "drain n1 (can be undone; ended pods stay away)",
		"drain n1 and restart machine n1":        "drain n1 and restart machine n1 (cannot be undone)",
		"cordon n1, so that no pod starts there": "cordon n1 (can be undone), so that no pod starts there",
		"if it is not, delete pod a/b (no container runs): it returns":               "if it is not, delete pod a/b (no container runs; cannot be undone): it returns",
		"restart the kubelet on n1; take the taint off when it runs":                 "restart the kubelet on n1 (cannot be undone); take the taint off when it runs (can be undone)",
		"find out what it is. Then detach it":                                        "find out what it is. Then detach it (cannot be undone)",
		"look at what ends it: the restart of the node":                              "look at what ends it: the restart of the node",
		"do not delete the pod":                                                      "do not delete the pod",
		"see whether the detach ends":                                                "see whether the detach ends",
		"restart the kubelet on n1, or end the pods one by one, and let each return": "restart the kubelet on n1 (cannot be undone), or end the pods one by one (cannot be undone), and let each return",
		"use another disk, or take the partitions off only once they are empty":      "use another disk, or take the partitions off only once they are empty (cannot be undone)",
		"see to it that the pod is deleted and made again, or the leader restarts":   "see to it that the pod is deleted and made again (cannot be undone), or the leader restarts",
		"see to it that the pod is made again":                                       "see to it that the pod is made again",
		"make PersistentVolume a again: it goes":                                     "make PersistentVolume a again (can be undone): it goes",
		"make claim a/b again with volumeName v":                                     "make claim a/b again with volumeName v (cannot be undone)",
		"give each its own claim, or scale StatefulSet a to 0":                       "give each its own claim, or scale StatefulSet a to 0 (can be undone)",
		"set the strategy of Deployment a/b to Recreate":                             "set the strategy of Deployment a/b to Recreate (can be undone)",
		"delete pod a/b (cannot be undone)":                                          "delete pod a/b (cannot be undone)",
	} {
		if got := WithUndone(text, ""); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := WithUndone("decide about the disk", ForNow); got != "decide about the disk (can be undone)" {
		t.Errorf("%q", got)
	}
}
