#!/bin/sh
# Prints the flags with which go links the packages of this folder, and makes what they
# name in bin/world of the module: run it in the folder of the module, e2e.
#
# csi-attacher and Kubernetes register the feature gate MutableCSINodeAllocatableCount,
# each in its own way, and the second one panics. So that line of csi-attacher's is left
# out. The go command takes no overlay over its module cache, but it compares paths as
# they are written: the module is replaced by a link to its own folder in the cache.
set -eu
module=github.com/kubernetes-csi/external-attacher/v4
file=pkg/features/features.go
out=$PWD/bin/world
mkdir -p "$out"

source=$(go list -m -f '{{.Dir}}' "$module")
[ -n "$source" ] || source=$(go mod download -json "$module" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
ln -sfn "$source" "$out/attacher"
sed '/^	MutableCSINodeAllocatableCount: *{/d' "$source/$file" >"$out/features.go.new"
if cmp -s "$source/$file" "$out/features.go.new"; then
	echo "overlay.sh: $module registers the gate in another way now" >&2
	exit 1
fi
# Files that have not changed keep their times.
cmp -s "$out/features.go.new" "$out/features.go" || mv "$out/features.go.new" "$out/features.go"
sed "s#=> \.\./\$#=> $(cd .. && pwd)#" go.mod >"$out/world.mod"
cp go.sum "$out/world.sum"
go mod edit -replace "$module=$out/attacher" "$out/world.mod"
printf '{"Replace":{"%s":"%s"}}\n' "$out/attacher/$file" "$out/features.go" >"$out/overlay.json"
echo "-modfile=$out/world.mod -overlay=$out/overlay.json"
