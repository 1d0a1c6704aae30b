#!/usr/bin/env bash
# Runs the stories of clusters: run.sh [NAME…]. README.md beside it says what a cluster is.
set -euo pipefail
cd "$(dirname "$0")/../.."

# The longest comes last, so that the others are reached.
CLUSTERS=(minio hdfs kubernetes)
[ $# -eq 0 ] || CLUSTERS=("$@")

# How long everything may take: what does not fit is for next time.
limit=${CLUSTERS_SECONDS:-}
begun=$SECONDS
left() { echo $((limit - (SECONDS - begun))); }

# Sentences for the end: what was not reached, and why.
unreached=()
failed=()

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/paddlecloud
directory=
running=
stop() {
    [ -n "$running" ] || return 0
    local name=$running status=0
    running=
    bash "scripts/clusters/$name.sh" stop "$directory" || status=$?
    rm -rf "$directory"
    return $status
}
trap stop EXIT
trap 'exit 130' INT TERM

is_required() { [ "${CI:-}" = true ] && grep -qx "clusters/$1" .ci/required; }

build() {
    local command=(bash "scripts/clusters/$1.sh" build)
    if [ -n "$limit" ]; then
        if [ "$(left)" -le 0 ]; then
            echo "no time is left for a cold build of $1"
            return 124
        fi
        command=(timeout --kill-after=10 "$(left)" "${command[@]}")
    fi
    bash scripts/stage.sh "build $1" "${command[@]}" 8>&-
}

# Another run on this machine may use the same cache, and the same servers: this one waits for it. Children
# do not inherit the lock, so that it ends with this process, however that ends.
take_lock() {
    mkdir -p "$CACHE"
    exec 8>"$CACHE/$1.lock"
    flock --nonblock 8 && return
    echo "waiting for another run of the cluster $1 on this machine"
    if [ -z "$limit" ]; then flock 8; else flock --timeout "$(left)" 8; fi
}

# Whether the time that is left is enough for the stories of a cluster, on a busy machine.
is_time_left() {
    local needed
    needed=$(bash "scripts/clusters/$1.sh" seconds)
    [ -z "$limit" ] || [ "$(left)" -ge $((needed > 0 ? needed : 1)) ]
}

run() {
    local variables
    directory=$(mktemp -d)
    running=$1
    variables=$(timeout 180 bash "scripts/clusters/$1.sh" start "$directory" 8>&-) || return 1
    local command=(bash "scripts/clusters/$1.sh" test)
    # A story that hangs ends here, with the cluster stopped and the end of this script told.
    if [ -n "$limit" ]; then
        # `timeout 0` would be no limit.
        [ "$(left)" -gt 0 ] || return 124
        command=(timeout --kill-after=30 "$(left)" "${command[@]}")
    fi
    # shellcheck disable=SC2086 # one word for each variable
    env $variables bash scripts/stage.sh "stories on $1" "${command[@]}" 8>&-
}

for name in "${CLUSTERS[@]}"; do
    script=scripts/clusters/$name.sh
    if [ ! -f "$script" ]; then
        echo "there is no cluster '$name': use one of $(cd scripts/clusters && ls *.sh | grep -v -e run -e cache | sed 's/\.sh$//' | paste -sd' ')" >&2
        exit 2
    fi
    was_cached=no
    built=0
    if ! take_lock "$name"; then
        unreached+=("$name: another run on this machine used it until the time limit")
        continue
    fi
    if bash "$script" cached; then was_cached=yes; fi
    if ! bash "$script" install 8>&-; then
        unreached+=("$name: its packages cannot be installed, or cannot run here")
    elif [ $was_cached = no ] && { build "$name" || built=$?; [ $built -ne 0 ]; }; then
        # 124 and 137 are those of `timeout`.
        if [ -n "$limit" ] && { [ $built -eq 124 ] || [ $built -eq 137 ]; }; then
            unreached+=("$name: its first build did not end within the time limit; what it did is kept")
        else
            unreached+=("$name: its first build failed with exit code $built")
            failed+=("$name")
        fi
        continue
    elif ! is_time_left "$name"; then
        unreached+=("$name: its stories may take $(bash "$script" seconds) s, and $(left) s are left")
        continue
    else
        status=0
        run "$name" || status=$?
        if ! stop; then
            echo "what $name started could not be stopped" >&2
            [ $status -ne 0 ] || status=1
        fi
        if [ -n "$limit" ] && { [ $status -eq 124 ] || [ $status -eq 137 ]; }; then
            unreached+=("$name: its stories did not end within the time limit")
        fi
        [ $status -eq 0 ] || failed+=("$name")
        continue
    fi
    if [ $was_cached = yes ] && is_required "$name"; then failed+=("$name"); fi
done

for reason in "${unreached[@]}"; do echo "not reached: $reason"; done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi
