//! Credentials of image registries. The secret goes to the server and never comes back.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Credentials to be kept under a name.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// The registry's address.
    pub server: String,
    /// The name at the registry.
    pub username: String,
    /// The password there.
    pub password: String,
}

/// A registry as its owner sees it later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registry {
    /// Its name.
    pub name: String,
    /// The registry's address.
    pub server: String,
    /// The name at the registry.
    #[serde(default)]
    pub username: String,
    /// When it was added.
    #[serde(default)]
    pub created_ms: u64,
}
