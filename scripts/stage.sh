#!/usr/bin/env bash
# Runs one stage of a longer command and says how long it took: stage.sh NAME COMMAND…
set -euo pipefail

name=$1
shift
echo "==> $name"
start=$SECONDS
status=0
"$@" || status=$?
elapsed=$((SECONDS - start))
printf '==> %s: %d min %02d s\n' "$name" $((elapsed / 60)) $((elapsed % 60))
exit "$status"
