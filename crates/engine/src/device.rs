//! Where a network runs.

use burn::tensor::Device;
use contract::Result;
#[cfg(not(feature = "gpu"))]
use contract::{Error, Kind};

/// The CPU, or the GPU that this build supports.
pub(crate) fn open(use_gpu: bool) -> Result<Device> {
    if use_gpu { gpu() } else { Ok(Device::flex()) }
}

#[cfg(feature = "gpu")]
#[expect(clippy::unnecessary_wraps, reason = "other builds have no GPU")]
fn gpu() -> Result<Device> {
    #[cfg(feature = "cuda")]
    let device = Device::cuda(0);
    #[cfg(all(feature = "vulkan", not(feature = "cuda")))]
    let device = Device::vulkan(burn::tensor::DeviceKind::DefaultDevice);
    #[cfg(all(feature = "wgpu", not(any(feature = "cuda", feature = "vulkan"))))]
    let device = Device::wgpu(burn::tensor::DeviceKind::DefaultDevice);
    Ok(device)
}

#[cfg(not(feature = "gpu"))]
fn gpu() -> Result<Device> {
    Err(Error::new(
        Kind::Unsupported,
        "this build has no GPU support; set use_gpu=False, or build the wheel for one: \
         make wheel FEATURES=cuda, or vulkan or wgpu",
    ))
}
