#!/bin/sh
# Builds a paddle for `thirdparty/`, which nodes use instead of their own:
# sh build_private_paddle.sh [cpu|gpu] [rdma|nonrdma] leaves it in private_output/ of this directory.
# WHEEL=FILE takes a wheel that was built before.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/choose.sh"
choose "$@"
wheel=$(wheel "$(cd "$here/../.." && pwd)")

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
python3 -m zipfile -e "$wheel" "$fresh"
rm -rf private_output
mkdir -p private_output/bin
install -m 755 "$fresh"/*.data/scripts/paddle private_output/bin/
cp -R "$fresh/paddle" "$fresh/recordio" private_output/
install -m 644 "$here/before_hook.sh" private_output/
echo "$PWD/private_output"
