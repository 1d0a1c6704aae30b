#!/usr/bin/env bash
# Times a launch to its first training step; --save keeps the table in RESULTS.md.
#   PADDLE  the command to measure, else that of the last build
#   PYTHON  an interpreter with the wheel installed, else that of `make build`
set -euo pipefail
cd "$(dirname "$0")/../.."

paddle=$(realpath "${PADDLE:-${CARGO_TARGET_DIR:-target}/release/paddle}")
python=${PYTHON:-.venv/bin/python}
model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
report() {
    echo "# From paddle launch to the first training step"
    echo
    echo "\`bash bench/launch/run.sh\`, $(date +%F), $model, $(nproc) cores, load average" \
        "$(cut -d' ' -f1 /proc/loadavg) at the start; medians of rounds with a warm cache."
    echo
    "$python" bench/launch/measure.py "$paddle"
}
if [ "${1:-}" = --save ]; then
    report | tee bench/launch/RESULTS.md
else
    report
fi
