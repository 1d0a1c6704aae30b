#!/usr/bin/env bash
# Runs the engine's tests of gradients and values on a GPU, through Vulkan, and checks that the
# feature for CUDA compiles. Where the machine has no driver for a GPU, Mesa's, which computes on
# the CPU, is installed and stands in.
set -euo pipefail
cd "$(dirname "$0")/.."

has_vulkan() {
    ldconfig -p | grep -q 'libvulkan\.so\.1' &&
        compgen -G '/usr/share/vulkan/icd.d/*.json' >/dev/null
}

install_vulkan() {
    local as_root=()
    command -v apt-get >/dev/null || { echo "there is no apt-get"; return 1; }
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || { echo "this user may not install packages"; return 1; }
        as_root=(sudo -n)
    fi
    "${as_root[@]}" apt-get update --quiet --quiet &&
        "${as_root[@]}" apt-get install --quiet --quiet --yes mesa-vulkan-drivers libvulkan1
}

if ! has_vulkan && ! { install_vulkan && has_vulkan; }; then
    echo "skipped: no Vulkan driver, and mesa-vulkan-drivers and libvulkan1 cannot be installed"
    exit 0
fi
# Apart from the other builds: with the feature, Burn and all that follows are compiled anew.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/gpu"
ENGINE_TEST_GPU=1 cargo test --release --locked --package engine --features wgpu --test engine \
    -- gradients:: values:: sparse::
# CUDA needs its hardware to run, but must compile. Its build script would fetch LLVM to link with;
# told that only documentation is made, it does without, which is enough to check our code.
DOCS_RS=1 cargo check --locked --package engine --features cuda
