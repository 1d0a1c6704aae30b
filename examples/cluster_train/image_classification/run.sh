#!/bin/sh
# Sends the training to a receiver: sh run.sh [more flags].
set -eu
cd "$(dirname "$0")"
cp ../../image_classification/image_provider.py ../../image_classification/vgg_net.py ./thirdparty

config=cluster.vgg_16_cifar.py

paddle cluster_train \
           --config $config \
           --time_limit 00:30:00 \
           --num_nodes 24 \
           --job_priority normal \
           --trainer_count 4 \
           --num_passes 1 \
           --log_period 1000 \
           --dot_period 100 \
           --saving_period 1 \
           --thirdparty ./thirdparty \
           --job_name paddle_cluster_demo_image_classification \
           "$@"
