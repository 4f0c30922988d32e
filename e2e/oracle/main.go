// Command oracle runs the attach/detach controller of one Kubernetes release.
// It reads clusters from its standard input and writes what the controller does
// with each in its first pass; see package wire.
//
// The same source is built once for each release. The folder has a module file
// for each (go build -modfile). The few files that the API of older releases asks
// for say up to which minor release: the tags upto_v1_30 and all newer ones are set
// for 1.30. Without tags the go command builds for the newest.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

func main() { inTest(serve) }

func answerTo(t *testing.T, request *wire.Request) (*wire.Answer, error) {
	reset, err := setGates(request)
	if err != nil {
		return nil, err
	}
	defer reset()
	switch {
	case request.SELinux:
		return seLinux(t, request)
	case len(request.History) > 0:
		return live(t, request)
	default:
		return ask(request)
	}
}

// serve answers one request after the other. Never two at a time: older
// releases log, and the CSI plugin keeps its state, in package variables.
func serve(t *testing.T) error {
	recordGlobalLog()
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for in.More() {
		request := &wire.Request{}
		if err := in.Decode(request); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		answer, err := answerTo(t, request)
		if err != nil {
			answer = &wire.Answer{Error: err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
	return nil
}
