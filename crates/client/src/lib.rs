//! The cloud over HTTP, as its users see it. The command `paddlecloud` and Python's `paddle.cloud`
//! are thin faces of this crate.
//!
//! A [`Config`] names datacenters and who logs in there; a [`Client`] talks to one of them. It logs
//! in by itself, keeps the token, renews it once when the server refuses it, tries calls again
//! that may be repeated, and turns what the server answers into [`contract::Error`].
//!
//! It knows nothing of how the server works, does not read the environment and does not print:
//! whoever uses it says where the home directory is, and is told about progress by callbacks.

mod body;
mod client;
mod cluster_train;
mod config;
mod edit;
mod endpoint;
mod files;
mod jobs;
mod logs;
mod operation;
mod package;
mod places;
mod retry;
mod socket;
#[cfg(unix)]
mod stage;
mod tokens;
mod transport;
mod upload;
mod users;

pub use client::{Client, Profile, Rows};
pub use cluster_train::{Results, SentFile, check_health};
pub use config::{Config, Datacenter, Entry, config_file};
pub use edit::use_datacenter;
pub use endpoint::Endpoint;
pub use files::local::{LocalFile, walk};
pub use files::plan::{Direction, Plan, ends_as_directory, is_cloud, listed, local_name, name_of};
pub use files::receive::is_download_to;
pub use files::{Item, Options, Outcome, Watcher};
pub use jobs::Which;
pub use logs::{Follow, Seen};
pub use package::Package;
#[cfg(unix)]
pub use stage::Receiver;
pub use upload::Progress;
