#!/usr/bin/env bash
# Makes the image of a job's pods without a Docker engine: image/build.sh TAG ARCHIVE [PACKAGE…]
#
#     deploy/image/build.sh paddlecloud/paddle:v1 paddle.tar
#
# More Debian packages may follow, such as openssh-server.
# `docker load`, `ctr images import` and `skopeo copy oci-archive:` take the archive. It has two
# layers: Debian with Python, kept in the cache for next time, and what the Dockerfile adds. Needs
# mmdebstrap, the right to make a root filesystem, and what `make build` leaves.
set -euo pipefail
if [ $# -lt 2 ]; then
    sed -n '2,/^set/{/^#/!d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 2
fi
tag=$1
archive=$(realpath -m "$2")
shift 2
cd "$(dirname "$0")/../.."

SUITE=bookworm
PYTHON=3.11
PACKAGES=python3,python-is-python3,ca-certificates
cache=${XDG_CACHE_HOME:-$HOME/.cache}/paddlecloud/images
for package in "$@"; do
    PACKAGES+=,$package
done
base=$cache/$SUITE-$(printf %s "$PACKAGES" | sha256sum | cut -c1-12).tar
venv=${VENV:-.venv}

wheels=(dist/*.whl)
[ -f "${wheels[0]}" ] && [ -x "$venv/bin/python" ] || {
    echo "build.sh: there is no wheel in dist/ or no $venv; run: make build" >&2
    exit 1
}

mkdir -p "$cache"
if [ ! -f "$base" ]; then
    mmdebstrap --quiet --format=tar --variant=minbase --include="$PACKAGES" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        "$SUITE" "$base.new"
    mv "$base.new" "$base"
fi

top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
packages=$top/usr/local/lib/python$PYTHON/dist-packages
"$venv/bin/pip" install --quiet --no-compile --target "$packages" --python-version "$PYTHON" \
    --only-binary=:all: numpy "${wheels[0]}"
mkdir -p "$top/usr/local/bin" "$top/workspace"
mv "$packages"/bin/{paddle,paddlecloud,paddle_k8s} "$top/usr/local/bin/"
rm -rf "$packages/bin"
cp -r examples/. "$top/workspace/"
"$venv/bin/python" examples/ctr/generate.py criteo --rows "${CTR_ROWS:-20000}" \
    --output "$top/workspace/ctr/data/raw"

python3 deploy/image/pack.py --directory /workspace "$archive" "$tag" "$base" "$top"
