#!/usr/bin/env bash
# Measures RecordIO reading and prints the tables; README.md explains them.
#   run.sh [--save]   --save also writes them to RESULTS.md
#   run.sh --clean    removes the data (about 4 GiB)
set -euo pipefail
cd "$(dirname "$0")/../.."

here=bench/recordio
command="bash $here/run.sh"
# Features are chosen over the whole workspace, so that `make build` has compiled all but the bench.
bench=(cargo bench --quiet --locked --workspace --bench read --)

pin=() pinned="not pinned: no taskset here"
if taskset -c 1 true 2>/dev/null; then
    pin=(taskset -c 1) pinned="pinned to core 1"
fi

report() {
    echo "# RecordIO: sequential read of 1 GiB of 1 KiB records"
    echo
    echo "\`$command\`, $(date -u +%F), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)," \
        "$(nproc) cores, load average $(cut -d' ' -f1 /proc/loadavg) at the start. MiB of record bytes per second, medians of alternating rounds, warm page" \
        "cache; spread is (slowest − fastest) / median."
    printf '\n## One core, no prefetch (%s)\n\n' "$pinned"
    "${pin[@]}" "${bench[@]}" read 0
    printf '\n## All cores, one chunk of prefetch (for information)\n\n'
    "${bench[@]}" read 1
    printf '\n## Python (one core, except with prefetch)\n\n'
    .venv/bin/python $here/read.py
}

case ${1:-} in
--clean)
    rm -rf bench/scratch/recordio
    exit
    ;;
--save) target=$here/RESULTS.md ;;
"") target=/dev/null ;;
*)
    echo "usage: $command [--save | --clean]" >&2
    exit 2
    ;;
esac

.venv/bin/pip install --quiet --disable-pip-version-check -r $here/requirements.txt
"${bench[@]}" prepare
report | tee "$target"
