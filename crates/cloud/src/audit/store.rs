//! Rows of the audit log.

use crate::database::{Database, Write, failed, number, signed, text};
use contract::Result;
use contract::api::Page;
use contract::api::user::AuditEntry;

/// Adds an entry.
pub(super) async fn add(write: &mut Write<'_>, entry: &AuditEntry) -> Result<()> {
    let sql = "INSERT INTO audit (at_ms, username, address, action, object, outcome) \
               VALUES ($1, $2, $3, $4, $5, $6)";
    sqlx::query(sql)
        .bind(signed(entry.at_ms))
        .bind(&entry.user)
        .bind(&entry.address)
        .bind(&entry.action)
        .bind(&entry.object)
        .bind(&entry.outcome)
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}

/// Entries before a number, newest first.
pub(super) async fn page(database: &Database, before: u64, limit: u32) -> Result<Page<AuditEntry>> {
    let rows = sqlx::query("SELECT * FROM audit WHERE number < $1 ORDER BY number DESC LIMIT $2")
        .bind(signed(before))
        .bind(i64::from(limit))
        .fetch_all(database.read())
        .await
        .map_err(failed)?;
    let last = match rows.last() {
        Some(row) if rows.len() == limit as usize => Some(number(row, "number")?),
        _ => None,
    };
    let entry = |row| {
        Ok(AuditEntry {
            at_ms: number(row, "at_ms")?,
            user: text(row, "username")?,
            address: text(row, "address")?,
            action: text(row, "action")?,
            object: text(row, "object")?,
            outcome: text(row, "outcome")?,
        })
    };
    let items = rows.iter().map(entry).collect::<Result<_>>()?;
    Ok(Page { items, next: last.map(|number| number.to_string()), notes: Vec::new() })
}

/// Keeps only the newest entries.
pub(super) async fn trim(write: &mut Write<'_>, keep: u64) -> Result<()> {
    let sql = "DELETE FROM audit WHERE number <= (SELECT COALESCE(MAX(number), 0) FROM audit) - $1";
    sqlx::query(sql).bind(signed(keep)).execute(write.connection()).await.map_err(failed)?;
    Ok(())
}
