#!/bin/sh
# Makes what vgg_16_cifar.py reads of data/cifar-10-python.tar.gz, which data/download_cifar.sh
# fetches or generate.py makes up.
set -eu
exec "${PYTHON:-python3}" "$(dirname "$0")/preprocess.py" "$@"
