//! Training: the network of `engine` joined with its parameters, wherever they live.
//!
//! Reading order: what a parameter is (`description`) and how it is changed (`recipe`), the values
//! in this process (`values`), those on servers (`servers`) and both as one (`parameters`), who
//! changes them (`updater`), one step, with later batches made ready beside it (`step`, `ahead`,
//! `ready`) and its round trip to the servers (`exchange`), one answer (`inference`), batches known again
//! (`fingerprint`), and models as files (`model_file`). It neither prints nor reads the environment.

pub mod description;
pub mod recipe;

pub mod parameters;
mod servers;
pub mod values;

pub mod updater;

mod ahead;
mod exchange;
mod fingerprint;
pub mod inference;
mod matching;
mod ready;
pub mod step;

pub mod model_file;

pub use ahead::{Announced, Fed};
pub use description::Description;
pub use fingerprint::fingerprint;
pub use inference::Inference;
pub use parameters::Parameters;
pub use ready::{Computed, Ready};
pub use recipe::{Own, Recipe};
pub use step::{Step, Trainer};
pub use updater::RemoteConfig;
pub use values::{DescriptionIndex, View};
