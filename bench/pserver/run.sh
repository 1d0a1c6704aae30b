#!/usr/bin/env bash
# Runs the parameter server's benchmark; --save keeps the tables in RESULTS.md.
set -euo pipefail
cd "$(dirname "$0")/../.."

program=$(cargo bench --locked --workspace --bench exchange --no-run --message-format=json \
    | sed -n 's/.*"executable":"\([^"]*exchange[^"]*\)".*/\1/p' | tail -n 1)
model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
report() {
    echo "# Parameter server over loopback"
    echo
    echo "\`bash bench/pserver/run.sh\`, $(date +%F), $model, $(nproc) cores; server on core 0, client on core 1."
    echo
    taskset -c 1 "$program"
}
if [ "${1:-}" = --save ]; then
    report | tee bench/pserver/RESULTS.md
else
    report
fi
