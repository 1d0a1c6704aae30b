//! Makes a job's directory ready and gives the job to its backend. Doing it again is no error.

use super::mounts::{self, Paths};
use super::row::JobRow;
use super::store;
use super::submission::{Surroundings, submission};
use crate::Cloud;
use crate::blocking::blocking;
use crate::cluster_train::node;
use crate::datacenters::Datacenter;
use crate::files::Owner;
use crate::files::package::{Placement, place};
use crate::{packages, random, registries, users};
use contract::api::cluster_train::SECRET;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use scheduler::Submission;
use scheduler::ssh::package::Manifest;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Starts a job of which the backend has nothing.
pub(super) async fn start(
    cloud: &Arc<Cloud>,
    datacenter: &Arc<Datacenter>,
    row: &JobRow,
) -> Result<()> {
    let user = users::store::user(&cloud.database, &row.username).await?;
    let user = user.ok_or_else(|| Error::new(Kind::NotFound, "the job's user is gone"))?;
    let owner = owner(datacenter, user.posix_uid);
    {
        let (datacenter, username) = (Arc::clone(datacenter), row.username.clone());
        blocking(move || datacenter.store.ensure_home(&username, owner)).await?;
    }
    let paths = match datacenter.config.mount {
        true => mounts::mount(cloud, datacenter, row, user.posix_uid).await?,
        false => Paths::plain(datacenter, row)?,
    };
    if let Some(digest) = &row.package {
        let manifest = packages::service::find(cloud, &row.username, digest).await?;
        let previous = match store::previous_package(&cloud.database, row).await? {
            Some(digest) => packages::service::find(cloud, &row.username, &digest).await.ok(),
            None => None,
        };
        let (blobs, row, home) = (cloud.blobs.clone(), row.clone(), paths.home.clone());
        blocking(move || {
            let placement = Placement {
                home: &home,
                name: &row.name,
                uid: &row.uid,
                owner,
                manifest: &manifest,
                previous: previous.as_ref(),
            };
            place(&blobs, &row.username, &placement)
        })
        .await?;
    }
    let workspace = paths.workspace.clone();
    let is_dispatched = datacenter.config.sends_packages();
    let manifest = match is_dispatched {
        true => {
            let workspace = workspace.clone();
            Some(blocking(move || Manifest::scan(&workspace, &["log", "output"])).await?)
        }
        false => None,
    };
    let secrets = secrets(cloud, row).await?;
    let built =
        build(cloud, datacenter, row, user.posix_uid, Brought { manifest, secrets, paths })?;
    let package = is_dispatched.then_some(workspace.as_path());
    datacenter.backend.submit(&built, package).await?;
    Ok(())
}

/// Who owns a user's files here.
pub(crate) fn owner(datacenter: &Datacenter, posix_uid: u32) -> Owner {
    match datacenter.sandbox {
        Some(_) => Owner::Uid(posix_uid),
        None => Owner::Server,
    }
}

/// The credentials that a job names.
pub(super) async fn secrets(cloud: &Cloud, row: &JobRow) -> Result<BTreeMap<String, Secret>> {
    let mut secrets = BTreeMap::new();
    if row.spec.staged {
        secrets.insert(SECRET.to_owned(), node::stage(cloud, row)?);
    }
    if !row.spec.registry.is_empty() {
        let name = row.spec.registry.clone();
        let secret = registries::reveal(cloud, &row.datacenter, &row.username, &name).await?;
        secrets.insert(name, secret);
    }
    Ok(secrets)
}

/// What was found out for a job.
pub(super) struct Brought {
    /// The files of its package, if they go to other machines.
    pub(super) manifest: Option<Manifest>,
    /// The credentials that it names.
    pub(super) secrets: BTreeMap<String, Secret>,
    /// Where its files are.
    pub(super) paths: Paths,
}

/// What the backend is asked to run.
pub(super) fn build(
    cloud: &Cloud,
    datacenter: &Datacenter,
    row: &JobRow,
    posix_uid: u32,
    brought: Brought,
) -> Result<Submission> {
    let Brought { manifest, secrets, paths } = brought;
    let around = Surroundings {
        config: &datacenter.config,
        home: &paths.home,
        public: &paths.public,
        workspace: &paths.workspace,
        manifest,
        sandbox: datacenter.sandbox.as_ref(),
        uid: posix_uid,
        environment: &cloud.outside.environment,
        secrets,
        token: Secret::new(random::secret()?),
    };
    submission(row, &around)
}
