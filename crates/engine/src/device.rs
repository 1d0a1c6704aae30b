//! Where a network runs.

use burn::tensor::Device;
use contract::Result;
#[cfg(not(any(feature = "cuda", feature = "vulkan")))]
use contract::{Error, Kind};

/// The CPU, or the GPU that this build supports.
pub(crate) fn open(use_gpu: bool) -> Result<Device> {
    if use_gpu { gpu() } else { Ok(Device::flex()) }
}

#[cfg(feature = "cuda")]
#[expect(clippy::unnecessary_wraps, reason = "other builds have no GPU")]
fn gpu() -> Result<Device> {
    Ok(Device::cuda(0))
}

#[cfg(all(feature = "vulkan", not(feature = "cuda")))]
#[expect(clippy::unnecessary_wraps, reason = "other builds have no GPU")]
fn gpu() -> Result<Device> {
    Ok(Device::vulkan(burn::tensor::DeviceKind::DefaultDevice))
}

#[cfg(not(any(feature = "cuda", feature = "vulkan")))]
fn gpu() -> Result<Device> {
    Err(Error::new(
        Kind::Unsupported,
        "this build has no GPU support; set use_gpu=False, or build with the feature cuda or vulkan",
    ))
}
