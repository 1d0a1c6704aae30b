# What build.sh and build_private_paddle.sh have in common: their two arguments, and the wheel.

# choose [cpu|gpu] [rdma|nonrdma] sets kind.
choose() {
    kind=${1:-cpu}
    network=${2:-nonrdma}
    case $kind in
    cpu | gpu) ;;
    *)
        echo "$0: cpu or gpu, not $kind" >&2
        exit 2
        ;;
    esac
    case $network in
    nonrdma) ;;
    rdma)
        echo "$0: rdma is not supported: parameter servers speak TCP alone; use nonrdma" >&2
        exit 2
        ;;
    *)
        echo "$0: rdma or nonrdma, not $network" >&2
        exit 2
        ;;
    esac
}

# wheel ROOT prints a wheel, which it builds unless WHEEL names one.
wheel() {
    if [ -z "${WHEEL:-}" ]; then
        features=
        [ "$kind" = cpu ] || features=cuda
        make -C "$1" --no-print-directory wheel "FEATURES=$features" >&2
        WHEEL=$(ls "$1"/dist/*.whl)
    fi
    if [ ! -f "$WHEEL" ]; then
        echo "$0: there is no wheel $WHEEL" >&2
        exit 1
    fi
    echo "$WHEEL"
}
