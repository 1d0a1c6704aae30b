//! `stores:` of the configuration: file systems beside the users' own files, from which trainings of
//! `paddle cluster_train` take their data and to which they bring results. Only these can be named:
//! the server reaches more than its users may.

use super::{Location, StoreConfig, StoreUrl};
use contract::{Error, Result};
use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;

/// A store, and how to get in.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutsideStore {
    /// `hdfs://namenode:port/path`, `s3://bucket/prefix` and the like, or `file:///directory`. What
    /// is below the path can be named, the rest cannot.
    pub url: OutsideUrl,
    /// Credentials. The user of an HDFS comes from the training's own `fs_ugi`.
    #[serde(default)]
    pub store: StoreConfig,
}

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum OutsideUrl {
    /// A directory of the server's machine.
    Directory(PathBuf),
    /// Something that is reached over the network.
    Store(StoreUrl),
}

impl TryFrom<String> for OutsideUrl {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let refuse = |why: &str| Error::invalid(format!("stores.url: {why}")).with("url", &text);
        if let Some(path) = text.strip_prefix("file://") {
            let path = path.trim_end_matches('/');
            return match path.starts_with('/') {
                true => Ok(OutsideUrl::Directory(path.into())),
                false => Err(refuse("name a directory, as in file:///data/shared")),
            };
        }
        match Location::try_from(text.clone()) {
            Ok(Location::Store(url)) => Ok(OutsideUrl::Store(url)),
            _ => Err(refuse(
                "use file:///directory, hdfs://namenode:port/path or s3://bucket/prefix",
            )),
        }
    }
}

impl OutsideUrl {
    /// The part that a training names as `fs_name`.
    pub(crate) fn file_system(&self) -> String {
        match self {
            OutsideUrl::Directory(_) => "file://".to_owned(),
            OutsideUrl::Store(url) => format!("{}://{}", url.scheme.word(), url.authority),
        }
    }

    /// Where it begins in that file system: empty, or with a slash in front.
    pub(crate) fn top(&self) -> String {
        match self {
            OutsideUrl::Directory(path) => path.display().to_string(),
            OutsideUrl::Store(url) if url.path.is_empty() => String::new(),
            OutsideUrl::Store(url) => format!("/{}", url.path),
        }
    }
}

impl fmt::Display for OutsideUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.file_system(), self.top())
    }
}

impl OutsideStore {
    pub(super) fn check(&self) -> Result<()> {
        let scheme = match &self.url {
            OutsideUrl::Directory(_) => None,
            OutsideUrl::Store(url) => Some(url.scheme),
        };
        self.store.check(scheme).map_err(|error| error.with("store", &self.url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_a_file_system_and_a_top() {
        let check = |text: &str, file_system: &str, top: &str| {
            let url = OutsideUrl::try_from(text.to_owned()).unwrap();
            assert_eq!((url.file_system().as_str(), url.top().as_str()), (file_system, top));
        };
        check("hdfs://nn:54310", "hdfs://nn:54310", "");
        check("hdfs://nn:54310/app/ecom/", "hdfs://nn:54310", "/app/ecom");
        check("s3://bucket/a", "s3://bucket", "/a");
        check("file:///data/shared/", "file://", "/data/shared");
        for text in ["/data", "file://data", "ftp://a", "s3://me:secret@bucket"] {
            assert!(OutsideUrl::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
