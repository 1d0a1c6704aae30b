//! Jobs on machines that are reached by ssh.

pub mod conf;
pub mod host;
mod literal;
pub mod package;
pub mod transfer;
