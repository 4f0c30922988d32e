#!/usr/bin/env bash
# Builds the last commit twice, from two folders and the second time with nothing
# compiled before, and fails where the two binaries or the two images of them differ.
#
#   scripts/reproducible.sh [GOOS/GOARCH]
set -euo pipefail
platform=${1:-linux/$(go env GOARCH)}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT

build() { # FOLDER
  git clone --quiet "$root" "$work/$1"
  make --no-print-directory -C "$work/$1" image IMAGE_PLATFORMS="$platform"
  (cd "$work/$1/build/image" && sha256sum image.tar >>SHA256SUMS)
}
build one
GOCACHE=$work/cache build elsewhere/two

if ! diff "$work/one/build/image/SHA256SUMS" "$work/elsewhere/two/build/image/SHA256SUMS"; then
  echo "$platform: the two builds differ" >&2
  exit 1
fi
echo "$platform: the two builds are the same"
