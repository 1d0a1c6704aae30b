#!/bin/sh
# Makes the data up in the form of the store: sh data.sh DIR [PICTURES] makes DIR/train, DIR/test,
# DIR/train_meta and DIR/test_meta. For the real one, put it to data/ and run preprocess.sh instead.
set -eu
demo=$(cd "$(dirname "$0")/../../image_classification" && pwd)
pictures=${2:-1000}
mkdir -p "$1/train" "$1/test"
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
python=${PYTHON:-python3}
"$python" "$demo/generate.py" --output "$made/cifar.tar.gz" --train "$pictures" --test "$((pictures / 5))"
"$python" "$demo/preprocess.py" --input "$made/cifar.tar.gz" --output "$made/out" --batch "$((pictures / 10))"
cp "$made"/out/train_batch_* "$1/train/"
cp "$made"/out/test_batch_* "$1/test/"
cp "$made/out/batches.meta" "$1/train_meta"
cp "$made/out/batches.meta" "$1/test_meta"
