#!/bin/sh
# Sends the training to a receiver: sh run.sh [more flags]. Words have ids of the whole training file,
# so there is one node.
set -eu
cd "$(dirname "$0")"
for file in conll.py dataprovider.py linear_crf_net.py; do
    cp ../../sequence_tagging/$file ./thirdparty
done

paddle cluster_train \
           --config cluster_conf.py \
           --time_limit 00:30:00 \
           --num_nodes 1 \
           --job_priority normal \
           --trainer_count 4 \
           --num_passes 1 \
           --log_period 1000 \
           --dot_period 100 \
           --saving_period 1 \
           --thirdparty ./thirdparty \
           --job_name paddle_cluster_demo_sequence_tagging \
           "$@"
