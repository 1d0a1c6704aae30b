//! What a user may use in a datacenter, and does.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::quantity::Quantity;

/// Limits of a user; what is absent is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Cores of all running jobs.
    #[schema(value_type = Option<String>)]
    pub cpu: Option<Quantity>,
    /// Memory of all running jobs.
    #[schema(value_type = Option<String>)]
    pub memory: Option<Quantity>,
    /// Devices of all running jobs.
    #[schema(value_type = Option<String>)]
    pub gpu: Option<Quantity>,
    /// Replicas of all running jobs.
    pub replicas: Option<u32>,
    /// Jobs that have not ended.
    pub jobs: Option<u32>,
    /// Bytes of the files in their home.
    #[schema(value_type = Option<String>)]
    pub disk: Option<Quantity>,
}

/// What a user's running jobs have, and their files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Cores.
    #[serde(default)]
    #[schema(value_type = String)]
    pub cpu: Quantity,
    /// Memory.
    #[serde(default)]
    #[schema(value_type = String)]
    pub memory: Quantity,
    /// Devices.
    #[serde(default)]
    #[schema(value_type = String)]
    pub gpu: Quantity,
    /// Replicas.
    #[serde(default)]
    pub replicas: u32,
    /// Jobs that have not ended.
    #[serde(default)]
    pub jobs: u32,
    /// Bytes of the files in their home, as of a short while ago.
    #[serde(default)]
    pub disk_bytes: u64,
}

/// Limits and use together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    /// Whose.
    pub user: String,
    /// What they may use.
    #[serde(default)]
    pub limits: Limits,
    /// What they use.
    #[serde(default)]
    pub used: Usage,
}
