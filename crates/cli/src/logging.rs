//! Where log lines go: standard error, and a file where one is asked for.

use contract::{Error, Result};
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

/// Starts logging. With a folder, everything also goes to the file `name` in it.
pub fn start(folder: Option<&Path>, name: &str) -> Result<()> {
    let stderr = fmt::layer().with_writer(std::io::stderr).with_target(false).with_ansi(false);
    let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = vec![stderr.boxed()];
    if let Some(folder) = folder {
        let file = Arc::new(open(&folder.join(name))?);
        layers.push(fmt::layer().with_writer(file).with_target(false).with_ansi(false).boxed());
    }
    // This client logs failures that it also returns.
    let shown =
        Targets::new().with_default(LevelFilter::INFO).with_target("kube_client", LevelFilter::OFF);
    // A program that has set up logging of its own keeps it.
    let _ = tracing_subscriber::registry().with(layers).with(shown).try_init();
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    let refused =
        |source| Error::io("cannot write the log file", source).with("file", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(refused)?;
    }
    OpenOptions::new().create(true).append(true).open(path).map_err(refused)
}
