#!/usr/bin/env bash
# The demonstration behind `make demo`: demo.sh VENV
set -euo pipefail

bin=$1/bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

say paddle version
"$bin/paddle" version

say "python: write 10 000 records"
"$bin/python" - "$folder/data.recordio" <<'PYTHON'
import pickle
import sys

import recordio

with recordio.writer(sys.argv[1], chunk_bytes=100_000) as writer:
    for number in range(10_000):
        writer.write(pickle.dumps((number, number * 0.5)))
PYTHON

for verb in "info" "verify" "convert --compressor zstd"; do
    target=()
    [ "${verb%% *}" = convert ] && target=("$folder/smaller.recordio")
    # shellcheck disable=SC2086
    say paddle recordio $verb data.recordio ${target:+smaller.recordio}
    # shellcheck disable=SC2086
    "$bin/paddle" recordio $verb "$folder/data.recordio" "${target[@]}"
done

say "python: read them back"
"$bin/python" - "$folder/smaller.recordio" <<'PYTHON'
import pickle
import sys

import recordio

records = [pickle.loads(record) for record in recordio.reader(sys.argv[1])]
assert records == [(number, number * 0.5) for number in range(10_000)]
print(f"{len(records)} records read, the last one {records[-1]}")
PYTHON

say "paddle launch --pservers 2 --trainers 2 --passes 20 -- python train.py --preset test"
example=$PWD/examples/fit_a_line
"$bin/python" "$example/generate.py" --output "$folder/data/housing.data"
"$bin/paddle" launch --pservers 2 --trainers 2 --passes 20 --workspace "$folder" -- \
    "$PWD/$bin/python" "$example/train.py" --preset test

say "python infer.py: the first five predictions"
"$bin/python" "$example/infer.py" --data "$folder/data/housing.data" \
    --model "$folder/output/fit-a-line_pass_00019.tar.gz" | sed -n 1,5p
