#!/bin/sh
# Installs the client of `paddle cluster_train`: sh deploy.sh PACKAGE DIR. It puts DIR/bin in front of
# the PATH in ~/.bashrc; `rm -fr DIR`, and removing that line, uninstalls it.
set -eu
if [ $# -ne 2 ]; then
    echo "usage: sh deploy.sh PACKAGE DIR" >&2
    exit 2
fi
if ! tar -tzf "$1" ./bin/cluster_train.sh >/dev/null 2>&1; then
    echo "$0: $1 is not there, or no package that build.sh made" >&2
    exit 1
fi
mkdir -p "$2"
directory=$(cd "$2" && pwd)
# The list of receivers is the user's own.
keep=
if [ -f "$directory/bin/local_config.py" ]; then
    keep=--exclude=./bin/local_config.py
fi
tar -C "$directory" $keep -xzf "$1"
line="export PATH=\"$directory/bin:\$PATH\" #PaddlePaddle!@#\$%^&*"
touch "$HOME/.bashrc"
grep -qxF "$line" "$HOME/.bashrc" || printf '%s\n' "$line" >>"$HOME/.bashrc"
echo "installed in $directory: write your receivers to $directory/bin/local_config.py, log in with"
echo "\`paddlecloud login\`, and run \`source ~/.bashrc\`"
