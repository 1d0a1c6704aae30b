#!/bin/sh
# Trains the recommendation example, in its V1 form, on the machines of conf.py: a parameter server
# and a trainer on each. Set PATH_TO_LOCAL_WORKSPACE to run another package; more flags may follow:
# sh run.sh --seed=3
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# With --job_workspace=DIR instead, nothing is copied: the machines have DIR already.
exec "${PYTHON:-python3}" "$here/paddle.py" \
    --job_dispatch_package="${PATH_TO_LOCAL_WORKSPACE:-$here/../recommendation/package}" \
    --shard_train_list \
    --config=./conf/trainer_config.conf \
    --config_args=data_dir=. \
    --num_passes="${NUM_PASSES:-10}" \
    --trainer_count="${TRAINER_COUNT:-4}" \
    --log_period=50 \
    --dot_period=10 \
    --saving_period=1 \
    --local=0 \
    --save_dir=./output \
    --use_gpu=0 \
    "$@"
