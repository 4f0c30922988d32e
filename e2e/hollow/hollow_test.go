package hollow_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

func TestFirst(t *testing.T) {
	w := newWorld(t, "hollow-a", "hollow-b")
	w.secret("there")
	a, b := w.nodes[0], w.nodes[1]
	w.pod(a, "mounted", "there")
	w.pod(b, "neighbour", "there")
	w.pod(a, "hangs", "there", wire.Fault{RPC: wire.Stage, Hang: true})
	w.pod(b, "refused", "there", wire.Fault{RPC: wire.Stage, Code: uint32(codes.Internal), Message: "mkfs failed"})
	w.pod(a, "secretless", "gone")
	w.pod(b, "leaving", "there", wire.Fault{RPC: wire.Unpublish, Hang: true})
	w.runs("mounted")
	w.runs("neighbour")
	w.runs("leaving")
	w.delete("leaving")
	w.last(a, "hangs", "NodeStageVolume pending")
	w.trace(traced{pod: "mounted", kubelet: []string{"in phase Running"}})
	w.trace(traced{pod: "hangs", volume: "hangs", stage: trace.StageStaged})
}
