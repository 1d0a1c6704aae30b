#!/usr/bin/env bash
# Fuzzes every decoder of bytes from outside: fuzz.sh SECONDS
#
# First with many more mutations than `make test` makes, from a seed that it prints; FUZZ_SEED=N
# repeats one. Then by libFuzzer, twice for some seconds, which needs a nightly toolchain and is left out
# where there is none; FUZZ_DECODER=NAME tries one decoder.
set -euo pipefail

seconds=$1
cd "$(dirname "$0")/.."
export FUZZ_SEED="${FUZZ_SEED:-$(date +%s)}" FUZZ_ROUNDS="${FUZZ_ROUNDS:-20}"
echo "FUZZ_SEED=$FUZZ_SEED FUZZ_ROUNDS=$FUZZ_ROUNDS"
cargo test --release --locked --workspace --test decoders

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "libFuzzer skipped: no nightly toolchain (rustup toolchain install nightly)"
    exit 0
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    cargo install --quiet --locked cargo-fuzz
fi
cargo +nightly fuzz run --fuzz-dir fuzz decoder -- \
    -max_total_time="$seconds" -rss_limit_mb=2048 -verbosity=0
cargo +nightly fuzz run --fuzz-dir fuzz --features model model -- \
    -max_total_time="$seconds" -rss_limit_mb=2048 -verbosity=0
