#!/usr/bin/env bash
# Makes each of the targets, prints its name and how long it took, and the sum last. A
# target that fails does not keep the next from being made.
set -uo pipefail
cd "$(dirname "$0")/.."

table='' failed=0 began=$SECONDS
for part in "$@"; do
  echo "== $part"
  start=$SECONDS result=ok
  make --no-print-directory "$part" || { result=FAILED failed=1; }
  table+=$(printf '%-10s %5d s  %s' "$part" $((SECONDS - start)) "$result")$'\n'
done
printf '\n%s%-10s %5d s  %s\n' "$table" all $((SECONDS - began)) "$([ $failed = 0 ] && echo ok || echo FAILED)"
exit $failed
