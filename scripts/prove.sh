#!/usr/bin/env bash
# Runs the part of scripts/prove.tsv that is named, or all, each with a seed that nobody
# has drawn before, and writes what came of it into the table of docs/evidence/README.md.
# The seed makes a part that has failed fail again: SEED=1234 make prove PART=...
set -uo pipefail
cd "$(dirname "$0")/.."

want=$1 page=docs/evidence/README.md failed=0 found=0
mkdir -p build/prove
while IFS=$'\t' read -r part _ command; do
  [[ $part == '#'* ]] && continue
  [[ $want == all || $want == "$part" ]] || continue
  found=1
  FRESH=${SEED:-$(date +%s)}
  log=build/prove/$part.log
  printf '== %s, seed %s: %s\n' "$part" "$FRESH" "$command"
  start=$SECONDS result=passed
  (export FRESH; eval "$command") </dev/null >"$log" 2>&1 || { result=FAILED failed=1; tail -40 "$log"; }
  seed='' && [[ $command == *'$FRESH'* ]] && seed=$FRESH
  counts="$(grep -cE '^ *--- PASS|^ok ' "$log") passed, $(grep -cE '^ *--- FAIL' "$log") failed, $(grep -cE '^ *--- SKIP' "$log") skipped"
  row="| $part | $(date -u +%F) | $(git rev-parse --short HEAD) | $seed | $counts | $(((SECONDS - start + 59) / 60)) min | $result |"
  printf '%s\n' "$row"
  awk -v part="$part" -v row="$row" '
    /^<!-- proved: begin -->/ { table = 1 }
    /^<!-- proved: end -->/ { if (table && !done) print row; table = 0 }
    table && $2 == part && $1 == "|" { print row; done = 1; next }
    { print }' "$page" >"$page.new" && mv "$page.new" "$page"
done <scripts/prove.tsv
[[ $found == 1 ]] || { echo "make prove: scripts/prove.tsv has no part $want" >&2; exit 2; }
exit $failed
