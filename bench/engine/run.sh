#!/usr/bin/env bash
# Runs the engine's benchmark against PyTorch; --save keeps the tables in RESULTS.md.
#   TORCH_PYTHON  an interpreter that has torch; without it one is installed under bench/scratch
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ -z "${TORCH_PYTHON:-}" ]; then
    TORCH_PYTHON=bench/scratch/torch/bin/python
    if [ ! -x "$TORCH_PYTHON" ]; then
        python3 -m venv bench/scratch/torch
        bench/scratch/torch/bin/pip install --quiet -r bench/engine/requirements.txt
    fi
fi
model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
report() {
    echo "# Training steps against PyTorch"
    echo
    echo "\`bash bench/engine/run.sh\`, $(date +%F), $model, $(nproc) cores, load average" \
        "$(cut -d' ' -f1 /proc/loadavg) at the start; medians of rounds in turns."
    echo
    .venv/bin/python bench/engine/train.py "$TORCH_PYTHON"
}
if [ "${1:-}" = --save ]; then
    report | tee bench/engine/RESULTS.md
else
    report
fi
