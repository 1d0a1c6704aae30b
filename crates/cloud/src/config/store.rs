//! Where a datacenter keeps its users' files: a directory, or the URL of a store and how to get in.
//!
//! Credentials are never in the URL, because URLs are printed: they are in `store:`, as text, or as
//! the name of an environment variable or of a file.

use contract::secret::Secret;
use contract::{Error, Result};
use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;

/// `files:` of a datacenter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Location {
    /// A directory of the server's machine, or what is mounted there.
    Directory(PathBuf),
    /// A store that is reached over the network.
    Store(StoreUrl),
}

/// The URL of a store: `s3://bucket/prefix`, `hdfs://namenode:port/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// What speaks there.
    pub scheme: Scheme,
    /// The bucket, the container, or the name node with its port.
    pub authority: String,
    /// Everything is below it; empty, or without slashes at its ends.
    pub path: String,
}

/// Stores that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Amazon's S3, and what speaks like it.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azblob,
    /// Aliyun's Object Storage Service.
    Oss,
    /// The Hadoop Distributed File System.
    Hdfs,
}

impl Scheme {
    const ALL: [(Scheme, &'static str); 5] = [
        (Scheme::S3, "s3"),
        (Scheme::Gcs, "gs"),
        (Scheme::Azblob, "azblob"),
        (Scheme::Oss, "oss"),
        (Scheme::Hdfs, "hdfs"),
    ];

    /// Its word in URLs.
    pub fn word(self) -> &'static str {
        Scheme::ALL.iter().find(|(scheme, _)| *scheme == self).map_or("", |(_, word)| *word)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.scheme.word(), self.authority, self.path)
    }
}

impl TryFrom<String> for Location {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let refuse = |why: &str| Err(Error::invalid(format!("files: {why}")));
        let Some((word, rest)) = text.split_once("://") else {
            return match text.starts_with('/') {
                true => Ok(Location::Directory(text.into())),
                false => refuse("use an absolute path, or a URL such as s3://bucket/prefix"),
            };
        };
        let known = Scheme::ALL.iter().find(|(_, known)| *known == word);
        let Some((scheme, _)) = known else {
            return refuse(&format!("'{word}' is no known store: use s3, gs, azblob, oss or hdfs"));
        };
        if rest.contains(['@', '?', '#']) {
            return refuse(
                "no credentials or settings in the URL, because it is printed: use `store:`",
            );
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() {
            return refuse("the URL names no bucket or name node");
        }
        let is_odd = |part: &str| matches!(part, "" | "." | "..");
        let path = path.trim_matches('/');
        if !path.is_empty() && path.split('/').any(is_odd) {
            return refuse("the path of the URL has an empty part, or one of dots");
        }
        let url =
            StoreUrl { scheme: *scheme, authority: authority.to_owned(), path: path.to_owned() };
        Ok(Location::Store(url))
    }
}

/// `store:` of a datacenter: how to get into it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// The server, such as `https://s3.example.com`; absent for the provider's own.
    pub endpoint: Option<String>,
    /// The region; with S3.
    pub region: Option<String>,
    /// The key's name; with S3 and OSS. Without keys S3 looks where Amazon's own tools look.
    pub access_key_id: Option<Credential>,
    /// The key; with S3 and OSS.
    pub secret_access_key: Option<Credential>,
    /// What goes with keys for a while; with S3.
    pub session_token: Option<Credential>,
    /// The account; with Azure.
    pub account_name: Option<Credential>,
    /// Its key; with Azure.
    pub account_key: Option<Credential>,
    /// The JSON of a service account; with Google.
    pub service_account: Option<Credential>,
    /// The user who owns the files; with HDFS.
    pub user: Option<String>,
    /// A directory with `core-site.xml` and `hdfs-site.xml`; with HDFS.
    pub config_dir: Option<PathBuf>,
}

/// A secret, or where it is.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Written")]
pub enum Credential {
    /// The text itself.
    Text(Secret),
    /// In this environment variable.
    Variable(String),
    /// In this file, without the spaces and ends of lines around it.
    File(PathBuf),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Variable(Variable),
    File(File),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variable {
    env: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    file: PathBuf,
}

impl From<Written> for Credential {
    fn from(written: Written) -> Self {
        match written {
            Written::Text(text) => Credential::Text(Secret::new(text)),
            Written::Variable(Variable { env }) => Credential::Variable(env),
            Written::File(File { file }) => Credential::File(file),
        }
    }
}

impl StoreConfig {
    fn credentials(&mut self) -> [(&'static str, &mut Option<Credential>); 6] {
        [
            ("access_key_id", &mut self.access_key_id),
            ("secret_access_key", &mut self.secret_access_key),
            ("session_token", &mut self.session_token),
            ("account_name", &mut self.account_name),
            ("account_key", &mut self.account_key),
            ("service_account", &mut self.service_account),
        ]
    }

    /// Puts the text in place of variables and files that hold it.
    pub(super) fn resolve(&mut self, variable: &dyn Fn(&str) -> Option<String>) -> Result<()> {
        for (field, credential) in self.credentials() {
            let text = match credential {
                None | Some(Credential::Text(_)) => continue,
                Some(Credential::Variable(name)) => variable(name).ok_or_else(|| {
                    let message = format!("store.{field}: the environment variable is not set");
                    Error::invalid(message).with("env", &*name)
                })?,
                Some(Credential::File(path)) => {
                    let text = std::fs::read_to_string(&*path).map_err(|source| {
                        Error::io(format!("store.{field}: the file cannot be read"), source)
                            .with("file", path.display())
                    })?;
                    text.trim().to_owned()
                }
            };
            *credential = Some(Credential::Text(Secret::new(text)));
        }
        Ok(())
    }

    /// Refuses a setting that this store does not have, by its name.
    pub(super) fn check(&self, scheme: Option<Scheme>) -> Result<()> {
        use Scheme::{Azblob, Gcs, Hdfs, Oss, S3};
        let settings: [(&str, bool, &[Scheme]); 10] = [
            ("endpoint", self.endpoint.is_some(), &[S3, Gcs, Azblob, Oss]),
            ("region", self.region.is_some(), &[S3]),
            ("access_key_id", self.access_key_id.is_some(), &[S3, Oss]),
            ("secret_access_key", self.secret_access_key.is_some(), &[S3, Oss]),
            ("session_token", self.session_token.is_some(), &[S3]),
            ("account_name", self.account_name.is_some(), &[Azblob]),
            ("account_key", self.account_key.is_some(), &[Azblob]),
            ("service_account", self.service_account.is_some(), &[Gcs]),
            ("user", self.user.is_some(), &[Hdfs]),
            ("config_dir", self.config_dir.is_some(), &[Hdfs]),
        ];
        for (field, is_given, schemes) in settings {
            if is_given && !scheme.is_some_and(|scheme| schemes.contains(&scheme)) {
                let words: Vec<&str> = schemes.iter().map(|scheme| scheme.word()).collect();
                let message = format!("store.{field} is for files at {}://…", words.join("://…, "));
                return Err(Error::invalid(message).with("field", format!("store.{field}")));
            }
        }
        let needed = |field: &str, why: &str| {
            Err(Error::invalid(format!("store.{field}: {why}"))
                .with("field", format!("store.{field}")))
        };
        if self.access_key_id.is_some() != self.secret_access_key.is_some() {
            return needed("access_key_id", "give it together with secret_access_key");
        }
        if matches!(scheme, Some(Oss | Azblob)) && self.endpoint.is_none() {
            return needed("endpoint", "this store needs one");
        }
        Ok(())
    }
}

impl Credential {
    /// The text.
    pub(crate) fn expose(&self) -> &str {
        match self {
            Credential::Text(secret) => secret.expose(),
            Credential::Variable(_) | Credential::File(_) => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str) -> String {
        match Location::try_from(text.to_owned()) {
            Ok(Location::Directory(path)) => path.display().to_string(),
            Ok(Location::Store(url)) => url.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_path_or_a_url_says_where_files_are() {
        assert_eq!(location("/mnt/ceph"), "/mnt/ceph");
        assert_eq!(location("s3://bucket"), "s3://bucket/");
        assert_eq!(location("s3://bucket/a/b/"), "s3://bucket/a/b");
        assert_eq!(location("hdfs://name:9000/paddle"), "hdfs://name:9000/paddle");
        insta::assert_snapshot!(location("files"), @"files: use an absolute path, or a URL such as s3://bucket/prefix");
        insta::assert_snapshot!(location("ftp://host/"), @"files: 'ftp' is no known store: use s3, gs, azblob, oss or hdfs");
        insta::assert_snapshot!(location("s3://key:word@bucket/"), @"files: no credentials or settings in the URL, because it is printed: use `store:`");
        insta::assert_snapshot!(location("s3:///a"), @"files: the URL names no bucket or name node");
        insta::assert_snapshot!(location("s3://bucket/a/../b"), @"files: the path of the URL has an empty part, or one of dots");
    }

    fn store(yaml: &str) -> StoreConfig {
        serde_yaml_ng::from_str(yaml).unwrap()
    }

    #[test]
    fn a_setting_of_another_store_is_refused_by_its_name() {
        let check = |yaml: &str, scheme| store(yaml).check(scheme).unwrap_err().to_string();
        insta::assert_snapshot!(check("user: wu", Some(Scheme::S3)), @"store.user is for files at hdfs://… (field: store.user)");
        insta::assert_snapshot!(check("region: x", None), @"store.region is for files at s3://… (field: store.region)");
        insta::assert_snapshot!(check("access_key_id: x", Some(Scheme::S3)), @"store.access_key_id: give it together with secret_access_key (field: store.access_key_id)");
        store("user: wu").check(Some(Scheme::Hdfs)).unwrap();
    }

    #[test]
    fn secrets_come_from_text_variables_or_files_and_are_never_printed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "from-file\n").unwrap();
        let yaml = format!(
            "access_key_id: plain\nsecret_access_key: {{env: KEY}}\nsession_token: {{file: {}}}",
            file.path().display()
        );
        let mut store = store(&yaml);
        let missing = store.clone().resolve(&|_| None).unwrap_err().to_string();
        insta::assert_snapshot!(missing, @"store.secret_access_key: the environment variable is not set (env: KEY)");
        store.resolve(&|name| (name == "KEY").then(|| "from-env".to_owned())).unwrap();
        let all = [&store.access_key_id, &store.secret_access_key, &store.session_token];
        let all = all.map(|one| one.as_ref().unwrap().expose());
        assert_eq!(all, ["plain", "from-env", "from-file"]);
        let printed = format!("{store:?}");
        assert!(all.iter().all(|one| !printed.contains(one)), "{printed}");
    }
}
