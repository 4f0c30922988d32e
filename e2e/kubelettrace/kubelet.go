package kubelettrace

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
)

// Kubelet is the kubelet that a machine runs.
type Kubelet struct {
	// Release is its version, as its node reports it.
	Release string
	binary  string
}

// Newest is the release of the kubelet that is built from this module's own versions, like
// the control plane.
const Newest = controlplane.KubernetesVersion

// Releases are the last release of each minor from 1.30 on that can be built, oldest first.
func Releases() (all []string) {
	for _, r := range conformance.Releases {
		if r.Minor() >= 30 && r != conformance.Newest {
			all = append(all, string(r))
		}
	}
	for _, r := range conformance.KubeletsAlone {
		all = append(all, string(r))
	}
	slices.Sort(all)
	return append(all, Newest)
}

// Build compiles the kubelet of the release, one of Releases. It must be called from
// inside the e2e module, as go test does.
func Build(ctx context.Context, release string, log io.Writer) (Kubelet, error) {
	k := Kubelet{Release: release}
	var err error
	switch {
	case release == Newest:
		k.binary, err = conformance.BuildOwn(ctx, "kubeletoracle")
	case slices.Contains(conformance.KubeletsAlone, conformance.Release(release)):
		k.binary, err = conformance.Release(release).BuildKubeletAlone(ctx)
	case slices.Contains(Releases(), release):
		k.binary, err = conformance.Release(release).BuildKubelet(ctx, log)
	default:
		err = fmt.Errorf("there is no kubelet of %s: the releases are %s", release, strings.Join(Releases(), ", "))
	}
	return k, err
}
