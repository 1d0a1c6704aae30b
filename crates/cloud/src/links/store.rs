//! Rows of links.

use crate::database::{Database, Write, failed, number, signed, text};
use contract::Result;
use sqlx::any::AnyRow;

/// A link.
#[derive(Debug, Clone)]
pub(crate) struct LinkRow {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) username: String,
    pub(crate) path: String,
    pub(crate) created_ms: u64,
}

fn link(row: &AnyRow) -> Result<LinkRow> {
    Ok(LinkRow {
        id: text(row, "id")?,
        secret: text(row, "secret")?,
        username: text(row, "username")?,
        path: text(row, "path")?,
        created_ms: number(row, "created_ms")?,
    })
}

/// Keeps a link.
pub(super) async fn add(write: &mut Write<'_>, row: &LinkRow) -> Result<()> {
    let sql = "INSERT INTO links (id, secret, username, path, created_ms) \
               VALUES ($1, $2, $3, $4, $5)";
    sqlx::query(sql)
        .bind(&row.id)
        .bind(&row.secret)
        .bind(&row.username)
        .bind(&row.path)
        .bind(signed(row.created_ms))
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}

/// How many links a user has.
pub(super) async fn count(write: &mut Write<'_>, username: &str) -> Result<u64> {
    let row = sqlx::query("SELECT COUNT(*) AS links FROM links WHERE username = $1")
        .bind(username)
        .fetch_one(write.connection())
        .await
        .map_err(failed)?;
    number(&row, "links")
}

/// The links of a user, newest first.
pub(super) async fn of_user(database: &Database, username: &str) -> Result<Vec<LinkRow>> {
    let sql = "SELECT * FROM links WHERE username = $1 ORDER BY created_ms DESC, id";
    let rows = sqlx::query(sql).bind(username).fetch_all(database.read()).await.map_err(failed)?;
    rows.iter().map(link).collect()
}

/// The link with this secret.
pub(super) async fn by_secret(database: &Database, secret: &str) -> Result<Option<LinkRow>> {
    let row = sqlx::query("SELECT * FROM links WHERE secret = $1")
        .bind(secret)
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    row.as_ref().map(link).transpose()
}

/// Removes a link of a user; whether there was one.
pub(super) async fn remove(write: &mut Write<'_>, username: &str, id: &str) -> Result<bool> {
    let done = sqlx::query("DELETE FROM links WHERE username = $1 AND id = $2")
        .bind(username)
        .bind(id)
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(done.rows_affected() > 0)
}
