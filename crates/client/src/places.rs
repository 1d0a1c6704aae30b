//! What a datacenter has beside jobs: queues, quotas, registries.

use crate::client::{Client, get, send};
use crate::jobs::delete;
use contract::Result;
use contract::api::cluster::Datacenter;
use contract::api::path;
use contract::api::quota::{Limits, Quota};
use contract::api::registry::{Credentials, Registry};
use ureq::http::Method;

impl Client {
    /// The server's datacenters, with their queues.
    pub fn datacenters(&self) -> Result<Vec<Datacenter>> {
        self.ask(&get(path::DATACENTERS.to_owned(), "list datacenters"))
    }

    /// What the caller, or another user, may use and does.
    pub fn quota(&self, user: Option<&str>) -> Result<Quota> {
        let path = match user {
            Some(user) => self.path(path::USER_QUOTA, &[user])?,
            None => self.path(path::QUOTA, &[])?,
        };
        self.ask(&get(path, "show a quota"))
    }

    /// Changes what a user may use, all limits at once; for administrators.
    pub fn set_quota(&self, user: &str, limits: &Limits) -> Result<Quota> {
        let path = self.path(path::USER_QUOTA, &[user])?;
        self.ask(&send(Method::PUT, path, limits, "change a quota")?)
    }

    /// Gives a user the default limits again; for administrators.
    pub fn reset_quota(&self, user: &str) -> Result<Quota> {
        self.ask(&delete(self.path(path::USER_QUOTA, &[user])?, "reset a quota"))
    }

    /// The caller's registries.
    pub fn registries(&self) -> Result<Vec<Registry>> {
        self.ask(&get(self.path(path::REGISTRIES, &[])?, "list registries"))
    }

    /// Keeps credentials of a registry under a name.
    pub fn put_registry(&self, name: &str, credentials: &Credentials) -> Result<()> {
        let path = self.path(path::REGISTRY, &[name])?;
        self.call(&send(Method::PUT, path, credentials, "add a registry")?).map(|_| ())
    }

    /// Forgets them.
    pub fn delete_registry(&self, name: &str) -> Result<()> {
        let path = self.path(path::REGISTRY, &[name])?;
        self.call(&delete(path, "delete a registry")).map(|_| ())
    }
}
