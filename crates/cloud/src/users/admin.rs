//! The first administrator of a new cloud, with a password that was drawn for them.

use super::{password, service, store};
use crate::Cloud;
use crate::blocking::blocking;
use contract::Result;
use contract::api::user::NewUser;
use contract::secret::Secret;
use disk::Access;

/// The name of the first administrator.
pub(crate) const NAME: &str = "admin";
/// The file of the data directory that keeps their first password.
pub(crate) const FILE: &str = "admin_password";

/// Adds the first administrator to a cloud without users, and returns the password. It is written
/// to a file, for its owner alone, before anything else: whatever happens, it can be read there.
pub(crate) async fn ensure(cloud: &Cloud) -> Result<Option<Secret>> {
    if !store::users(&cloud.database).await?.is_empty() {
        return Ok(None);
    }
    let chosen = crate::random::word::<20>()?;
    password::check(&chosen)?;
    let (path, text) = (cloud.config.data_dir.join(FILE), format!("{chosen}\n"));
    blocking(move || disk::publish(&path, Access::Private, text.as_bytes())).await?;
    let new = NewUser { username: NAME.to_owned(), password: Some(chosen.clone()), is_admin: true };
    match service::add_user(cloud, &new).await {
        Ok(_) => Ok(Some(Secret::new(chosen))),
        // Another server on the same database was faster; its file has the password.
        Err(error) if error.kind() == contract::Kind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    }
}
