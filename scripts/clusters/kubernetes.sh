#!/usr/bin/env bash
# A Kubernetes of three nodes with Volcano for tests. README.md says what the verbs are.
source "$(dirname "$0")/cache.sh"

CLUSTER=$(dirname "$0")/kubernetes/cluster.sh
# Fixed, so that one run's build serves the next.
export KUBE_HOME=$CACHE/kubernetes
# The seed's job asks for four processors, and every node has those of this machine.
export NODES=3

# What the programs are built of: another one makes a cache cold.
sources() {
    (cd "${CLUSTER%/*}" && cat build.sh webhooks.py pause.c */go.mod */go.sum dns/*.go | sha256sum)
}

# Whether this Go is new enough: it fetches no other.
check_go() {
    local needed there
    needed=$(sed -n 's/^go //p' "${CLUSTER%/*}"/*/go.mod | sort -V | tail -n 1)
    there=$(GOTOOLCHAIN=local go env GOVERSION)
    printf '%s\n' "$needed" "${there#go}" | sort -V -C && return
    echo "the cluster is built by Go $needed or later, and this is ${there#go}: install a newer golang-go" >&2
    return 1
}

case $1 in
install)
    "$CLUSTER" install >/dev/null
    install_packages go golang-go mmdebstrap mmdebstrap
    check_go
    grep -q ' cgroup ' /proc/mounts || { echo "kubelets here need cgroup v1" >&2; exit 1; }
    unshare --net --pid --mount --fork true
    ;;
cached)
    [ "$(cat "$KUBE_HOME/built" 2>/dev/null)" = "$(sources)" ]
    ;;
build)
    # Go keeps what it compiled, so a build that was stopped goes on.
    "$CLUSTER" build
    sources >"$KUBE_HOME/built"
    ;;
seconds)
    echo 1800
    ;;
start)
    "$CLUSTER" up >&2
    echo "PADDLE_TEST_KUBERNETES=$KUBE_HOME"
    ;;
test)
    # Pods run the wheel, and it must be that of these sources.
    make build
    archive=$(mktemp --suffix=.tar)
    trap 'rm -f "$archive"' EXIT
    bash scripts/stage.sh "image" deploy/image/build.sh paddlecloud/paddle:v1 "$archive"
    bash scripts/stage.sh "load image" "$CLUSTER" load "$archive"
    bash scripts/stage.sh "image of machines" deploy/image/build.sh paddlecloud/cluster:v1 "$archive" \
        openssh-server openmpi-bin rsync
    bash scripts/stage.sh "load image of machines" "$CLUSTER" load "$archive"
    rm -f "$archive"
    # Most of a story, and of a trial, is waiting for the cluster.
    bash scripts/stage.sh "stories" \
        cargo test --release --locked --workspace --test kubernetes -- --test-threads=6
    bash scripts/stage.sh "behaviour suite" \
        cargo test --release --locked --workspace --test backend kubernetes -- --test-threads=6
    ;;
stop)
    "$CLUSTER" down
    ;;
esac
