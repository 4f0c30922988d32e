package step

import (
	"slices"
	"testing"
)

func TestIn(t *testing.T) {
	for text, want := range map[string][]Kind{
		"Restart the driver's node pod on this node: it registers the host on the array.":                            {RestartNodePlugin},
		"Restart the driver's node pod and then its controller, so that the node registers again.":                   {RestartNodePlugin, RestartController},
		"Restart the Trident node pod on this node":                                                                  {RestartNodePlugin},
		"delete the driver's node plugin pod on n1: its successor makes a new socket":                                {RestartNodePlugin},
		"Check that it may read the VM; then restart the driver's node pod and its controller.":                      {RestartNodePlugin, RestartController},
		"Correct the driver's configuration and restart its pods.":                                                   {RestartDriver},
		"Delete the pod so that the volume is unmounted; if that hangs, unmount it on the node or restart the node.": {DeletePod, RebootNode},
		"Drain the node, then power the server off and on as the message says.":                                      {DrainNode, PowerOff},
		"cordon the node to keep pods away from it, and restart the machine":                                         {RebootNode},
		"cordon n1, reboot it, and take the taint off":                                                               {RebootNode},
		"drain node n1, bring its kubelet's release in line with the controller's, and restart it":                   {RestartKubelet, DrainNode},
		"have the kube-controller-manager leader restarted, and only then restart the kubelet on node n1":            {RestartKubelet, RestartManager},
		"delete the Node object of a node that is gone":                                                              {DeleteNode},
		"delete its Node: the volume follows within 8 min":                                                           {DeleteNode},
		"delete the VolumeAttachment, which nothing holds, and the pod":                                              {DeletePod},
		"do not delete the pod: its volume may still be mounted":                                                     nil,
		"drain the node and reboot it":                                                                               {DrainNode, RebootNode},
		"Restart iscsid on the node.":                                                                                {RestartService},
		"in-flight after a restart of the kubelet":                                                                   nil,
		"delete no pod of the node yet":                                                                              nil,
		"for the next time, give the kubelet a longer period, and drain a node before its machine is stopped":        nil,
		"have whatever removes nodes drain them and wait":                                                            nil,
	} {
		got, strange := In(text)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, not %v", text, got, strange, want)
		}
	}
}

func TestReachesNamesEachKindOnce(t *testing.T) {
	seen := map[Kind]bool{}
	for _, r := range Reaches() {
		if seen[r.Kind] || r.Whom == "" || r.Count == "" {
			t.Errorf("%+v", r)
		}
		seen[r.Kind] = true
	}
}
