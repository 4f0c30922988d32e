//go:build upto_v1_36

package main

import (
	"errors"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

func seLinux(*testing.T, *wire.Request) (*wire.Answer, error) {
	return nil, errors.New("the SELinux warning controller is asked of 1.37 and newer")
}
