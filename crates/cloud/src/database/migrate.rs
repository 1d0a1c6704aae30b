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
    // Where results of trainings go, to be found without reading what they fetch.
    &[
        "ALTER TABLE stages ADD COLUMN fs_name TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE stages ADD COLUMN output TEXT NOT NULL DEFAULT ''",
        "CREATE INDEX stages_by_output ON stages (output)",
    ],
    // Tokens by which the files of a job are mounted belong to the job.
    &[
        "ALTER TABLE tokens ADD COLUMN job TEXT",
        "CREATE INDEX tokens_of_job ON tokens (job)",
        "UPDATE tokens SET job = SUBSTR(label, 14) WHERE label LIKE 'files of job %' AND EXISTS \
     (SELECT 1 FROM jobs WHERE uid = SUBSTR(label, 14) AND jobs.username = tokens.username)",
    ],
    // Which nodes of a training are ready.
    &["ALTER TABLE stages ADD COLUMN ready TEXT NOT NULL DEFAULT '[]'"],
    // Where the processes of a datacenter's jobs are.
    &[
        "ALTER TABLE leases ADD COLUMN machine TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE leases ADD COLUMN host TEXT NOT NULL DEFAULT ''",
    ],
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Caller;
    use crate::jobs::service;
    use contract::api::job::JobQuery;
    use contract::job::JobSpec;
    use sqlx::{AnyConnection, Connection};
    use std::net::{IpAddr, Ipv4Addr};

    /// What the first release's tables hold of a user and of a job that has ended.
    async fn first_release(file: &std::path::Path) {
        std::fs::write(file, "").unwrap();
        sqlx::any::install_default_drivers();
        let url = format!("sqlite://{}", file.display());
        let mut connection = AnyConnection::connect(&url).await.unwrap();
        for statement in VERSIONS[0] {
            let statement = statement.replace("{serial}", "INTEGER PRIMARY KEY AUTOINCREMENT");
            connection.execute(statement.as_str()).await.unwrap();
        }
        let spec = JobSpec {
            name: "old".into(),
            user: "wu".into(),
            datacenter: "local".into(),
            entry: "true".into(),
            package: "/pfs/local/home/wu/jobs/old".into(),
            ..JobSpec::default()
        };
        let job = format!(
            "INSERT INTO jobs VALUES ('old-1', 'r', 'old', 'wu', 'local', '{}', NULL, 'ended', \
             'succeeded', '', 0, 1000, 0, 0, 1, 1, 5, 6, 7, NULL, 0, 0, 0, 0, 1, '[]', '[]', 1, 1)",
            spec.to_json().unwrap()
        );
        let token = |id: &str, label: &str| {
            format!(
                "INSERT INTO tokens VALUES ('{id}', '{id}', 'wu', '{label}', 0, 1, {}, 1)",
                i64::MAX
            )
        };
        for statement in [
            "CREATE TABLE schema_version (version BIGINT NOT NULL)",
            "INSERT INTO schema_version VALUES (1)",
            "INSERT INTO users VALUES ('wu', 'x', 0, 1, 1, 200000)",
            "INSERT INTO counters VALUES ('change', 1)",
            &job,
            &token("a", "files of job old-1"),
            &token("b", "files of job of mine"),
        ] {
            connection.execute(statement).await.unwrap();
        }
        connection.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_database_of_the_first_release_is_brought_up_to_date_with_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        first_release(&folder.path().join("cloud.db")).await;
        let cloud = crate::server::empty_cloud(folder.path()).await;
        let wu = Caller {
            username: "wu".to_owned(),
            is_admin: false,
            token: String::new(),
            expires_ms: 0,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let page = service::list(&cloud, &wu, "local", &JobQuery::default()).await.unwrap();
        let shown: Vec<_> =
            page.items.iter().map(|job| (job.name.as_str(), job.ended_ms)).collect();
        assert_eq!((shown, page.notes.len()), (vec![("old", Some(7))], 0));
        let row = service::find(&cloud, &wu, "local", "old").await.unwrap();
        assert_eq!((row.need.cpu_milli, row.trouble), (1000, None));
        // The token of a job belongs to the job now, and only what is one.
        let tokens = crate::users::service::tokens(&cloud, "wu").await.unwrap();
        let own: Vec<&str> = tokens.iter().map(|token| token.id.as_str()).collect();
        assert_eq!(own, ["b"]);
    }
}
