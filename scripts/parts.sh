#!/usr/bin/env bash
# Makes each of the targets, prints its name and how long it took, and the sum last. A
# target that fails does not keep the next from being made. One that stands before "--"
# mostly waits: it is made beside the others, and what it printed comes last. It is the
# longest way where it has to build what it waits for, so the others give way to it.
set -uo pipefail
cd "$(dirname "$0")/.."

table='' failed=0 began=$SECONDS
row() { # name, seconds, exit code
  table+=$(printf '%-10s %5d s  %s' "$1" "$2" "$([ "$3" = 0 ] && echo ok || echo FAILED)")$'\n'
  [ "$3" = 0 ] || failed=1
}

beside=()
if [[ " $* " == *" -- "* ]]; then
  while [ "$1" != -- ]; do
    beside+=("$1")
    shift
  done
  shift
fi

logs=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$logs"' EXIT
for part in "${beside[@]}"; do
  (
    make --no-print-directory "$part" >"$logs/$part" 2>&1
    echo "$SECONDS $?" >"$logs/$part.end"
  ) &
done
for part in "$@"; do
  echo "== $part"
  start=$SECONDS
  nice -n 10 make --no-print-directory "$part"
  code=$?
  row "$part" $((SECONDS - start)) $code
done
wait
for part in "${beside[@]}"; do
  echo "== $part"
  cat "$logs/$part"
  read -r end code <"$logs/$part.end"
  row "$part" $((end - began)) "$code"
done
row all $((SECONDS - began)) $failed
printf '\n%s' "$table"
exit $failed
