package history

import (
	"flag"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
)

var verbose = flag.Bool("log", false, "print the log of each story")

var stories = map[string]History{
	"nothing": {},
	"a detach that is refused for 13 minutes": {Steps: []Step{
		{At: 2 * time.Minute, Do: "break", Claim: "web0", Fault: driver.Fault{Call: driver.Detach, Words: "the disk is busy", Code: codes.Internal}, For: 13 * time.Minute},
		{At: 2*time.Minute + 10*time.Second, Do: "drain", Node: "@web0", For: 20 * time.Minute},
	}},
	"a node is lost with a Deployment":  {Steps: []Step{{At: 2 * time.Minute, Do: "switch off", Node: "@web0"}}},
	"a node is lost with a StatefulSet": {Steps: []Step{{At: 2 * time.Minute, Do: "switch off", Node: "@data-db0-0"}}},
	"a node comes back":                 {Steps: []Step{{At: 2 * time.Minute, Do: "stop the kubelet", Node: "@web0", For: 10 * time.Minute}}},
	"nobody controls": {Steps: []Step{
		{At: 2 * time.Minute, Do: "stop the manager"},
		{At: 3 * time.Minute, Do: "delete the pod", Claim: "web0"},
	}},
	"nobody attaches": {Steps: []Step{
		{At: 2 * time.Minute, Do: "stop the attacher"},
		{At: 3 * time.Minute, Do: "drain", Node: "@web0", For: 20 * time.Minute},
	}},
	"the attach is refused": {Steps: []Step{
		{At: 2 * time.Minute, Do: "break", Claim: "web0", Fault: driver.Fault{Call: driver.Attach, Words: "the quota is used up", Code: codes.Internal}, For: 10 * time.Minute},
		{At: 2*time.Minute + 10*time.Second, Do: "drain", Node: "@web0", For: 20 * time.Minute},
	}},
	"a pod that does not end": {Steps: []Step{{At: 2 * time.Minute, Do: "keep the containers", Claim: "web0", For: 20 * time.Minute}}},
	"drain and back":          {Steps: []Step{{At: 2 * time.Minute, Do: "drain", Node: "n0", For: 5 * time.Minute}, {At: 10 * time.Minute, Do: "drain", Node: "n1", For: 5 * time.Minute}}},
}

func TestStories(t *testing.T) {
	for name, h := range stories {
		t.Run(name, func(t *testing.T) {
			h.Size = Small
			if h.For == 0 {
				h.For = 30 * time.Minute
			}
			played, err := h.Play(t)
			if err != nil {
				t.Fatal(err)
			}
			tally := claims.Judge(played.Record)
			if *verbose {
				t.Log(strings.Join(played.Log, "\n"))
				t.Log(tally.Judged, tally.Exempt, tally.Codes)
			}
			for _, f := range tally.False {
				t.Error(f)
			}
		})
	}
}
