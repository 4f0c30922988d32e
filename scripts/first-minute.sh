#!/usr/bin/env bash
# What a newcomer waits for: the commands of the README in a root folder that has Go, git,
# make and the usual tools of a shell, and nothing else: no cache, no module, no compiler
# of C. As root, since it needs chroot. Prints a row of docs/evidence/first-minute.md.
#
#   scripts/first-minute.sh [-1] [COMMIT]    -1: the first command alone
set -euo pipefail
only=
[ "${1:-}" != -1 ] || { only=1; shift; }
source=$(cd "$(dirname "$0")/.." && pwd)
commit=$(git -C "$source" rev-parse --short=8 "${1:-HEAD}")
root=$(mktemp -d)
trap 'chmod -R u+w "$root"; rm -rf "$root"' EXIT

# install FILE...: each at its own place, with the libraries that it asks for.
install() {
  local file library
  for file in "$@"; do
    mkdir -p "$root$(dirname "$file")"
    cp -aL "$file" "$root$file"
    ldd "$file" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
      mkdir -p "$root$(dirname "$library")"
      cp -aLn "$library" "$root$library"
    done
  done
}
tools='bash sh env nice echo cat ls mkdir rmdir rm mv cp ln chmod touch date mktemp sleep sort uniq head tail wc tr cut tee dirname basename
  readlink realpath uname id true false test printf expr seq comm sha256sum cmp diff grep sed awk xargs find tar gzip git make'
for tool in $tools; do install "$(type -P "$tool")"; done
[ -e "$root/bin/sh" ] || ln -s usr/bin "$root/bin" # where make looks for it
goroot=$(go env GOROOT)
mkdir -p "$root/dev" "$root/proc" "$root/tmp" "$root/root" "$root$goroot" "$root/etc/ssl"
cp -a "$goroot/." "$root$goroot"
cp -aL /usr/lib/git-core/. "$root/usr/lib/git-core" 2>/dev/null || { mkdir -p "$root/usr/lib/git-core" && cp -aL /usr/lib/git-core/. "$root/usr/lib/git-core"; }
mkdir -p "$root/usr/share" && cp -aL /usr/share/git-core "$root/usr/share"
cp -aL /etc/resolv.conf /etc/hosts "$root/etc"
cp -aL /etc/ssl/certs "$root/etc/ssl"
echo 'root:x:0:0::/root:/bin/sh' >"$root/etc/passwd"
git clone --quiet "$source" "$root/root/clone"
git -C "$root/root/clone" checkout --quiet "$commit"

# inside COMMAND...: in that root, with the caller's way to the module proxy.
inside() {
  unshare --mount bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' "$root" \
    /usr/bin/env -i PATH="$goroot/bin:/usr/bin:/bin" HOME=/root GOPROXY="$(go env GOPROXY)" GOSUMDB="$(go env GOSUMDB)" \
    "$(type -P bash)" -c "cd /root/clone && $*"
}
# measured COMMAND...: seconds, seconds of the processor, and how it ended.
measured() {
  local TIMEFORMAT='%R %U %S' code=0
  { time inside "$*" >"$root/tmp/out" 2>&1 || code=$?; } 2>"$root/tmp/time"
  echo "$(awk 'END {printf "%.0f s | %.0f s", $1, $2 + $3}' "$root/tmp/time") | $code"
}
modules() {
  local cache=$root/root/go/pkg/mod
  echo "$(find "$cache/cache/download" -name "*.zip" | wc -l) | $(($(du -sm "$cache" | cut -f1) - $(du -sm "$cache/cache" | cut -f1))) MB"
}

sed -n 's/^\$ //p' "$source/README.md" >"$root/tmp/commands"
while read -r command; do
  row=$(measured "$command")
  case $row in *'| 0' | *'| 1') ;; *) tail "$root/tmp/out" >&2 ;; esac
  echo "| $commit | \`$command\` | $(modules) | ${row} |"
  [ -z "$only" ] || break
done <"$root/tmp/commands"
