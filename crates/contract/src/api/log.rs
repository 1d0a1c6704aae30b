//! What replicas printed, and measured.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::role::Role;

/// Which part of a job's logs is wanted: the query of the call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// Only this replica: `<job>-trainer-0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Only replicas of this role.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub role: Option<Role>,
    /// Begin with this many last lines of each replica; absent for the beginning of what is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<u32>,
    /// Begin where other pieces ended, `<worker>=<cursor>` separated by commas. A replica that is
    /// not named begins as `tail` says; one that begins to print while it is followed, at its
    /// beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursors: Option<String>,
    /// Whether the answer goes on until the job has ended: one JSON object per line, and an empty
    /// line now and then while nothing is printed.
    pub follow: bool,
}

/// A piece of a log. A call with `follow=true` answers with one of these per line until the job
/// has ended, another call with a list of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogPiece {
    /// The replica that printed it: `<job>-trainer-0`.
    pub worker: String,
    /// What it printed; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// Where the next piece of this replica begins.
    pub cursor: String,
    /// Bytes before this piece that are no longer kept.
    #[serde(default)]
    pub skipped_bytes: u64,
    /// Whether nothing will follow from this replica.
    #[serde(default)]
    pub is_last: bool,
}

/// A line of a replica's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricsLine {
    /// The replica.
    pub worker: String,
    /// What it measured.
    #[schema(value_type = Object)]
    pub figures: serde_json::Value,
}

/// How many lines of each replica are shown if nobody says.
pub const TAIL_LINES: u32 = 10;
/// The most text of an answer that is not a stream; the rest is asked for by cursors.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// A follower hears at least an empty line so often, so that it can tell a quiet job from a server
/// that is gone.
pub const HEARTBEAT_SECONDS: u64 = 15;
