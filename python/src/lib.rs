//! The extension module `paddle._native`: thin classes over the Rust crates, one file per noun.
//! What a Python programmer sees is documented in the Python packages that re-export these.

mod cloud;
mod cloud_files;
mod description;
mod environment;
mod error;
mod feed;
mod file_feed;
mod master_client;
mod memory;
mod network;
mod parameter_client;
mod parameters;
mod recordio_index;
mod recordio_reader;
mod recordio_writer;
mod trainer;
mod waiting;

use pyo3::prelude::*;

/// Native parts of the packages `paddle` and `recordio`; import those instead.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::cloud::{CloudClient, CloudLogs};
    #[pymodule_export]
    use super::cloud_files::CloudFiles;
    #[pymodule_export]
    use super::description::{check_evaluator, check_optimizer, check_settings, plan_layer};
    #[pymodule_export]
    use super::environment::read_environment;
    #[pymodule_export]
    use super::file_feed::{FeedBatches, FileFeed};
    #[pymodule_export]
    use super::master_client::{MasterClient, MasterTask, TaskRecords};
    #[pymodule_export]
    use super::network::{Batch, Network};
    #[pymodule_export]
    use super::parameter_client::ParameterClient;
    #[pymodule_export]
    use super::parameters::Parameters;
    #[pymodule_export]
    use super::recordio_index::Index;
    #[pymodule_export]
    use super::recordio_reader::Reader;
    #[pymodule_export]
    use super::recordio_writer::Writer;
    #[pymodule_export]
    use super::trainer::{Inference, Trainer, check_mode};
    /// Runs when the module is imported.
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::memory::keep_free_memory();
        Ok(())
    }

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
