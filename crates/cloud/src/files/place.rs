//! From what somebody typed to a place they may use: the path is made normal first, and everything
//! is decided on that.

use super::Owner;
use super::stores::Files;
use crate::Cloud;
use crate::blocking::blocking;
use crate::datacenters::Datacenter;
use crate::http::Caller;
use contract::path::{Access, PfsPath};
use contract::{Error, Kind, Result};
use std::sync::Arc;

/// A path that its caller may use as they asked.
#[derive(Clone)]
pub(crate) struct PermittedPath {
    /// The path, normal.
    pub(crate) path: PfsPath,
    /// Where it is.
    pub(crate) datacenter: Arc<Datacenter>,
    /// Who keeps the files there.
    pub(crate) files: Arc<dyn Files>,
    /// Whose files are that are written there.
    pub(crate) owner: Owner,
    /// Who asks.
    pub(crate) username: String,
}

impl PermittedPath {
    /// The permissions that a file gets: what was asked for, and in public for all to read.
    pub(crate) fn mode(&self, asked: Option<u32>) -> u32 {
        let mode = asked.unwrap_or(0o644) & 0o777;
        match self.path.owner() {
            Some(_) => mode,
            None => mode | 0o444,
        }
    }
}

/// The path as the caller wrote it; `/pfs/public` is that of the only datacenter.
pub(crate) fn parse(cloud: &Cloud, text: &str) -> Result<PfsPath> {
    let is_alias = text.split('/').filter(|part| !part.is_empty()).nth(1) == Some("public");
    if is_alias && cloud.datacenters.len() > 1 {
        let message = "there are several datacenters: use /pfs/<datacenter>/public/…";
        return Err(Error::invalid(message).with("path", text.escape_debug()));
    }
    let first = cloud.datacenters.keys().next().map_or("", String::as_str);
    PfsPath::parse(text, first)
}

/// A place that the caller may use so. Their own home is made if it is not there.
pub(crate) async fn place(
    cloud: &Cloud,
    caller: &Caller,
    text: &str,
    access: Access,
) -> Result<PermittedPath> {
    let path = parse(cloud, text)?;
    check(&path, caller, access)?;
    let datacenter = Arc::clone(cloud.datacenter(path.datacenter())?);
    let owner = match path.owner() {
        None => Owner::Server,
        Some(username) => {
            let user = crate::users::store::user(&cloud.database, username).await?;
            let gone = || Error::new(Kind::Unauthenticated, "your user was removed");
            let user = user.ok_or_else(gone)?;
            let owner = crate::jobs::owner(&datacenter, user.posix_uid);
            let (store, username) = (datacenter.store.clone(), username.to_owned());
            blocking(move || store.ensure_home(&username, owner).map(|_| ())).await?;
            owner
        }
    };
    let files = Arc::clone(&datacenter.files);
    Ok(PermittedPath { path, datacenter, files, owner, username: caller.username.clone() })
}

/// Everything at home, reading in public, and writing there for administrators.
fn check(path: &PfsPath, caller: &Caller, access: Access) -> Result<()> {
    if path.owner().is_none() && access == Access::Write {
        return match caller.is_admin {
            true => Ok(()),
            false => {
                let message = "the public area is written by administrators alone: write to your \
                               home";
                Err(Error::new(Kind::Forbidden, message).with("path", path))
            }
        };
    }
    path.check_access(&caller.username, access)
}

impl Cloud {
    /// Bytes of the files in a user's home, as of a short while ago.
    pub(crate) async fn disk_used(&self, datacenter: &str, username: &str) -> Result<u64> {
        let datacenter = Arc::clone(self.datacenter(datacenter)?);
        let place = PermittedPath {
            path: PfsPath::home(&datacenter.name, username)?,
            files: Arc::clone(&datacenter.files),
            owner: Owner::Server,
            username: username.to_owned(),
            datacenter,
        };
        self.usages.used(&place).await
    }
}
