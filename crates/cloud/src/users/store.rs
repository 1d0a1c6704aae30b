//! Rows of users and tokens.

use crate::database::{Database, Write, failed, flag, number, optional_text, signed, text};
use contract::Result;
use contract::api::user::{Token, User};
use sqlx::any::AnyRow;

/// A user with what others do not see.
#[derive(Debug, Clone)]
pub(crate) struct UserRow {
    pub(crate) user: User,
    /// The hash of the password.
    pub(crate) password: String,
    /// The user id that their jobs run as.
    pub(crate) posix_uid: u32,
}

/// A token and its owner.
#[derive(Debug, Clone)]
pub(crate) struct TokenRow {
    pub(crate) id: String,
    pub(crate) username: String,
    pub(crate) label: String,
    /// The job whose files are mounted with it. It is the job's, not its user's: it is neither
    /// listed nor revoked with the user's own, and good until the job has ended.
    pub(crate) job: Option<String>,
    /// Whether it came from a login, so that use renews it.
    pub(crate) is_session: bool,
    pub(crate) created_ms: u64,
    pub(crate) expires_ms: u64,
    pub(crate) lifetime_ms: u64,
}

/// What a user may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permission {
    pub(crate) is_admin: bool,
    pub(crate) is_enabled: bool,
}

fn user_row(row: &AnyRow) -> Result<UserRow> {
    Ok(UserRow {
        user: User {
            username: text(row, "username")?,
            is_admin: flag(row, "is_admin")?,
            is_enabled: flag(row, "is_enabled")?,
            created_ms: number(row, "created_ms")?,
        },
        password: text(row, "password")?,
        posix_uid: u32::try_from(number(row, "posix_uid")?).unwrap_or(u32::MAX),
    })
}

fn token_row(row: &AnyRow) -> Result<TokenRow> {
    Ok(TokenRow {
        id: text(row, "id")?,
        username: text(row, "username")?,
        label: text(row, "label")?,
        job: optional_text(row, "job")?,
        is_session: flag(row, "is_session")?,
        created_ms: number(row, "created_ms")?,
        expires_ms: number(row, "expires_ms")?,
        lifetime_ms: number(row, "lifetime_ms")?,
    })
}

impl From<TokenRow> for Token {
    fn from(row: TokenRow) -> Self {
        Token {
            id: row.id,
            label: row.label,
            created_ms: row.created_ms,
            expires_ms: row.expires_ms,
        }
    }
}

/// One user.
pub(crate) async fn user(database: &Database, username: &str) -> Result<Option<UserRow>> {
    let row = sqlx::query("SELECT * FROM users WHERE username = $1")
        .bind(username)
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    row.as_ref().map(user_row).transpose()
}

/// One user, inside a transaction.
pub(crate) async fn user_in(write: &mut Write<'_>, username: &str) -> Result<Option<UserRow>> {
    let row = sqlx::query("SELECT * FROM users WHERE username = $1")
        .bind(username)
        .fetch_optional(write.connection())
        .await
        .map_err(failed)?;
    row.as_ref().map(user_row).transpose()
}

/// All users, by name.
pub(crate) async fn users(database: &Database) -> Result<Vec<UserRow>> {
    let rows = sqlx::query("SELECT * FROM users ORDER BY username")
        .fetch_all(database.read())
        .await
        .map_err(failed)?;
    rows.iter().map(user_row).collect()
}

/// The largest user id that was given out.
pub(crate) async fn largest_uid(write: &mut Write<'_>) -> Result<Option<u64>> {
    let row = sqlx::query("SELECT COALESCE(MAX(posix_uid), -1) AS largest FROM users")
        .fetch_one(write.connection())
        .await
        .map_err(failed)?;
    let largest: i64 = sqlx::Row::try_get(&row, "largest").map_err(failed)?;
    Ok(u64::try_from(largest).ok())
}

/// Adds a user or replaces what is known of one.
pub(crate) async fn put_user(write: &mut Write<'_>, row: &UserRow) -> Result<()> {
    let sql = "INSERT INTO users \
               (username, password, is_admin, is_enabled, created_ms, posix_uid) \
               VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (username) DO UPDATE SET \
               password = $2, is_admin = $3, is_enabled = $4";
    sqlx::query(sql)
        .bind(&row.user.username)
        .bind(&row.password)
        .bind(i64::from(row.user.is_admin))
        .bind(i64::from(row.user.is_enabled))
        .bind(signed(row.user.created_ms))
        .bind(i64::from(row.posix_uid))
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}

/// How many administrators can log in.
pub(crate) async fn admins(write: &mut Write<'_>) -> Result<u64> {
    let sql = "SELECT COUNT(*) AS count FROM users WHERE is_admin = 1 AND is_enabled = 1";
    let row = sqlx::query(sql).fetch_one(write.connection()).await.map_err(failed)?;
    number(&row, "count")
}

/// The token of this hash, with what its owner may do: every request asks for both.
pub(crate) async fn token(
    database: &Database,
    hash: &str,
) -> Result<Option<(TokenRow, Permission)>> {
    let sql = "SELECT tokens.*, users.is_admin, users.is_enabled FROM tokens \
               JOIN users ON users.username = tokens.username WHERE hash = $1";
    let row = sqlx::query(sql).bind(hash).fetch_optional(database.read()).await.map_err(failed)?;
    let both = |row| {
        let (is_admin, is_enabled) = (flag(row, "is_admin")?, flag(row, "is_enabled")?);
        Ok((token_row(row)?, Permission { is_admin, is_enabled }))
    };
    row.as_ref().map(both).transpose()
}

/// The token of this public number.
pub(crate) async fn token_of_id(database: &Database, id: &str) -> Result<Option<TokenRow>> {
    let row = sqlx::query("SELECT * FROM tokens WHERE id = $1")
        .bind(id)
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    row.as_ref().map(token_row).transpose()
}

/// The tokens of a user's own that have not ended, newest first.
pub(crate) async fn tokens(
    database: &Database,
    username: &str,
    now_ms: u64,
) -> Result<Vec<TokenRow>> {
    let sql = "SELECT * FROM tokens WHERE username = $1 AND expires_ms > $2 AND job IS NULL \
               ORDER BY created_ms DESC LIMIT 1000";
    let rows = sqlx::query(sql)
        .bind(username)
        .bind(signed(now_ms))
        .fetch_all(database.read())
        .await
        .map_err(failed)?;
    rows.iter().map(token_row).collect()
}

/// Keeps a token.
pub(crate) async fn add_token(write: &mut Write<'_>, row: &TokenRow, hash: &str) -> Result<()> {
    let sql = "INSERT INTO tokens \
               (id, hash, username, label, is_session, created_ms, expires_ms, lifetime_ms, job) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    sqlx::query(sql)
        .bind(&row.id)
        .bind(hash)
        .bind(&row.username)
        .bind(&row.label)
        .bind(i64::from(row.is_session))
        .bind(signed(row.created_ms))
        .bind(signed(row.expires_ms))
        .bind(signed(row.lifetime_ms))
        .bind(row.job.clone())
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}

/// Moves the end of a token.
pub(crate) async fn renew(write: &mut Write<'_>, id: &str, expires_ms: u64) -> Result<()> {
    sqlx::query("UPDATE tokens SET expires_ms = $2 WHERE id = $1")
        .bind(id)
        .bind(signed(expires_ms))
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}

/// Revokes a token. Whether there was one.
pub(crate) async fn revoke(write: &mut Write<'_>, username: &str, id: &str) -> Result<bool> {
    let done = sqlx::query("DELETE FROM tokens WHERE id = $1 AND username = $2 AND job IS NULL")
        .bind(id)
        .bind(username)
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(done.rows_affected() > 0)
}

/// Revokes the tokens of a job.
pub(crate) async fn revoke_of_job(write: &mut Write<'_>, job: &str) -> Result<()> {
    sqlx::query("DELETE FROM tokens WHERE job = $1")
        .bind(job)
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}

/// Revokes all tokens of a user's own.
pub(crate) async fn revoke_all(write: &mut Write<'_>, username: &str) -> Result<()> {
    sqlx::query("DELETE FROM tokens WHERE username = $1 AND job IS NULL")
        .bind(username)
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}

/// Removes tokens that have ended, and those of jobs that have.
pub(crate) async fn sweep_tokens(write: &mut Write<'_>, now_ms: u64) -> Result<()> {
    let sql = "DELETE FROM tokens WHERE expires_ms <= $1 OR (job IS NOT NULL AND NOT EXISTS \
               (SELECT 1 FROM jobs WHERE uid = tokens.job AND is_forgotten = 0))";
    sqlx::query(sql).bind(signed(now_ms)).execute(write.connection()).await.map_err(failed)?;
    Ok(())
}
