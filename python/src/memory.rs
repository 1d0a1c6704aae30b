//! The allocator of this extension, and how long it keeps memory that nobody uses.

use std::ffi::{c_int, c_long};

/// The tensors of a step are large and live shortly; the system's allocator would give their pages
/// back to the kernel and fetch them again, step by step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`.
const PURGE_DELAY: c_int = 15;
/// How long free memory is kept, where the variable MIMALLOC_PURGE_DELAY does not say it. By default
/// it is a second, so that every second all memory that is free between two operations is given
/// back, to be cleared by the kernel when the next operation takes it again.
const KEPT_MS: c_long = 10_000;

#[expect(unsafe_code, reason = "the allocator's crate has no function for its options")]
mod options {
    use super::{c_int, c_long};

    unsafe extern "C" {
        /// Sets an option that the environment does not set.
        pub(super) safe fn mi_option_set_default(option: c_int, value: c_long);
    }
}

/// Makes the allocator keep free memory across steps.
pub(crate) fn keep_free_memory() {
    options::mi_option_set_default(PURGE_DELAY, KEPT_MS);
}
