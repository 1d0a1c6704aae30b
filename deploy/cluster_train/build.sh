#!/bin/sh
# Builds the client of `paddle cluster_train`: sh build.sh [cpu|gpu] [rdma|nonrdma] leaves a package in
# dist/ that deploy.sh installs. WHEEL=FILE packs a wheel that was built before.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/choose.sh"
choose "$@"
root=$(cd "$here/../.." && pwd)
wheel=$(wheel "$root")

package=paddle_platform_client_$(basename "$wheel" | cut -d- -f2)_$kind
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
mkdir -p "$fresh/$package/bin" "$root/dist"
python3 -m zipfile -e "$wheel" "$fresh/wheel"
for command in paddle paddlecloud; do
    install -m 755 "$fresh"/wheel/*.data/scripts/$command "$fresh/$package/bin/"
done
install -m 755 "$here/cluster_train.sh" "$fresh/$package/bin/"
install -m 644 "$here/local_config.py" "$fresh/$package/bin/"
# Quickly: it is copied once.
tar -C "$fresh/$package" -cf - . | gzip -1 >"$root/dist/$package.tgz"
echo "$root/dist/$package.tgz"
