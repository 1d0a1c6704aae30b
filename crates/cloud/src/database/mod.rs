//! The database: SQLite in the data directory, or Postgres by URL. Both are asked in the same SQL,
//! with numbers (`BIGINT`) and texts only; what differs is here and in [`migrate`].
//!
//! Writers go one after another, on all servers together: a transaction that checks and then
//! changes (is the name free, is there room in the quota) needs no further thought. Readers wait
//! for nobody.

mod migrate;

use contract::{Error, Kind, Result};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Connection, Executor, Row};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// A database that has been opened and brought to the newest schema.
#[derive(Debug)]
pub(crate) struct Database {
    pool: AnyPool,
    engine: Engine,
    /// Whose turn it is to write, in this process; Postgres knows for all.
    turn: Mutex<()>,
}

/// What keeps the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

/// A transaction that may write, alone. What is not committed is undone: its connection is closed,
/// and not used again. After a full disk a connection may be in a transaction that neither it nor
/// its driver knows how to end.
pub(crate) struct Write<'a> {
    connection: PoolConnection<Any>,
    is_committed: bool,
    _turn: MutexGuard<'a, ()>,
}

/// How long a request waits for a connection before it is told to come again.
const WAIT: Duration = Duration::from_secs(10);
/// The same for its turn to write, behind others of this server.
const TURN: Duration = Duration::from_secs(60);
/// Between two attempts to reach a database that may be starting.
const AGAIN: Duration = Duration::from_millis(200);
const CONNECTIONS_MAX: u32 = 16;
/// A connection that was not used for so long may be gone.
const IDLE: Duration = Duration::from_secs(1);
/// What every connection says first.
const SQLITE: &[&str] = &[
    "PRAGMA busy_timeout = 10000",
    "PRAGMA journal_mode = WAL",
    // What was acknowledged is on the disk.
    "PRAGMA synchronous = FULL",
];
/// A server that is suspended, or whose machine is gone, keeps its connections open. If that
/// happens inside a transaction, Postgres has to end it, or no other server could write again.
const POSTGRES: &[&str] = &[
    "SET lock_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '8s'",
    "SET tcp_keepalives_idle = 5",
    "SET tcp_keepalives_interval = 2",
    "SET tcp_keepalives_count = 3",
];
/// The lock by which writers of all servers on one Postgres take turns.
const WRITE_LOCK: i64 = 71_642_017;

impl Database {
    /// Opens the file of an embedded cloud.
    pub(crate) async fn open_file(path: &Path) -> Result<Self> {
        let encoded: String = path
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .map(|byte| match byte {
                b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                    char::from(*byte).to_string()
                }
                byte => format!("%{byte:02X}"),
            })
            .collect();
        // It has hashes of passwords; the files beside it get the same rights.
        let mut options = std::fs::OpenOptions::new();
        options
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .map_err(crate::files::unusable(path))?;
        Database::open(&format!("sqlite://{encoded}?mode=rwc"), Engine::Sqlite)
            .await
            .map_err(|error| error.with("file", path.display()))
    }

    /// Connects to a Postgres, by a URL that may hold a password: it is in no error.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            let message = "not the URL of a database: use postgres://user:password@host/name";
            return Err(Error::invalid(message));
        }
        Database::open(url, Engine::Postgres).await
    }

    async fn open(url: &str, engine: Engine) -> Result<Self> {
        sqlx::any::install_default_drivers();
        let options = AnyConnectOptions::from_str(url)
            .map_err(|_| Error::invalid("the URL of the database cannot be read"))?;
        let settings = match engine {
            Engine::Sqlite => SQLITE,
            Engine::Postgres => POSTGRES,
        };
        try_one(&options, settings).await?;
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(WAIT)
            // A file does not hang up. A server may, but not between two requests that follow each
            // other, and asking it every time would double what a question costs.
            .test_before_acquire(false)
            .before_acquire(move |connection, life| {
                Box::pin(async move {
                    if engine == Engine::Postgres && life.idle_for > IDLE {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_connect(move |connection, _| Box::pin(set(connection, settings)))
            .connect_with(options)
            .await
            .map_err(cannot_open)?;
        let database = Database { pool, engine, turn: Mutex::new(()) };
        migrate::migrate(&database).await?;
        Ok(database)
    }

    /// For questions: each statement sees what was committed before it.
    pub(crate) fn read(&self) -> &AnyPool {
        &self.pool
    }

    /// What keeps the tables.
    pub(crate) fn engine(&self) -> Engine {
        self.engine
    }

    /// Begins to write, when all others have finished.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if that takes too long.
    pub(crate) async fn write(&self) -> Result<Write<'_>> {
        let turn = tokio::time::timeout(TURN, self.turn.lock()).await;
        let turn = turn.map_err(|_| {
            Error::new(Kind::Unavailable, "too many changes wait for the database: try again")
        })?;
        let begin = match self.engine {
            Engine::Sqlite => "BEGIN IMMEDIATE",
            Engine::Postgres => "BEGIN",
        };
        let connection = self.pool.acquire().await.map_err(failed)?;
        let mut write = Write { connection, is_committed: false, _turn: turn };
        write.connection().execute(begin).await.map_err(failed)?;
        if self.engine == Engine::Postgres {
            sqlx::query("SELECT pg_advisory_xact_lock($1)")
                .bind(WRITE_LOCK)
                .execute(write.connection())
                .await
                .map_err(failed)?;
        }
        Ok(write)
    }

    /// Ends all connections.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}

/// Tries one connection, for as long as the database may only be starting. A pool tries whatever the
/// reason is, and then says that the time is over.
async fn try_one(options: &AnyConnectOptions, settings: &'static [&str]) -> Result<()> {
    let deadline = Instant::now() + WAIT;
    loop {
        let tried = async {
            let mut connection = AnyConnection::connect_with(options).await?;
            set(&mut connection, settings).await?;
            connection.close().await
        };
        let tried = tokio::time::timeout_at(deadline, tried).await;
        match tried.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
            Ok(()) => return Ok(()),
            Err(error) if is_starting(&error) && Instant::now() < deadline => {
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return Err(cannot_open(error)),
        }
    }
}

async fn set(
    connection: &mut AnyConnection,
    settings: &'static [&str],
) -> std::result::Result<(), sqlx::Error> {
    for setting in settings {
        connection.execute(*setting).await?;
    }
    Ok(())
}

/// Whether it may answer soon: nothing listens yet, or it says that it starts (57P03).
fn is_starting(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(error, sqlx::Error::Io(_)) || code.is_some_and(|code| code == "57P03")
}

fn cannot_open(source: sqlx::Error) -> Error {
    match is_damage(&source) {
        true => damaged(source),
        false => {
            let message = "cannot open the database: is it running, and may we use it?";
            Error::new(Kind::Unavailable, message).because(source)
        }
    }
}

/// Whether the file is none of SQLite's (26), or not what SQLite has written (11).
fn is_damage(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| code == "26" || code == "11")
}

fn damaged(source: sqlx::Error) -> Error {
    let message = "the server's database is damaged: its administrator has to bring back a copy";
    Error::new(Kind::Damaged, message).because(source)
}

impl Write<'_> {
    /// Where statements go.
    pub(crate) fn connection(&mut self) -> &mut AnyConnection {
        &mut self.connection
    }

    /// Makes what was written durable.
    pub(crate) async fn commit(mut self) -> Result<()> {
        self.connection().execute("COMMIT").await.map_err(failed)?;
        self.is_committed = true;
        Ok(())
    }

    /// The next number of a counter that all servers share.
    pub(crate) async fn next(&mut self, counter: &str) -> Result<u64> {
        let sql = "INSERT INTO counters (name, value) VALUES ($1, 1) \
                   ON CONFLICT (name) DO UPDATE SET value = counters.value + 1 RETURNING value";
        let row = sqlx::query(sql).bind(counter).fetch_one(self.connection()).await;
        number(&row.map_err(failed)?, "value")
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        if !self.is_committed {
            self.connection.close_on_drop();
        }
    }
}

/// What a failed statement is to a caller.
pub(crate) fn failed(source: sqlx::Error) -> Error {
    let code = source.as_database_error().and_then(|error| error.code()).unwrap_or_default();
    let text = source.to_string();
    // 13 is SQLITE_FULL, class 53 Postgres' "insufficient resources".
    if code == "13" || code.starts_with("53") || text.contains("disk is full") {
        let message = "the server's disk is full: its administrator has to make room";
        return Error::new(Kind::LimitExceeded, message).because(source);
    }
    // 55P03: somebody else writes for too long. 25P03: this server was suspended inside a
    // transaction. Class 08 and 57P: the connection or the database is gone.
    let is_away = code == "55P03" || code == "25P03" || code.starts_with("08");
    if is_away || code.starts_with("57P") {
        let message = "the database does not answer: try again";
        return Error::new(Kind::Unavailable, message).because(source);
    }
    if is_damage(&source) {
        return damaged(source);
    }
    match source {
        sqlx::Error::PoolTimedOut | sqlx::Error::Io(_) | sqlx::Error::PoolClosed => {
            Error::new(Kind::Unavailable, "the database does not answer: try again").because(source)
        }
        source => Error::new(Kind::Io, "the database refused").because(source),
    }
}

/// A column that holds a number from 0 on.
pub(crate) fn number(row: &AnyRow, column: &str) -> Result<u64> {
    let value: i64 = row.try_get(column).map_err(failed)?;
    Ok(u64::try_from(value).unwrap_or(0))
}

/// A column that may hold a number.
pub(crate) fn optional_number(row: &AnyRow, column: &str) -> Result<Option<u64>> {
    let value: Option<i64> = row.try_get(column).map_err(failed)?;
    Ok(value.map(|value| u64::try_from(value).unwrap_or(0)))
}

/// A column that holds a text.
pub(crate) fn text(row: &AnyRow, column: &str) -> Result<String> {
    row.try_get(column).map_err(failed)
}

/// A column that may hold a text.
pub(crate) fn optional_text(row: &AnyRow, column: &str) -> Result<Option<String>> {
    row.try_get(column).map_err(failed)
}

/// A column that holds yes or no.
pub(crate) fn flag(row: &AnyRow, column: &str) -> Result<bool> {
    number(row, column).map(|value| value != 0)
}

/// A number as the databases take it.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Reads JSON of a column that we wrote.
pub(crate) fn json<T: serde::de::DeserializeOwned>(
    row: &AnyRow,
    column: &'static str,
) -> Result<T> {
    serde_json::from_str(&text(row, column)?).map_err(|source| {
        Error::new(Kind::Damaged, "a row of the database cannot be read")
            .with("column", column)
            .because(source)
    })
}

/// Writes JSON for a column.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|source| Error::new(Kind::Io, "cannot render JSON").because(source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_file_that_is_no_database_is_told_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cloud.db");
        std::fs::write(&file, [b'x'; 8192]).unwrap();
        let error = Database::open_file(&file).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged);
        assert!(error.to_string().contains("cloud.db"), "{error}");
    }

    #[tokio::test]
    async fn a_database_that_refuses_is_not_asked_again_and_says_why() {
        // Refuses everybody, in Postgres' words.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answering = tokio::spawn(async move {
            let mut count = 0;
            while let Ok((mut stream, _)) = listener.accept().await {
                count += 1;
                let mut startup = [0; 1024];
                let _ = stream.read(&mut startup).await;
                let error = b"E\0\0\0\x2aSFATAL\0VFATAL\0C28P01\0Mwrong password\0\0";
                let _ = stream.write_all(error).await;
                if count > 1 {
                    return false;
                }
            }
            true
        });
        let url = format!("postgres://wu:secret@{address}/cloud?sslmode=disable");
        let error = Database::connect(&url).await.unwrap_err().chain();
        assert!(error.contains("wrong password") && !error.contains("secret"), "{error}");
        assert!(!answering.is_finished());
        answering.abort();
    }
}
