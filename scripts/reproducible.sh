#!/usr/bin/env bash
# Builds the last commit twice, from two folders and the second time with nothing
# compiled before, and fails where the two binaries differ.
#
#   scripts/reproducible.sh [GOOS/GOARCH]
set -euo pipefail
platform=${1:-linux/$(go env GOARCH)}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT

build() { # FOLDER
  git clone --quiet "$root" "$work/$1"
  make --no-print-directory -C "$work/$1" dist PLATFORMS="$platform"
}
build one
GOCACHE=$work/cache build elsewhere/two

if ! diff "$work/one/dist/SHA256SUMS" "$work/elsewhere/two/dist/SHA256SUMS"; then
  echo "$platform: the two builds differ" >&2
  exit 1
fi
echo "$platform: the two builds are the same"
