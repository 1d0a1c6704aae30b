//! The program of a job, as a list of files by their content, so that only what changed is sent.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The files of a package, by their path below its directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The files.
    pub files: BTreeMap<String, PackageFile>,
}

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PackageFile {
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it may be executed.
    pub is_executable: bool,
}

/// What the server answers to a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Missing {
    /// The name of the package: the digest of its manifest.
    pub digest: String,
    /// The contents that the server does not have yet, by their SHA-256. When there are none the
    /// package is complete and can be submitted.
    pub missing: Vec<String>,
}

/// A package in a few words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PackageSummary {
    /// The digest of its manifest.
    pub digest: String,
    /// How many files it has.
    #[serde(default)]
    pub files: u64,
    /// Their size together.
    #[serde(default)]
    pub bytes: u64,
}

/// The most files of a package.
pub const FILES_MAX: usize = 100_000;
/// The largest file of a package. Data belongs into the file store.
pub const FILE_BYTES_MAX: u64 = 1 << 30;
/// The largest package.
pub const PACKAGE_BYTES_MAX: u64 = 4 << 30;
