#!/usr/bin/env bash
# An S3 server, MinIO, for tests. README.md says what the verbs are.
source "$(dirname "$0")/cache.sh"

VERSION=v0.0.0-20260212201848-7aac2a2c5b7c
PROGRAM=$CACHE/minio-${VERSION##*-}/minio
KEY=testkey
SECRET=testsecret
BUCKET=paddle

case $1 in
install)
    install_packages go golang-go curl curl
    ;;
cached)
    [ -x "$PROGRAM" ]
    ;;
build)
    # Go keeps what it compiled, so a build that was stopped goes on.
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh"' EXIT
    (cd "$fresh" && GOBIN=$fresh go install "github.com/minio/minio@$VERSION")
    mkdir -p "$(dirname "$PROGRAM")"
    mv "$fresh/minio" "$PROGRAM"
    ;;
seconds)
    echo 0
    ;;
start)
    directory=$2
    port=$(free_ports 1)
    url=http://127.0.0.1:$port
    mkdir "$directory/home" "$directory/data"
    HOME=$directory/home MINIO_ROOT_USER=$KEY MINIO_ROOT_PASSWORD=$SECRET MINIO_BROWSER=off \
        MINIO_UPDATE=off MINIO_CI_CD=1 setsid "$PROGRAM" server --quiet \
        --address "127.0.0.1:$port" "$directory/data" >"$directory/log" 2>&1 </dev/null &
    pid=$!
    echo "$pid" >"$directory/pid"
    await "$pid" "$directory/log" curl -sf "$url/minio/health/ready"
    # The sum of nothing, which the signature of an empty body needs.
    empty=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    curl -sf -X PUT --aws-sigv4 aws:amz:us-east-1:s3 --user "$KEY:$SECRET" \
        -H "x-amz-content-sha256: $empty" "$url/$BUCKET" >&2
    echo "PADDLE_TEST_S3=$url"
    ;;
test)
    cargo test --release --locked --workspace --lib files::stores::object
    cargo test --release --locked --workspace --test cloud stores::minio
    make --no-print-directory build
    .venv/bin/pytest -c python/pyproject.toml python/tests/test_cluster_train.py -k minio
    ;;
stop)
    end_processes "$2/pid"
    ;;
esac
