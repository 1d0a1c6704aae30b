//! A package as an archive that fits into the job's Secret.

use super::plan::PACKAGE_BYTES_MAX;
use crate::ssh::package::{Entry, Manifest};
use contract::{Error, Kind, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::path::Path;
use tar::{Builder, HeaderMode};

/// Packs the files of a manifest.
///
/// # Errors
/// [`Kind::LimitExceeded`] if it is too large to travel with the job.
pub(super) fn pack(manifest: &Manifest, folder: &Path) -> Result<Vec<u8>> {
    let refused =
        |source| Error::io("cannot pack the package", source).with("package", folder.display());
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    // The same package is the same archive, whoever packs it and when.
    archive.mode(HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    for (path, entry) in &manifest.0 {
        let full = folder.join(path);
        match entry {
            Entry::Directory => archive.append_dir(path, &full),
            Entry::File { .. } | Entry::Link { .. } => archive.append_path_with_name(&full, path),
        }
        .map_err(refused)?;
        // Long before everything is packed it is known to be too much.
        check(archive.get_ref().get_ref().len(), folder)?;
    }
    let bytes = archive.into_inner().and_then(GzEncoder::finish).map_err(refused)?;
    check(bytes.len(), folder)?;
    Ok(bytes)
}

fn check(bytes: usize, folder: &Path) -> Result<()> {
    if bytes <= PACKAGE_BYTES_MAX {
        return Ok(());
    }
    let message = "the package is too large to travel with the job: put it into the image or on a \
                   volume, and name its path by --remote_workspace";
    Err(Error::new(Kind::LimitExceeded, message)
        .with("package", folder.display())
        .with("packed_bytes_max", PACKAGE_BYTES_MAX))
}
