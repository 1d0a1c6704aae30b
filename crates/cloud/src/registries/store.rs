//! Rows of registries. The password is sealed before it comes here.

use crate::database::{Database, Write, failed, number, signed, text};
use contract::Result;
use contract::api::registry::Registry;
use sqlx::any::AnyRow;

/// The registries of a user, by name.
pub(crate) async fn list(
    database: &Database,
    datacenter: &str,
    username: &str,
) -> Result<Vec<Registry>> {
    let sql = "SELECT name, server, account, created_ms FROM registries \
               WHERE datacenter = $1 AND username = $2 ORDER BY name";
    let rows = sqlx::query(sql)
        .bind(datacenter)
        .bind(username)
        .fetch_all(database.read())
        .await
        .map_err(failed)?;
    rows.iter().map(registry).collect()
}

fn registry(row: &AnyRow) -> Result<Registry> {
    Ok(Registry {
        name: text(row, "name")?,
        server: text(row, "server")?,
        username: text(row, "account")?,
        created_ms: number(row, "created_ms")?,
    })
}

/// A registry with its sealed password.
pub(super) async fn get(
    database: &Database,
    datacenter: &str,
    username: &str,
    name: &str,
) -> Result<Option<(Registry, String)>> {
    let sql = "SELECT * FROM registries WHERE datacenter = $1 AND username = $2 AND name = $3";
    let row = sqlx::query(sql)
        .bind(datacenter)
        .bind(username)
        .bind(name)
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    row.as_ref().map(|row| Ok((registry(row)?, text(row, "sealed")?))).transpose()
}

/// Keeps a registry, instead of one of the same name.
pub(super) async fn put(
    write: &mut Write<'_>,
    datacenter: &str,
    username: &str,
    registry: &Registry,
    sealed: &str,
) -> Result<()> {
    remove(write, datacenter, username, &registry.name).await?;
    let sql = "INSERT INTO registries \
               (datacenter, username, name, server, account, sealed, created_ms) \
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    sqlx::query(sql)
        .bind(datacenter)
        .bind(username)
        .bind(&registry.name)
        .bind(&registry.server)
        .bind(&registry.username)
        .bind(sealed)
        .bind(signed(registry.created_ms))
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}

/// Removes a registry. Whether there was one.
pub(super) async fn remove(
    write: &mut Write<'_>,
    datacenter: &str,
    username: &str,
    name: &str,
) -> Result<bool> {
    let sql = "DELETE FROM registries WHERE datacenter = $1 AND username = $2 AND name = $3";
    let done = sqlx::query(sql)
        .bind(datacenter)
        .bind(username)
        .bind(name)
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(done.rows_affected() > 0)
}
