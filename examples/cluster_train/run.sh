#!/bin/sh
# Trains on the machines of conf.py, with a parameter server and a trainer on each: the
# recommendation example in its V1 form, where more flags may follow,
#
#     sh run.sh --seed=3
#
# or, behind --, a program of another package:
#
#     PATH_TO_LOCAL_WORKSPACE=../word2vec sh run.sh -- python3 train.py --preset test
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# With --job_workspace=DIR instead of the package, nothing is copied: the machines have DIR already.
train() {
    exec "${PYTHON:-python3}" "$here/paddle.py" \
        --job_dispatch_package="${PATH_TO_LOCAL_WORKSPACE:-$here/../recommendation/package}" \
        --trainer_count="${TRAINER_COUNT:-4}" \
        --use_gpu=0 \
        "$@"
}

for word in "$@"; do
    [ "$word" != -- ] || train --passes="${NUM_PASSES:-10}" "$@"
done
train \
    --shard_train_list \
    --config=./conf/trainer_config.conf \
    --config_args=data_dir=. \
    --num_passes="${NUM_PASSES:-10}" \
    --log_period=50 \
    --dot_period=10 \
    --saving_period=1 \
    --local=0 \
    --save_dir=./output \
    "$@"
