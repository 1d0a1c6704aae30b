//! Training: the network of `engine` joined with its parameters, wherever they live.
//!
//! Reading order: what a parameter is (`description`) and how it is changed (`recipe`), the values
//! of a model in this process or on servers (`parameters`), who changes them (`updater`), one step
//! and one answer (`step`, `inference`), and models as files (`model_file`). It neither prints nor
//! reads the environment.

pub mod description;
pub mod parameters;
pub mod recipe;

pub mod updater;

pub mod inference;
mod matching;
pub mod step;

pub mod model_file;

pub use description::Description;
pub use inference::Inference;
pub use parameters::{Parameters, View};
pub use recipe::{Own, Recipe};
pub use step::{Gradient, Step, Trainer};
pub use updater::RemoteConfig;
