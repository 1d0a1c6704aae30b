//! Rows of limits that are not the default.

use crate::database::{Database, Write, failed, json, text, to_json};
use contract::Result;
use contract::api::quota::Limits;
use std::collections::BTreeMap;

/// The limits of a user, if they are not the default.
pub(super) async fn get(
    database: &Database,
    datacenter: &str,
    username: &str,
) -> Result<Option<Limits>> {
    let row = sqlx::query("SELECT limits FROM limits WHERE datacenter = $1 AND username = $2")
        .bind(datacenter)
        .bind(username)
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    row.as_ref().map(|row| json(row, "limits")).transpose()
}

/// All limits of a datacenter that are not the default.
pub(crate) async fn all(database: &Database, datacenter: &str) -> Result<BTreeMap<String, Limits>> {
    let rows = sqlx::query("SELECT username, limits FROM limits WHERE datacenter = $1")
        .bind(datacenter)
        .fetch_all(database.read())
        .await
        .map_err(failed)?;
    rows.iter().map(|row| Ok((text(row, "username")?, json(row, "limits")?))).collect()
}

/// Changes the limits of a user; `None` for the default.
pub(super) async fn set(
    write: &mut Write<'_>,
    datacenter: &str,
    username: &str,
    limits: Option<&Limits>,
) -> Result<()> {
    sqlx::query("DELETE FROM limits WHERE datacenter = $1 AND username = $2")
        .bind(datacenter)
        .bind(username)
        .execute(write.connection())
        .await
        .map_err(failed)?;
    if let Some(limits) = limits {
        sqlx::query("INSERT INTO limits (datacenter, username, limits) VALUES ($1, $2, $3)")
            .bind(datacenter)
            .bind(username)
            .bind(to_json(limits)?)
            .execute(write.connection())
            .await
            .map_err(failed)?;
    }
    Ok(())
}
