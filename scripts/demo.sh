#!/usr/bin/env bash
# The demonstration behind `make demo`: demo.sh VENV
# A cloud of its own on this machine, a user, a distributed training, its result; then all is stopped.
set -euo pipefail

bin=$(realpath "$1")/bin
export PATH=$bin:$PATH
folder=$(mktemp -d)
export PADDLE_JOBS_DIR=$folder/jobs
unset PADDLECLOUD_TOKEN
server=
finish() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$folder"
}
trap finish EXIT

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

# A configuration of the command: configure FILE USER PASSWORD
configure() {
    cat >"$1" <<YAML
datacenters:
- name: local
  username: $2
  password: $3
  endpoint: $endpoint
current-datacenter: local
YAML
    chmod 600 "$1"
}

say paddle version
paddle version

say "paddlecloud serve    # users, jobs, files and logs for many; here for this demonstration alone"
paddlecloud serve --data_dir "$folder/cloud" --listen 127.0.0.1:0 \
    >"$folder/listening" 2>"$folder/serve.log" &
server=$!
for _ in $(seq 300); do
    grep -q '^listening on' "$folder/listening" && break
    kill -0 "$server" 2>/dev/null || { cat "$folder/serve.log" >&2; exit 1; }
    sleep 0.1
done
cat "$folder/listening"
endpoint=$(sed -n 's/^listening on //p' "$folder/listening")
[ -n "$endpoint" ] || { echo "the cloud did not start within 30 seconds" >&2; exit 1; }

# What an administrator does once.
configure "$folder/admin" admin "$(cat "$folder/cloud/admin_password")"
say "paddlecloud user add demo@example.com"
password=demo-$RANDOM$RANDOM$RANDOM
paddlecloud user add demo@example.com -config "$folder/admin" <<<"$password"

# What a user does.
configure "$folder/user" demo@example.com "$password"
package=$folder/ctr
mkdir "$package"
cp examples/ctr/*.py "$package"
(cd "$package" && python generate.py criteo)
ctr() { paddlecloud "$@" -config "$folder/user"; }
say "paddlecloud submit -jobname ctr -parallelism 2 -pservers 2 -passes 2 -follow ..."
ctr submit -jobname ctr -parallelism 2 -pservers 2 -passes 2 -follow \
    -entry "python train.py --preset test" "$package"

say "paddlecloud get jobs"
ctr get jobs
say "paddlecloud get workers ctr"
ctr get workers ctr
say "paddlecloud why ctr"
ctr why ctr

home=/pfs/local/home/demo@example.com
say "paddlecloud ls $home/jobs/ctr/output"
ctr ls "$home/jobs/ctr/output"
say "paddlecloud cp $home/jobs/ctr/output/pass-1.tar.gz ."
ctr cp "$home/jobs/ctr/output/pass-1.tar.gz" "$package/pass-1.tar.gz"
say "python infer.py: the chances of the first clicks"
(cd "$package" && python infer.py --model pass-1.tar.gz --sparse_feature_dim 10007 | sed -n 1,5p)
