//! The schema, and how an older one becomes the newest. Only ever add to the list: databases out
//! there have run its beginning.

use super::{Database, Engine, failed, number};
use contract::{Error, Kind, Result};
use sqlx::Executor;

/// Statements that lead from each version to the next. `{serial}` is a number that counts rows.
const VERSIONS: &[&[&str]] = &[
    &[
        "CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL)",
        "CREATE TABLE users (username TEXT PRIMARY KEY, password TEXT NOT NULL, \
     is_admin BIGINT NOT NULL, is_enabled BIGINT NOT NULL, created_ms BIGINT NOT NULL, \
     posix_uid BIGINT NOT NULL UNIQUE)",
        "CREATE TABLE tokens (id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, username TEXT NOT NULL, \
     label TEXT NOT NULL, is_session BIGINT NOT NULL, created_ms BIGINT NOT NULL, \
     expires_ms BIGINT NOT NULL, lifetime_ms BIGINT NOT NULL)",
        "CREATE INDEX tokens_of_user ON tokens (username)",
        "CREATE TABLE packages (username TEXT NOT NULL, digest TEXT NOT NULL, manifest TEXT NOT NULL, \
     files BIGINT NOT NULL, bytes BIGINT NOT NULL, created_ms BIGINT NOT NULL, \
     PRIMARY KEY (username, digest))",
        "CREATE TABLE jobs (uid TEXT PRIMARY KEY, request TEXT NOT NULL, name TEXT NOT NULL, \
     username TEXT NOT NULL, datacenter TEXT NOT NULL, spec TEXT NOT NULL, package TEXT, \
     stage TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, exit_code BIGINT, \
     cpu_milli BIGINT NOT NULL, memory_bytes BIGINT NOT NULL, gpu_milli BIGINT NOT NULL, \
     replicas BIGINT NOT NULL, trainers BIGINT NOT NULL, \
     submitted_ms BIGINT NOT NULL, started_ms BIGINT, ended_ms BIGINT, \
     kill_ms BIGINT, is_kill_forced BIGINT NOT NULL, is_removed_at_end BIGINT NOT NULL, \
     attempts BIGINT NOT NULL, retry_ms BIGINT NOT NULL, is_forgotten BIGINT NOT NULL, \
     workers TEXT NOT NULL, notes TEXT NOT NULL, revision BIGINT NOT NULL, \
     change BIGINT NOT NULL)",
        "CREATE UNIQUE INDEX jobs_request ON jobs (username, datacenter, request)",
        "CREATE UNIQUE INDEX jobs_active_name ON jobs (username, datacenter, name) \
     WHERE ended_ms IS NULL",
        "CREATE INDEX jobs_of_user ON jobs (username, datacenter, submitted_ms)",
        "CREATE INDEX jobs_of_datacenter ON jobs (datacenter, submitted_ms)",
        "CREATE INDEX jobs_by_change ON jobs (change)",
        "CREATE INDEX jobs_to_do ON jobs (datacenter) WHERE is_forgotten = 0",
        "CREATE TABLE events (job TEXT NOT NULL, number BIGINT NOT NULL, at_ms BIGINT NOT NULL, \
     text TEXT NOT NULL, PRIMARY KEY (job, number))",
        "CREATE TABLE limits (datacenter TEXT NOT NULL, username TEXT NOT NULL, limits TEXT NOT NULL, \
     PRIMARY KEY (datacenter, username))",
        "CREATE TABLE registries (datacenter TEXT NOT NULL, username TEXT NOT NULL, \
     name TEXT NOT NULL, server TEXT NOT NULL, account TEXT NOT NULL, sealed TEXT NOT NULL, \
     created_ms BIGINT NOT NULL, PRIMARY KEY (datacenter, username, name))",
        "CREATE TABLE audit (number {serial}, at_ms BIGINT NOT NULL, username TEXT NOT NULL, \
     address TEXT NOT NULL, action TEXT NOT NULL, object TEXT NOT NULL, outcome TEXT NOT NULL)",
        "CREATE TABLE leases (name TEXT PRIMARY KEY, holder TEXT NOT NULL, beat BIGINT NOT NULL)",
        "CREATE TABLE stores (name TEXT PRIMARY KEY, id TEXT NOT NULL)",
    ],
    &[
        "CREATE TABLE links (id TEXT PRIMARY KEY, secret TEXT NOT NULL UNIQUE, \
     username TEXT NOT NULL, path TEXT NOT NULL, created_ms BIGINT NOT NULL)",
        "CREATE INDEX links_of_user ON links (username)",
    ],
    // What is asked often is found without a look at the rest of a long history.
    &[
        "ALTER TABLE jobs ADD COLUMN summary TEXT NOT NULL DEFAULT ''",
        "DROP INDEX jobs_of_user",
        "CREATE INDEX jobs_of_user ON jobs (username, datacenter, submitted_ms, uid)",
        "CREATE INDEX jobs_of_name ON jobs (username, datacenter, name, submitted_ms, uid)",
        "DROP INDEX jobs_of_datacenter",
        "CREATE INDEX jobs_of_datacenter ON jobs (datacenter, submitted_ms, uid)",
        "DROP INDEX jobs_by_change",
        "CREATE INDEX jobs_by_change ON jobs (datacenter, change)",
        "DROP INDEX jobs_to_do",
        "CREATE INDEX jobs_to_do ON jobs (datacenter, submitted_ms) WHERE is_forgotten = 0",
        "CREATE INDEX jobs_by_stage ON jobs (datacenter, stage)",
    ],
    // The data of trainings.
    &["CREATE TABLE stages (job TEXT PRIMARY KEY, plan TEXT NOT NULL)"],
    // Why a job is not started, or not seen.
    &["ALTER TABLE jobs ADD COLUMN trouble TEXT NOT NULL DEFAULT 'null'"],
];

/// Brings the schema to the newest version. Servers that start together take turns.
///
/// # Errors
/// The database was used by a newer release, whose tables this one does not know.
pub(super) async fn migrate(database: &Database) -> Result<()> {
    let newest = VERSIONS.len() as u64;
    let mut write = database.write().await?;
    let create = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)";
    write.connection().execute(create).await.map_err(failed)?;
    let row = sqlx::query("SELECT version FROM schema_version")
        .fetch_optional(write.connection())
        .await
        .map_err(failed)?;
    let version = row.as_ref().map_or(Ok(0), |row| number(row, "version"))?;
    if version > newest {
        let message = "the database belongs to a newer release: use that one, or another database";
        return Err(Error::new(Kind::Unsupported, message)
            .with("schema", version)
            .with("newest_known", newest));
    }
    if row.is_none() {
        let insert = "INSERT INTO schema_version (version) VALUES (0)";
        write.connection().execute(insert).await.map_err(failed)?;
    }
    let serial = match database.engine() {
        Engine::Sqlite => "INTEGER PRIMARY KEY AUTOINCREMENT",
        Engine::Postgres => "BIGSERIAL PRIMARY KEY",
    };
    for statements in &VERSIONS[usize::try_from(version).unwrap_or(usize::MAX)..] {
        for statement in *statements {
            let statement = statement.replace("{serial}", serial);
            write.connection().execute(statement.as_str()).await.map_err(failed)?;
        }
    }
    sqlx::query("UPDATE schema_version SET version = $1")
        .bind(super::signed(newest))
        .execute(write.connection())
        .await
        .map_err(failed)?;
    write.commit().await
}
