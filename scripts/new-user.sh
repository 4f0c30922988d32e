#!/usr/bin/env bash
# The path of a new user, from a fresh clone: install the plug-in, break a cluster,
# diagnose, trace, explain, repair, and find the pod running. Every step says what it
# expects, and the script fails at the first that is otherwise.
#
#   scripts/new-user.sh [REPOSITORY to clone, else this one]
#
# It needs Go, git and make. The control plane of the sandbox and kubectl are built
# once, in e2e/bin of this checkout, which takes minutes; after that the whole path
# has to take less than LIMIT seconds.
set -euo pipefail
LIMIT=${LIMIT:-300}
root=$(cd "$(dirname "$0")/.." && pwd)
source=${1:-$root}
work=$(mktemp -d)
sandbox=
# shellcheck disable=SC2329 # the trap calls it
end() {
  code=$?
  [ -z "$sandbox" ] || { kill -INT "$sandbox" && wait "$sandbox"; } || true
  [ $code = 0 ] || tail -n 40 "$work/sandbox.log" "$work/out" >&2 2>/dev/null || true
  rm -rf "$work"
  exit $code
}
trap end EXIT

# expect CODE TEXT COMMAND...: the command ends with CODE and prints TEXT.
expect() {
  local code=$1 text=$2 got=0
  shift 2
  echo "[$SECONDS s] \$ $*"
  "$@" >"$work/out" 2>&1 || got=$?
  if [ $got != "$code" ] || ! tr -s ' \n' ' ' <"$work/out" | grep -qF -- "$text"; then
    echo "exit code $got, want $code and: $text" >&2
    exit 1
  fi
}

echo "before the clock runs: the control plane and kubectl"
(cd "$root/e2e" && CGO_ENABLED=0 go build -o bin/sandbox ./cmd/sandbox &&
  CGO_ENABLED=0 go build -o bin/kubectl k8s.io/kubernetes/cmd/kubectl)

SECONDS=0
git clone --quiet "$source" "$work/clone"
mkdir "$work/path"
make --no-print-directory -C "$work/clone" build
cp "$work/clone/bin/kubectl-volume_doctor" "$work/clone/kubectl_complete-volume_doctor" "$root/e2e/bin/kubectl" "$work/path"
export PATH=$work/path:$PATH
echo "[$SECONDS s] installed"
expect 0 "model: attach/detach controllers" kubectl volume-doctor version
expect 0 "diagnose" kubectl __complete volume-doctor diag

(cd "$root/e2e" && exec bin/sandbox) >"$work/sandbox.log" 2>&1 &
sandbox=$!
until grep -q "export KUBECONFIG=" "$work/sandbox.log"; do
  kill -0 "$sandbox" || { echo "the sandbox did not come up" >&2; exit 1; }
  sleep 1
done
KUBECONFIG=$(sed -n 's/.*export KUBECONFIG=//p' "$work/sandbox.log")
export KUBECONFIG
echo "[$SECONDS s] the sandbox is up"

pod=$(kubectl get pods -A --no-headers -o custom-columns=N:.metadata.namespace,P:.metadata.name,S:.status.phase | awk '$3 == "Pending"')
read -r namespace name _ <<<"$pod"
[ -n "$name" ] || { echo "no pod waits in the sandbox" >&2; exit 1; }

# What is broken is named once it could no longer be on its way.
until { kubectl volume-doctor diagnose -n "$namespace" || true; } 2>&1 | tee "$work/out" | grep -q VD301; do
  [ $SECONDS -lt "$LIMIT" ] || { echo "not found within $LIMIT s" >&2; exit 1; }
  sleep 2
done
expect 1 "error VD301" kubectl volume-doctor diagnose -n "$namespace"
expect 0 "volumesAttached" kubectl volume-doctor explain VD301
expect 1 "attached" kubectl volume-doctor trace "pod/$name" -n "$namespace"
expect 0 ": Repaired" kubectl volume-doctor diagnose -n "$namespace" --apply --yes \
  --settle 10s --for 5s --journal "$work/journal"
expect 0 "condition met" kubectl wait -n "$namespace" "pod/$name" --for=jsonpath='{.status.phase}'=Running --timeout=60s
expect 0 "Nothing wrong" kubectl volume-doctor diagnose -n "$namespace"
# A pod runs on it now: to take the entry back would take the volume from under it.
expect 3 "in use" kubectl volume-doctor undo "$work/journal"
expect 0 "Running" kubectl get -n "$namespace" "pod/$name"

took=$SECONDS
echo "from the clone to a repaired pod: $took s"
[ "$took" -lt "$LIMIT" ] || { echo "that is more than $LIMIT s" >&2; exit 1; }
