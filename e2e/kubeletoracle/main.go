//go:build linux

// Command kubeletoracle is a machine with the volume half of a real kubelet: the
// volume manager, the plugin manager with its watcher of sockets, the volume plugins,
// the secret and the config map manager and the mounts are those of k8s.io/kubernetes.
// Its own are the node's status, the pods' status without containers behind it, and
// the node plugins of CSI drivers that fail and hang on demand.
//
// The drivers and the kubelet are two processes, so that a kubelet can be killed
// while its mounts stay. Both live in a mount namespace of their own, which whoever
// starts the machine has to make.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// asKubelet is the argument with which a machine starts its kubelet.
const asKubelet = "kubelet"

func main() {
	serve := serveMachine
	switch {
	case len(os.Args) == 5 && os.Args[1] == asWriter:
		fmt.Fprintln(os.Stderr, write(os.Args[2], os.Args[3], os.Args[4]))
		os.Exit(1)
	case len(os.Args) > 1 && os.Args[1] == asKubelet:
		serve = serveKubelet
	}
	if err := serve(json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// converse answers one request after the other until there are no more.
func converse(in *json.Decoder, out *json.Encoder, answer func(wire.Request) (wire.Answer, error)) error {
	for {
		var request wire.Request
		if err := in.Decode(&request); err != nil {
			return err
		}
		a, err := answer(request)
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}
