#!/usr/bin/env bash
# Runs the benchmark of V1's data path; --save keeps the table in RESULTS.md.
set -euo pipefail
cd "$(dirname "$0")/../.."

model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
report() {
    echo "# Samples a second of a V1 training"
    echo
    echo "\`bash bench/v1/run.sh\`, $(date +%F), $model, $(nproc) cores, load average" \
        "$(cut -d' ' -f1 /proc/loadavg) at the start; medians of rounds in turns."
    echo
    .venv/bin/python bench/v1/train.py bench/scratch/v1
}
if [ "${1:-}" = --save ]; then
    report | tee bench/v1/RESULTS.md
else
    report
fi
