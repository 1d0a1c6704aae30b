//! The program of a job that travels with it: an archive that is mounted into every pod.

use contract::env::Environment;
use contract::{Error, Result};
use std::fs::File;
use std::path::Path;

/// Unpacks an archive to the directory of the program.
pub(crate) fn unpack(archive: &Path, environment: &Environment) -> Result<()> {
    if environment.package.is_empty() {
        return Err(Error::invalid("TRAINER_PACKAGE is not set: it is where to unpack to"));
    }
    let refused = |source| {
        Error::io("cannot unpack the program", source)
            .with("archive", archive.display())
            .with("TRAINER_PACKAGE", &environment.package)
    };
    let file = File::open(archive).map_err(refused)?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    // A pod that is started again has it already; a volume may not know owners.
    archive.set_overwrite(true);
    archive.set_preserve_permissions(true);
    archive.unpack(&environment.package).map_err(refused)
}
