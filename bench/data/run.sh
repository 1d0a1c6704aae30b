#!/usr/bin/env bash
# Runs the benchmark of readers; --save keeps the tables in RESULTS.md.
set -euo pipefail
cd "$(dirname "$0")/../.."

model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
report() {
    echo "# Records a second into Python"
    echo
    echo "\`bash bench/data/run.sh\`, $(date +%F), $model, $(nproc) cores, load average" \
        "$(cut -d' ' -f1 /proc/loadavg) at the start; medians of rounds in turns."
    echo
    .venv/bin/python bench/data/read.py bench/scratch/data
}
if [ "${1:-}" = --save ]; then
    report | tee bench/data/RESULTS.md
else
    report
fi
