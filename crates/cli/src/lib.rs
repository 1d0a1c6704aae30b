//! What the commands share, and what can be tested without running one: flags and numbers as people
//! type them, exit codes, logging, how output looks. Each command lives in a folder of its own
//! (`paddle/`, `paddlecloud/`), with its arguments and one file per verb.

pub mod cluster_train;
pub mod completions;
pub mod duration;
pub mod exit;
#[cfg(feature = "server")]
pub mod figures;
pub mod flags;
#[cfg(feature = "server")]
pub mod logging;
pub mod number;
pub mod one_dash;
pub mod output;
pub mod prefix;
#[cfg(feature = "server")]
pub mod program;
pub mod prompt;
pub mod python;
pub mod size;
#[cfg(feature = "server")]
pub mod status;
#[cfg(feature = "server")]
pub mod summary;
pub mod time;
pub mod traceback;
