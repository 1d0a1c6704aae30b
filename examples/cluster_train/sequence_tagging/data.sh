#!/bin/sh
# Makes the data up in the form of the store: sh data.sh DIR makes DIR/train and DIR/test.
set -eu
demo=$(cd "$(dirname "$0")/../../sequence_tagging" && pwd)
mkdir -p "$1/train" "$1/test"
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"${PYTHON:-python3}" "$demo/generate.py" --output "$made"
cp "$made/train.txt.gz" "$1/train/"
cp "$made/test.txt.gz" "$1/test/"
