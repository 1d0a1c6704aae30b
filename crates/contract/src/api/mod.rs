//! The cloud's own API, `/api/v2`, as both ends see it: paths, bodies, statuses.
//!
//! Times are milliseconds since 1970. Requests with a field that the server does not know are
//! refused, because to do half of what somebody asked for is worse than to refuse; answers may have
//! more fields than a client knows, and what can have a default may be missing: an older server. The original's REST paths and envelopes are not here: they are
//! a translation in `cloud`.

pub mod cluster;
pub mod cluster_train;
pub mod error;
pub mod file;
pub mod job;
pub mod log;
pub mod pack;
pub mod package;
pub mod path;
pub mod quota;
pub mod registry;
pub mod status;
pub mod user;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// What to give as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What people should know of this page, such as that a row could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The most rows of one page, and how many there are if nobody says.
pub const PAGE_ROWS_MAX: u32 = 1000;
/// How many rows a page has if nobody says.
pub const PAGE_ROWS: u32 = 100;
