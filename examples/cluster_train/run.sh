#!/bin/sh
# Trains the word2vec example on the machines of conf.py. Set PATH_TO_LOCAL_WORKSPACE to run
# another program; more flags may follow: sh run.sh --num_passes=3
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# With --job_workspace=DIR instead, nothing is copied: the machines have DIR already.
exec "${PYTHON:-python3}" "$here/paddle.py" \
    --job_dispatch_package="${PATH_TO_LOCAL_WORKSPACE:-$here/../word2vec}" \
    --preset=test \
    --drop_rate=0 \
    "$@"
