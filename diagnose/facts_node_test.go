package diagnose

import "testing"

func TestMachineNotFound(t *testing.T) {
	for message, want := range map[string]bool{
		"rpc error: code = NotFound desc = instance i-n1 not found":                               true,
		`node "n1" has no NodeID annotation`:                                                      true,
		"CSINode n1 does not contain driver ebs.csi.aws.com":                                      true,
		"rpc error: code = Internal desc = failed to find VirtualMachine for node:\"n1\"":         true,
		"InvalidInstanceID.NotFound: the instance ID 'i-1' does not exist":                        true,
		"rpc error: code = NotFound desc = server not found":                                      true,
		"could not find node n1":                                                                  true,
		"no such host: storage.example.com":                                                       false,
		"rpc error: code = NotFound desc = volume vol-1 not found":                                false,
		"node n1: volume vol-1 not found":                                                         false,
		"the server could not find the requested resource":                                        false,
		"node secret \"publish\" not found":                                                       false,
		"rpc error: code = Internal desc = volume is still in use":                                false,
		"rpc error: code = DeadlineExceeded desc = context deadline exceeded":                     false,
		"rpc error: code = Internal desc = DetachVolume failed on node n1: UnauthorizedOperation": false,
		"rpc error: code = Unavailable desc = connection to the server could not be established":  false,
		"persistentvolume \"pv-1\" not found":                                                     false,
	} {
		if got := MachineNotFound(message); got != want {
			t.Errorf("%q: %v", message, got)
		}
	}
}
