//! Rows of packages.

use crate::database::{Database, Write, failed, json, number, signed, text, to_json};
use contract::Result;
use contract::api::package::{Manifest, PackageSummary};

/// Keeps a package.
pub(super) async fn put(
    write: &mut Write<'_>,
    username: &str,
    summary: &PackageSummary,
    manifest: &Manifest,
    now_ms: u64,
) -> Result<()> {
    let sql = "INSERT INTO packages (username, digest, manifest, files, bytes, created_ms) \
               VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (username, digest) DO UPDATE SET created_ms = $6";
    sqlx::query(sql)
        .bind(username)
        .bind(&summary.digest)
        .bind(to_json(manifest)?)
        .bind(signed(summary.files))
        .bind(signed(summary.bytes))
        .bind(signed(now_ms))
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}

/// A package of a user.
pub(super) async fn get(
    database: &Database,
    username: &str,
    digest: &str,
) -> Result<Option<Manifest>> {
    let row = sqlx::query("SELECT manifest FROM packages WHERE username = $1 AND digest = $2")
        .bind(username)
        .bind(digest)
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    row.as_ref().map(|row| json(row, "manifest")).transpose()
}

/// A package of a user in a few words.
pub(crate) async fn summary(
    database: &Database,
    username: &str,
    digest: &str,
) -> Result<Option<PackageSummary>> {
    let sql = "SELECT digest, files, bytes FROM packages WHERE username = $1 AND digest = $2";
    let row = sqlx::query(sql)
        .bind(username)
        .bind(digest)
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    let summary = |row| {
        Ok(PackageSummary {
            digest: text(row, "digest")?,
            files: number(row, "files")?,
            bytes: number(row, "bytes")?,
        })
    };
    row.as_ref().map(summary).transpose()
}

/// All packages of a user.
pub(super) async fn all(database: &Database, username: &str) -> Result<Vec<Manifest>> {
    let rows = sqlx::query("SELECT manifest FROM packages WHERE username = $1")
        .bind(username)
        .fetch_all(database.read())
        .await
        .map_err(failed)?;
    rows.iter().map(|row| json(row, "manifest")).collect()
}

/// Removes packages of a user that were sent before a time and that no job names.
pub(super) async fn sweep(write: &mut Write<'_>, username: &str, before_ms: u64) -> Result<()> {
    let sql = "DELETE FROM packages WHERE username = $1 AND created_ms < $2 AND NOT EXISTS \
               (SELECT 1 FROM jobs WHERE jobs.username = packages.username \
               AND jobs.package = packages.digest)";
    sqlx::query(sql)
        .bind(username)
        .bind(signed(before_ms))
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}
