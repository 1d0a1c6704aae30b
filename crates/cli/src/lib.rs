//! What the commands share, and what can be tested without running one: flags and numbers as people
//! type them, exit codes, logging, how output looks. Each command lives in a folder of its own
//! (`paddle/`), with its arguments and one file per verb.

pub mod duration;
pub mod exit;
pub mod figures;
pub mod flags;
pub mod logging;
pub mod number;
pub mod output;
pub mod prefix;
pub mod program;
pub mod status;
pub mod summary;
pub mod traceback;
