//! What the commands share: durations, exit codes, logging and how output looks. Each command lives in a folder of its
//! own (`paddle/`), with its arguments and one file per verb.

pub mod duration;
pub mod exit;
pub mod logging;
pub mod output;
pub mod status;
