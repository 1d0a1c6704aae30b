//! What a pod writes in the folder for logs of its job: the output of its program, and a folder of
//! its own for what the program writes itself. Pods of a job may share a volume.

use contract::env::Environment;
use contract::{Error, Result};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// Makes the pod's own folder, named by role and rank, and tells the program of that one. Returns the
/// file beside it for the output; `None` if there is no folder for logs.
pub(crate) fn take_folder(environment: &mut Environment) -> Result<Option<PathBuf>> {
    if environment.log_dir.is_empty() {
        return Ok(None);
    }
    let own_name = format!("{}-{}", environment.role, environment.rank.unwrap_or(0));
    // The program may run in another directory.
    let shared = std::path::absolute(&environment.log_dir)
        .map_err(|source| refused(source, Path::new(&environment.log_dir)))?;
    let own = shared.join(&own_name);
    std::fs::create_dir_all(&own).map_err(|source| refused(source, &own))?;
    environment.log_dir = own.to_string_lossy().into_owned();
    Ok(Some(shared.join(format!("{own_name}.log"))))
}

/// Opens the file for the output. A pod that is started again writes behind what was there.
pub(crate) fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|source| refused(source, path))
}

fn refused(source: std::io::Error, path: &Path) -> Error {
    let message = "cannot write the log: is its volume mounted, and may this user write there?";
    Error::io(message, source).with("path", path.display())
}
