#!/usr/bin/env bash
# The path of a new user, from a fresh clone: install the plug-in, draw the README's first
# screen, break a cluster in each way that the sandbox knows; diagnose, trace, explain,
# repair, and find the pod running. Every step says what it expects, and the script fails
# at the first that is otherwise.
#
#   scripts/new-user.sh [REPOSITORY to clone, else this one]
#
# It needs Go, git and make. The control plane of the sandbox and kubectl are built
# once, in e2e/bin of this checkout, which takes minutes; after that the whole path
# has to take less than LIMIT seconds. The sandboxes run side by side: they mostly wait.
set -euo pipefail
LIMIT=${LIMIT:-300}
root=$(cd "$(dirname "$0")/.." && pwd)
source=${1:-$root}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect CODE TEXT COMMAND...: the command ends with CODE and prints TEXT.
expect() {
  local code=$1 text=$2 got=0
  shift 2
  echo "[$SECONDS s] ${scenario:-}\$ $*"
  "$@" >"$here/out" 2>&1 || got=$?
  if [ $got != "$code" ] || ! tr -s ' \n' ' ' <"$here/out" | grep -qF -- "$text"; then
    echo "${scenario:-}exit code $got, want $code and: $text" >&2
    cat "$here/out" >&2
    exit 1
  fi
}

# until_shown TEXT COMMAND...: the command prints TEXT sooner or later.
until_shown() {
  local text=$1
  shift
  echo "[$SECONDS s] ${scenario:-}\$ $* (until it shows: $text)"
  until { "$@" || true; } 2>&1 | tee "$here/out" | grep -qF -- "$text"; do
    if [ $SECONDS -ge "$LIMIT" ]; then
      echo "${scenario:-}not within $LIMIT s: $text" >&2
      cat "$here/out" >&2
      exit 1
    fi
    sleep 2
  done
}

# printed: the command line that the report prints for the repair.
printed() { sed -n 's/^ *\(do *\)\?\(kubectl volume-doctor diagnose .*--apply.*\)$/\2/p' "$here/out"; }

press_enter() { echo >&3; }

# follow NAME CODE: one world of the sandbox, from broken to healthy.
follow() {
  local name=$1 code=$2 line
  scenario="$name "
  here=$work/$name
  mkdir "$here"
  mkfifo "$here/keys"
  (cd "$root/e2e" && exec bin/sandbox --scenario "$name") <"$here/keys" >"$here/log" 2>&1 &
  sandbox=$!
  # shellcheck disable=SC2064 # of this world
  trap "kill -INT $sandbox 2>/dev/null; wait $sandbox" EXIT
  exec 3>"$here/keys"
  until grep -q "export KUBECONFIG=" "$here/log"; do
    kill -0 "$sandbox" || { echo "$name: the sandbox did not come up" >&2; tail "$here/log" >&2; exit 1; }
    sleep 1
  done
  KUBECONFIG=$(sed -n 's/.*export KUBECONFIG=//p' "$here/log")
  export KUBECONFIG
  # What is broken is named once it could no longer be under way.
  until_shown " $code" kubectl volume-doctor diagnose
  expect 1 "$code" kubectl volume-doctor diagnose
  expect 0 "Do this now" kubectl volume-doctor explain "$code"
  pod=$(kubectl get pods --no-headers -o custom-columns=N:.metadata.name,S:.status.phase | awk '$2 == "Pending" {print $1}')
  expect 1 "verdict: stuck" kubectl volume-doctor trace "pod/$pod"
  expect 1 "$code" kubectl volume-doctor diagnose "pod/$pod"
  line=$(printed)
  case $name in
  backoff-drop)
    # The prompt is back at most 15 s after the pod runs.
    (
      until kubectl get "pod/$pod" -o jsonpath='{.status.phase}' 2>/dev/null | grep -qx Running; do sleep 1; done
      echo $SECONDS >"$here/runs"
    ) &
    expect 0 "pod default/$pod is Running" sh -c "$line --yes --for 5s --journal $here/journal"
    back=$SECONDS
    wait $!
    echo "[$SECONDS s] $name: the prompt was back $((back - $(cat "$here/runs"))) s after the pod ran"
    [ $((back - $(cat "$here/runs"))) -le 15 ]
    ;;
  reuse-while-detaching) # the driver first: before, the repair changes nothing, and says so
    expect 3 "still refuses" sh -c "$line --yes --settle 10s --for 1s --journal $here/journal"
    press_enter
    ;;
  *) # a person has to act; or, with busy-disk, it is too early to be certain
    [ -z "$line" ] || { echo "$name: a repair that nobody expects: $line" >&2; exit 1; }
    undone=1 why="there is nothing to repair"
    [ "$name" != busy-disk ] || undone=3 why="the cause is only suspected"
    expect $undone "$why" kubectl volume-doctor diagnose "pod/$pod" --apply --yes --for 1s --journal "$here/journal"
    if [ "$name" = two-nodes ]; then
      expect 0 deleted kubectl delete pod web-0 # which of the two ends is for their owner to decide
    else
      press_enter
    fi
    ;;
  esac
  expect 0 "condition met" kubectl wait "pod/$pod" --for=jsonpath='{.status.phase}'=Running --timeout=150s
  until_shown "Nothing wrong" kubectl volume-doctor diagnose
  expect 0 "Nothing wrong" kubectl volume-doctor diagnose
  if [ "$name" = backoff-drop ]; then
    # A pod runs on it now: to take the entry back would take the volume from under it.
    expect 3 "in use" kubectl volume-doctor undo "$here/journal" --yes
    expect 0 Running kubectl get "pod/$pod"
  fi
  echo "[$SECONDS s] $name: healthy again"
}

# follow_pages: every command of the README and of the pages, in a world of the sandbox. The
# clock has stopped.
follow_pages() {
  (cd "$root/e2e" && exec bin/sandbox --scenario healthy) </dev/null >"$here/log" 2>&1 &
  sandbox=$!
  # shellcheck disable=SC2064 # of this world
  trap "kill -INT $sandbox 2>/dev/null; wait $sandbox; rm -rf '$work'" EXIT
  until grep -q "export KUBECONFIG=" "$here/log"; do
    kill -0 "$sandbox" || { echo "the sandbox did not come up" >&2; tail "$here/log" >&2; exit 1; }
    sleep 1
  done
  KUBECONFIG=$(sed -n 's/.*export KUBECONFIG=//p' "$here/log") "$root/scripts/pages.sh" "$work/clone" "$here"
}

echo "before the clock runs: the control plane and kubectl"
(cd "$root/e2e" && CGO_ENABLED=0 go build -o bin/sandbox ./cmd/sandbox &&
  CGO_ENABLED=0 go build -o bin/kubectl k8s.io/kubernetes/cmd/kubectl)

SECONDS=0
here=$work
git clone --quiet "$source" "$work/clone"
mkdir "$work/path"
make --no-print-directory -C "$work/clone" build
cp "$work/clone/bin/"kubectl-* "$work/clone/"kubectl_complete-* "$root/e2e/bin/kubectl" "$work/path"
export PATH=$work/path:$PATH
echo "[$SECONDS s] installed"
expect 0 "model: attach/detach controllers" kubectl volume-doctor version
expect 0 "diagnose" kubectl __complete volume-doctor diag
expect 1 "error VD102 Node n1 is lost" kubectl volume-doctor diagnose -f "$work/clone/testdata/snapshots/lost-node.yaml"

# Of a volume that another machine has (taken-elsewhere) the driver's refusal is all that
# shows in the first quarter of an hour; then it is VD404.
worlds=()
while read -r name code; do
  follow "$name" "$code" &
  worlds+=($!)
done <<'WORLDS'
two-nodes VD203
taken-elsewhere VD410
disk-lost VD410
node-full VD608
plugin-missing VD410
backoff-drop VD301
busy-disk VD103
reuse-while-detaching VD401
WORLDS
for world in "${worlds[@]}"; do
  wait "$world" || failed=1
done
[ -z "${failed:-}" ] || exit 1

took=$SECONDS
here=$work/pages
mkdir "$here"
follow_pages
echo "from the clone through ${#worlds[@]} broken clusters to as many healthy ones: $took s"
[ "$took" -lt "$LIMIT" ] || { echo "that is more than $LIMIT s" >&2; exit 1; }
