//! The first administrator of a new cloud, with a password that was drawn for them.

use super::{password, service, store};
use crate::Cloud;
use crate::blocking::blocking;
use contract::Result;
use contract::api::user::NewUser;
use contract::secret::Secret;

/// The name of the first administrator.
pub(crate) const NAME: &str = "admin";
/// The file of the data directory that keeps their first password.
pub(crate) const FILE: &str = "admin_password";

/// Adds the first administrator to a cloud without users, and returns the password. It is written
/// to a file, for its owner alone, before anything else: whatever happens, it can be read there. A
/// file that is there already has the password.
pub(crate) async fn ensure(cloud: &Cloud) -> Result<Option<Secret>> {
    if !store::users(&cloud.database).await?.is_empty() {
        return Ok(None);
    }
    let path = cloud.config.data_dir.join(FILE);
    let draw = || crate::random::word::<20>().map(|drawn| format!("{drawn}\n"));
    let drawn = path.clone();
    let chosen = blocking(move || crate::once::read_or_draw(&drawn, draw)).await?;
    password::check(&chosen).map_err(|error| error.with("file", path.display()))?;
    let new = NewUser { username: NAME.to_owned(), password: Some(chosen.clone()), is_admin: true };
    match service::add_user(cloud, &new).await {
        Ok(_) => Ok(Some(Secret::new(chosen))),
        // Another server on the same database and file was faster.
        Err(error) if error.kind() == contract::Kind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    }
}
