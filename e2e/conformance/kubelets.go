package conformance

import (
	"context"
	"fmt"
	"path/filepath"
)

// KubeletsAlone are the releases of which only the kubelet is built: a module that the controller
// needs is not on the Go module proxy. Some modules of these kubelets are not there either. The
// kubelet runs no code of them, and kubeletoracle/*.mod takes them from a neighbouring release.
var KubeletsAlone = []Release{"v1.31.14", "v1.32.13"}

// BuildKubeletAlone is BuildKubelet for one of KubeletsAlone.
func (r Release) BuildKubeletAlone(ctx context.Context) (string, error) {
	name := "kubeletoracle-" + string(r)
	newest, err := BuildOwn(ctx, "kubeletoracle", "-modfile=kubeletoracle/"+string(r)+".mod", "-tags="+r.tags(), "-o="+filepath.Join("bin", "oracle", name))
	if err != nil {
		return "", fmt.Errorf("build the kubelet of %s: %w", r, err)
	}
	return filepath.Join(filepath.Dir(newest), name), nil
}
