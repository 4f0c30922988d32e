#!/bin/sh
# overlay.sh [RELEASE] prints the flags with which go links the packages of this folder, and
# makes what they name in bin/world of the module: run it in the folder of the module, e2e.
#
# csi-attacher and Kubernetes register the feature gate MutableCSINodeAllocatableCount,
# each in its own way, and the second one panics. So that line of csi-attacher's is left
# out. The kubelets' CSI plug-in dials the driver as the world wants, and can be told of a driver.
# The go command takes no overlay over its module cache, but it compares paths as they are
# written: the modules are replaced by links to their own folders in the cache.
#
# RELEASE, an older release of Kubernetes with a module file in the folder oracle, replaces the
# packages of the attach/detach controller by those of that release. The calls into other packages
# that have changed since then are written as the newest release wants them.
set -eu
module=github.com/kubernetes-csi/external-attacher/v4
file=pkg/features/features.go
out=$PWD/bin/world
mkdir -p "$out"

# changed FILE EXPRESSION NAME writes the file, as the expression of sed changes it, to NAME. A file
# that has not changed keeps its time.
changed() {
	sed "$2" "$1" >"$out/$3.new"
	if cmp -s "$1" "$out/$3.new"; then
		echo "overlay.sh: $1 is written in another way now" >&2
		exit 1
	fi
	cmp -s "$out/$3.new" "$out/$3" || mv "$out/$3.new" "$out/$3"
}

# folder MODULE prints the module's folder in the cache, once it is there.
folder() {
	dir=$(go list -m -f '{{.Dir}}' "$1")
	[ -n "$dir" ] || dir=$(go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
	echo "$dir"
}

ln -sfn "$(folder $module)" "$out/attacher"
ln -sfn "$(folder k8s.io/kubernetes)" "$out/kubernetes"
changed "$out/attacher/$file" '/^	MutableCSINodeAllocatableCount: *{/d' features.go
world=$out/world${1:+-$1}
sed "s#=> \.\./\$#=> $(cd .. && pwd)#" go.mod >"$world.mod"
cp go.sum "$world.sum"
go mod edit -replace "$module=$out/attacher" "$world.mod"
go mod edit -replace "k8s.io/kubernetes=$out/kubernetes" "$world.mod"
plugin=pkg/volume/csi
changed "$out/kubernetes/$plugin/csi_client.go" 's/(&net.Dialer{}).DialContext(ctx, network, target)/Dial(ctx, target)/' csi_client.go
cat >"$out/csi_world.go" <<'END'
package csi

import (
	"context"
	"net"

	"k8s.io/apimachinery/pkg/util/version"
)

// Dial connects to a driver.
var Dial func(ctx context.Context, endpoint string) (net.Conn, error)

// SetDriver registers a driver for all plug-ins of the process.
func SetDriver(name, endpoint string) {
	csiDrivers.Set(name, Driver{endpoint: endpoint, highestSupportedVersion: version.MustParseGeneric("1.0.0")})
}
END
replace="\"$out/attacher/$file\":\"$out/features.go\",\"$out/kubernetes/$plugin/csi_client.go\":\"$out/csi_client.go\",\"$out/kubernetes/$plugin/csi_world.go\":\"$out/csi_world.go\""
if [ $# -gt 0 ]; then
	path=pkg/controller/volume/attachdetach
	old=$(go mod download -modfile="oracle/$1.mod" -json k8s.io/kubernetes | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
	for f in $(cd "$old/$path" && find . -name '*.go' ! -name '*_test.go' ! -path './config/*' ! -path './testing/*'); do
		mkdir -p "$out/$1/$(dirname "$f")"
		sed -e '/^	utilfeature "k8s.io/d' -e 's/(csiTranslator, utilfeature.DefaultFeatureGate)/(csiTranslator)/' \
			-e 's/ GetMounter(pluginName string)/ GetMounter()/' \
			-e 's/ NewWrapperMounter(\(.*\), opts volume.VolumeOptions)/ NewWrapperMounter(\1)/' \
			-e '/^	cloud cloudprovider.Interface,$/d' -e '/^		cloud:  *cloud,$/d' \
			-e 's/TranslateInTreeSpecToCSI(\([a-zA-Z]*[sS]pec\),/TranslateInTreeSpecToCSI(klog.Background(), \1,/' \
			-e 's|volumeutil.KeepTerminatedPodVolumesAnnotation|"volumes.kubernetes.io/keep-terminated-pod-volumes"|' \
			-e 's/claimSize \*resource.Quantity/claimSize resource.Quantity/' \
			-e '/) GetClaimSize(/,/^}/{s/\*resource.Quantity/resource.Quantity/;s/return nil/return resource.Quantity{}/;}' \
			"$old/$path/$f" >"$out/$1/$f"
		replace="$replace,\"$out/kubernetes/$path/${f#./}\":\"$out/$1/${f#./}\""
	done
	set -- "-ldflags=-X=github.com/volume-doctor/kubectl-volume-doctor/e2e/world/api.Version=$1"
fi
printf '{"Replace":{%s}}\n' "$replace" >"$world.json"
echo "-tags=overlay -modfile=$world.mod -overlay=$world.json $*"
