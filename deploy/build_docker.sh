#!/usr/bin/env bash
# Builds the image of a job's pods with Docker: build_docker.sh BASE TAG
#
#     deploy/build_docker.sh python:3.11-slim-bookworm paddlecloud/paddle:v1
#
# BASE has Python 3.11 or newer, pip, and a glibc not older than this machine's.
set -euo pipefail
if [ $# -ne 2 ]; then
    sed -n '2,/^set/{/^#/!d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 2
fi
cd "$(dirname "$0")/.."
command -v docker >/dev/null || {
    echo "build_docker.sh: there is no Docker here; deploy/image/build.sh makes the same image without" >&2
    exit 1
}
make wheel
exec docker build --file deploy/Dockerfile --build-arg "BASE=$1" --tag "$2" .
