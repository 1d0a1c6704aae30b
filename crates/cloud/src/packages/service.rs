//! The rules of packages.

use super::store;
use crate::Cloud;
use crate::blocking::blocking;
use crate::clock::now_ms;
use crate::files::blobs::check_sha256;
use contract::api::package::{
    FILE_BYTES_MAX, FILES_MAX, Manifest, Missing, PACKAGE_BYTES_MAX, PackageSummary,
};
use contract::{Error, Kind, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::time::Duration;

const PATH_BYTES_MAX: usize = 1024;
const COMPONENT_BYTES_MAX: usize = 255;
const DEPTH_MAX: usize = 64;

/// Says what is missing of a package. One of which nothing is missing is kept, and can be
/// submitted.
pub(crate) async fn offer(cloud: &Cloud, username: &str, manifest: Manifest) -> Result<Missing> {
    check(&manifest)?;
    let digest = digest(&manifest)?;
    let (blobs, owner) = (cloud.blobs.clone(), username.to_owned());
    let (manifest, missing) = blocking(move || {
        let lacks = |file: &&contract::api::package::PackageFile| {
            !blobs.has(&owner, &file.sha256, file.bytes)
        };
        let missing: BTreeSet<String> =
            manifest.files.values().filter(lacks).map(|file| file.sha256.clone()).collect();
        Ok((manifest, missing))
    })
    .await?;
    if missing.is_empty() {
        let mut write = cloud.database.write().await?;
        store::put(&mut write, username, &summary(&digest, &manifest), &manifest, now_ms()).await?;
        write.commit().await?;
    }
    Ok(Missing { digest, missing: missing.into_iter().collect() })
}

/// The package of this digest, if the user has sent all of it.
pub(crate) async fn find(cloud: &Cloud, username: &str, digest: &str) -> Result<Manifest> {
    store::get(&cloud.database, username, digest).await?.ok_or_else(|| {
        let message = "the server does not have this package: send it again";
        Error::new(Kind::NotFound, message).with("package", digest)
    })
}

/// How long a package is kept that no job in history names, and a content of no package.
const KEEP_MS: u64 = 30 * 24 * 3600 * 1000;

/// The same where its user has no room for more. An upload that is going on is not that old.
const KEEP_FULL_MS: u64 = 3600 * 1000;

/// Removes packages and contents that nobody needs any more.
pub(crate) async fn sweep(cloud: &Cloud) -> Result<()> {
    for user in crate::users::store::users(&cloud.database).await? {
        sweep_of(cloud, &user.user.username, KEEP_MS).await?;
    }
    Ok(())
}

/// Removes what a user does not need, because there is no room for more.
pub(super) async fn make_room(cloud: &Cloud, username: &str) -> Result<()> {
    sweep_of(cloud, username, KEEP_FULL_MS).await
}

async fn sweep_of(cloud: &Cloud, username: &str, keep_ms: u64) -> Result<()> {
    let mut write = cloud.database.write().await?;
    store::sweep(&mut write, username, now_ms().saturating_sub(keep_ms)).await?;
    write.commit().await?;
    let manifests = store::all(&cloud.database, username).await?;
    let (blobs, username) = (cloud.blobs.clone(), username.to_owned());
    blocking(move || {
        let files = manifests.iter().flat_map(|manifest| manifest.files.values());
        let needed = files.map(|file| file.sha256.clone()).collect();
        blobs.sweep(&username, &needed, Duration::from_millis(keep_ms)).map(|_| ())
    })
    .await
}

/// A package in a few words.
fn summary(digest: &str, manifest: &Manifest) -> PackageSummary {
    PackageSummary {
        digest: digest.to_owned(),
        files: manifest.files.len() as u64,
        bytes: manifest.files.values().map(|file| file.bytes).sum(),
    }
}

/// The name of a package: the SHA-256 of its manifest as JSON, files in order.
fn digest(manifest: &Manifest) -> Result<String> {
    let json = crate::database::to_json(manifest)?;
    Ok(Sha256::digest(json.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Refuses a package that could not be a directory: it comes from outside.
fn check(manifest: &Manifest) -> Result<()> {
    let limit = |message: String| Err(Error::new(Kind::LimitExceeded, message));
    if manifest.files.len() > FILES_MAX {
        return limit(format!("a package has at most {FILES_MAX} files"));
    }
    let mut bytes = 0_u64;
    for (path, file) in &manifest.files {
        check_path(path)?;
        check_sha256(&file.sha256).map_err(|error| error.with("file", path))?;
        if file.bytes > FILE_BYTES_MAX {
            let message = "a file is too large for a package: put data into the file store";
            return Err(Error::new(Kind::LimitExceeded, message)
                .with("file", path)
                .with("bytes_max", FILE_BYTES_MAX));
        }
        bytes = bytes.saturating_add(file.bytes);
    }
    if bytes > PACKAGE_BYTES_MAX {
        return limit(format!("a package has at most {PACKAGE_BYTES_MAX} bytes, not {bytes}"));
    }
    // A file cannot also be a folder. Paths are in order, but `a.b` is between `a` and `a/c`.
    for path in manifest.files.keys() {
        for (index, _) in path.match_indices('/') {
            if manifest.files.contains_key(&path[..index]) {
                let message = "a path of the package is both a file and a directory";
                return Err(Error::invalid(message).with("path", &path[..index]));
            }
        }
    }
    Ok(())
}

fn check_path(path: &str) -> Result<()> {
    let is_component = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.len() <= COMPONENT_BYTES_MAX
            && !part.chars().any(char::is_control)
    };
    let is_path = !path.is_empty()
        && path.len() <= PATH_BYTES_MAX
        && path.split('/').count() <= DEPTH_MAX
        && path.split('/').all(is_component);
    match is_path {
        true => Ok(()),
        false => Err(Error::invalid(
            "not a path of a package: use names separated by `/`, without `..` and control \
             characters",
        )
        .with("path", path.escape_debug())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::api::package::PackageFile;

    fn package(paths: &[&str]) -> Manifest {
        let file = PackageFile { sha256: "a".repeat(64), bytes: 1, is_executable: false };
        Manifest { files: paths.iter().map(|path| ((*path).to_owned(), file.clone())).collect() }
    }

    #[test]
    fn paths_cannot_leave_the_package_or_contradict_each_other() {
        check(&package(&["train.py", "a/b/c.py", "a.b", "a/x"])).unwrap();
        for paths in [
            &["/etc/passwd"][..],
            &["../x"],
            &["a/../../x"],
            &["a//b"],
            &["./a"],
            &["a/"],
            &[""],
            &["a\nb"],
            &["a", "a.b", "a/c"],
        ] {
            assert!(check(&package(paths)).is_err(), "{paths:?}");
        }
    }

    #[test]
    fn the_digest_is_that_of_the_content() {
        let one = digest(&package(&["a", "b"])).unwrap();
        assert_eq!(one, digest(&package(&["b", "a"])).unwrap());
        assert_ne!(one, digest(&package(&["a", "c"])).unwrap());
    }
}
