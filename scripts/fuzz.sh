#!/usr/bin/env bash
# Fuzzes the RecordIO reader for some seconds: fuzz.sh SECONDS
#
# cargo-fuzz needs a nightly toolchain. Where there is none, the property tests, which `cargo test`
# has run, are the equivalent: random corruption of valid files, bounded.
set -euo pipefail

seconds=$1
cd "$(dirname "$0")/../crates/recordio"
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "skipped: no nightly toolchain (rustup toolchain install nightly)"
    exit 0
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    cargo install --quiet --locked cargo-fuzz
fi
cargo +nightly fuzz run read -- -max_total_time="$seconds" -rss_limit_mb=2048 -verbosity=0
