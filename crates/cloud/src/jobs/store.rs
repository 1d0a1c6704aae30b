//! Rows of jobs and of their events.

use super::need::Need;
use super::row::JobRow;
use crate::database::{
    Database, Write, failed, flag, json, number, optional_number, optional_text, signed, text,
    to_json,
};
use crate::users;
use contract::api::job::{Event, Job};
use contract::job::JobSpec;
use contract::{Error, Kind, Result};
use sqlx::Executor;
use sqlx::any::{Any, AnyArguments, AnyRow};
use sqlx::query::Query;
use std::collections::BTreeMap;

/// A job whose row cannot be read: one of them must not hide the others.
#[derive(Debug)]
pub(super) struct Damaged {
    pub(super) change: u64,
    /// Which job it is, and why it cannot be read.
    pub(super) error: Error,
}

/// A job, or that it cannot be read.
pub(super) type Listed = std::result::Result<JobRow, Damaged>;

fn listed(row: &AnyRow) -> Listed {
    job_row(row)
        .map_err(|error| Damaged { change: number(row, "change").unwrap_or_default(), error })
}

fn job_row(row: &AnyRow) -> Result<JobRow> {
    read(row).map_err(|error| {
        let message = "the server cannot read this job in its database: its administrator has to \
                       repair or remove it";
        let named = |column| text(row, column).unwrap_or_default();
        let damaged = Error::new(Kind::Damaged, message);
        damaged.with("job", named("name")).with("uid", named("uid")).because(error)
    })
}

fn read(row: &AnyRow) -> Result<JobRow> {
    let small = |column| Ok::<_, Error>(u32::try_from(number(row, column)?).unwrap_or(u32::MAX));
    let exit_code: Option<i64> = sqlx::Row::try_get(row, "exit_code").map_err(failed)?;
    Ok(JobRow {
        uid: text(row, "uid")?,
        request: text(row, "request")?,
        name: text(row, "name")?,
        username: text(row, "username")?,
        datacenter: text(row, "datacenter")?,
        spec: JobSpec::from_json(&text(row, "spec")?)?,
        package: optional_text(row, "package")?,
        stage: text(row, "stage")?.parse()?,
        state: text(row, "state")?.parse()?,
        reason: text(row, "reason")?,
        exit_code: exit_code.and_then(|code| i32::try_from(code).ok()),
        need: Need {
            cpu_milli: number(row, "cpu_milli")?,
            memory_bytes: number(row, "memory_bytes")?,
            gpu_milli: number(row, "gpu_milli")?,
            replicas: number(row, "replicas")?,
        },
        trainers: small("trainers")?,
        submitted_ms: number(row, "submitted_ms")?,
        started_ms: optional_number(row, "started_ms")?,
        ended_ms: optional_number(row, "ended_ms")?,
        kill_ms: optional_number(row, "kill_ms")?,
        is_kill_forced: flag(row, "is_kill_forced")?,
        is_removed_at_end: flag(row, "is_removed_at_end")?,
        attempts: small("attempts")?,
        retry_ms: number(row, "retry_ms")?,
        trouble: json(row, "trouble")?,
        is_forgotten: flag(row, "is_forgotten")?,
        workers: json(row, "workers")?,
        notes: json(row, "notes")?,
        revision: number(row, "revision")?,
        change: number(row, "change")?,
    })
}

type Statement<'q> = Query<'q, Any, AnyArguments<'q>>;

const INSERT: &str = "INSERT INTO jobs (uid, request, name, username, datacenter, spec, package, \
    stage, state, reason, exit_code, cpu_milli, memory_bytes, gpu_milli, replicas, trainers, \
    submitted_ms, started_ms, ended_ms, kill_ms, is_kill_forced, is_removed_at_end, attempts, \
    retry_ms, is_forgotten, workers, notes, revision, change, summary) VALUES ($1, $2, $3, $4, $5, $6, $7, \
    $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, \
    $27, $28, $29, $30)";

const UPDATE: &str = "UPDATE jobs SET stage = $2, state = $3, reason = $4, exit_code = $5, \
    cpu_milli = $6, memory_bytes = $7, gpu_milli = $8, replicas = $9, trainers = $10, \
    started_ms = $11, ended_ms = $12, kill_ms = $13, is_kill_forced = $14, \
    is_removed_at_end = $15, attempts = $16, retry_ms = $17, is_forgotten = $18, workers = $19, \
    notes = $20, trouble = $21, revision = revision + 1, change = $22, summary = $23 WHERE uid = $1";

/// Adds a job.
pub(super) async fn insert(write: &mut Write<'_>, row: &JobRow) -> Result<()> {
    let change = write.next("change").await?;
    let (spec, workers, notes) =
        (row.spec.to_json()?, to_json(&row.workers)?, to_json(&row.notes)?);
    let statement = sqlx::query(INSERT)
        .bind(&row.uid)
        .bind(&row.request)
        .bind(&row.name)
        .bind(&row.username)
        .bind(&row.datacenter)
        .bind(spec)
        .bind(row.package.clone());
    let statement = bind_life(statement, row, false);
    let statement = statement
        .bind(signed(row.submitted_ms))
        .bind(row.started_ms.map(signed))
        .bind(row.ended_ms.map(signed));
    let statement = bind_requests(statement, row).bind(workers).bind(notes);
    let statement = statement.bind(1_i64).bind(signed(change)).bind(to_json(&row.job())?);
    statement.execute(write.connection()).await.map_err(failed)?;
    Ok(())
}

/// Writes what can change of a job.
pub(super) async fn update(write: &mut Write<'_>, row: &mut JobRow) -> Result<()> {
    let change = write.next("change").await?;
    (row.change, row.revision) = (change, row.revision + 1);
    let row = &*row;
    let (workers, notes) = (to_json(&row.workers)?, to_json(&row.notes)?);
    let statement = sqlx::query(UPDATE).bind(&row.uid);
    let statement = bind_life(statement, row, true);
    let statement = bind_requests(statement, row).bind(workers).bind(notes);
    let statement = statement.bind(to_json(&row.trouble)?);
    let statement = statement.bind(signed(change)).bind(to_json(&row.job())?);
    statement.execute(write.connection()).await.map_err(failed)?;
    Ok(())
}

fn bind_life<'q>(statement: Statement<'q>, row: &'q JobRow, with_times: bool) -> Statement<'q> {
    let statement = statement
        .bind(row.stage.to_string())
        .bind(row.state.to_string())
        .bind(&row.reason)
        .bind(row.exit_code.map(i64::from))
        .bind(signed(row.need.cpu_milli))
        .bind(signed(row.need.memory_bytes))
        .bind(signed(row.need.gpu_milli))
        .bind(signed(row.need.replicas))
        .bind(i64::from(row.trainers));
    match with_times {
        true => statement.bind(row.started_ms.map(signed)).bind(row.ended_ms.map(signed)),
        false => statement,
    }
}

fn bind_requests<'q>(statement: Statement<'q>, row: &'q JobRow) -> Statement<'q> {
    statement
        .bind(row.kill_ms.map(signed))
        .bind(i64::from(row.is_kill_forced))
        .bind(i64::from(row.is_removed_at_end))
        .bind(i64::from(row.attempts))
        .bind(signed(row.retry_ms))
        .bind(i64::from(row.is_forgotten))
}

/// The job of this uid.
pub(super) async fn get(database: &Database, uid: &str) -> Result<Option<JobRow>> {
    let row = sqlx::query("SELECT * FROM jobs WHERE uid = $1")
        .bind(uid)
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    row.as_ref().map(job_row).transpose()
}

/// The job of this uid, inside a transaction.
pub(super) async fn get_in(write: &mut Write<'_>, uid: &str) -> Result<Option<JobRow>> {
    let row = sqlx::query("SELECT * FROM jobs WHERE uid = $1")
        .bind(uid)
        .fetch_optional(write.connection())
        .await
        .map_err(failed)?;
    row.as_ref().map(job_row).transpose()
}

/// The newest job of a name.
pub(super) async fn newest(
    database: &Database,
    username: &str,
    datacenter: &str,
    name: &str,
) -> Result<Option<JobRow>> {
    let sql = "SELECT * FROM jobs WHERE username = $1 AND datacenter = $2 AND name = $3 \
               ORDER BY submitted_ms DESC, uid DESC LIMIT 1";
    let row = sqlx::query(sql)
        .bind(username)
        .bind(datacenter)
        .bind(name)
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    row.as_ref().map(job_row).transpose()
}

/// When the newest job of a name was submitted.
pub(super) async fn newest_ms(write: &mut Write<'_>, row: &JobRow) -> Result<Option<u64>> {
    let sql = "SELECT MAX(submitted_ms) AS newest FROM jobs \
               WHERE username = $1 AND datacenter = $2 AND name = $3";
    let found = sqlx::query(sql)
        .bind(&row.username)
        .bind(&row.datacenter)
        .bind(&row.name)
        .fetch_one(write.connection())
        .await
        .map_err(failed)?;
    optional_number(&found, "newest")
}

/// The job that a request has made before.
pub(super) async fn of_request(
    write: &mut Write<'_>,
    username: &str,
    datacenter: &str,
    request: &str,
) -> Result<Option<JobRow>> {
    let sql = "SELECT * FROM jobs WHERE username = $1 AND datacenter = $2 AND request = $3";
    let row = sqlx::query(sql)
        .bind(username)
        .bind(datacenter)
        .bind(request)
        .fetch_optional(write.connection())
        .await
        .map_err(failed)?;
    row.as_ref().map(job_row).transpose()
}

/// The job of this name that has not ended.
pub(super) async fn active(
    write: &mut Write<'_>,
    username: &str,
    datacenter: &str,
    name: &str,
) -> Result<Option<JobRow>> {
    let sql = "SELECT * FROM jobs WHERE username = $1 AND datacenter = $2 AND name = $3 \
               AND ended_ms IS NULL";
    let row = sqlx::query(sql)
        .bind(username)
        .bind(datacenter)
        .bind(name)
        .fetch_optional(write.connection())
        .await
        .map_err(failed)?;
    row.as_ref().map(job_row).transpose()
}

/// How many jobs of a user have not ended.
pub(super) async fn count_active(
    executor: impl Executor<'_, Database = Any>,
    username: &str,
    datacenter: &str,
) -> Result<u64> {
    let sql = "SELECT COUNT(*) AS count FROM jobs WHERE username = $1 AND datacenter = $2 \
               AND ended_ms IS NULL";
    let row = sqlx::query(sql)
        .bind(username)
        .bind(datacenter)
        .fetch_one(executor)
        .await
        .map_err(failed)?;
    number(&row, "count")
}

/// The digest of the package of the job that had a name before this one.
pub(super) async fn previous_package(database: &Database, row: &JobRow) -> Result<Option<String>> {
    let sql = "SELECT package FROM jobs WHERE username = $1 AND datacenter = $2 AND name = $3 \
               AND uid <> $4 AND package IS NOT NULL ORDER BY submitted_ms DESC LIMIT 1";
    let found = sqlx::query(sql)
        .bind(&row.username)
        .bind(&row.datacenter)
        .bind(&row.name)
        .bind(&row.uid)
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    found.as_ref().map(|row| text(row, "package")).transpose()
}

/// All jobs of a datacenter that the cloud is not done with.
pub(super) async fn to_do(database: &Database, datacenter: &str) -> Result<Vec<JobRow>> {
    let sql = "SELECT * FROM jobs WHERE datacenter = $1 AND is_forgotten = 0 ORDER BY submitted_ms";
    let rows =
        sqlx::query(sql).bind(datacenter).fetch_all(database.read()).await.map_err(failed)?;
    Ok(readable(rows.iter().map(listed)))
}

/// The jobs that can be read; the others are told to the administrator.
pub(super) fn readable(all: impl IntoIterator<Item = Listed>) -> Vec<JobRow> {
    let tell = |damaged: &Damaged| tracing::error!(error = damaged.error.chain(), "passed over");
    all.into_iter().filter_map(|one| one.inspect_err(tell).ok()).collect()
}

/// The jobs of a user that have not ended, in all datacenters.
pub(super) async fn active_of_user(write: &mut Write<'_>, username: &str) -> Result<Vec<JobRow>> {
    let sql = "SELECT * FROM jobs WHERE username = $1 AND ended_ms IS NULL";
    let rows = sqlx::query(sql).bind(username).fetch_all(write.connection()).await;
    Ok(readable(rows.map_err(failed)?.iter().map(listed)))
}

/// What the jobs of each user have that the backend may be running.
pub(super) async fn running(
    executor: impl Executor<'_, Database = Any>,
    datacenter: &str,
) -> Result<BTreeMap<String, Need>> {
    let sql = "SELECT username, CAST(SUM(cpu_milli) AS BIGINT) AS cpu, \
               CAST(SUM(memory_bytes) AS BIGINT) AS memory, CAST(SUM(gpu_milli) AS BIGINT) AS gpu, \
               CAST(SUM(replicas) AS BIGINT) AS replicas FROM jobs \
               WHERE datacenter = $1 AND stage IN ('admitted', 'placed') GROUP BY username";
    let rows = sqlx::query(sql).bind(datacenter).fetch_all(executor).await.map_err(failed)?;
    let entry = |row| {
        Ok((
            text(row, "username")?,
            Need {
                cpu_milli: number(row, "cpu")?,
                memory_bytes: number(row, "memory")?,
                gpu_milli: number(row, "gpu")?,
                replicas: number(row, "replicas")?,
            },
        ))
    };
    rows.iter().map(entry).collect()
}

/// The number of the newest change of all jobs.
pub(super) async fn newest_change(database: &Database) -> Result<u64> {
    let row = sqlx::query("SELECT value FROM counters WHERE name = 'change'")
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    row.as_ref().map_or(Ok(0), |row| number(row, "value"))
}

/// Removes a job from history.
pub(super) async fn remove(write: &mut Write<'_>, uid: &str) -> Result<()> {
    for sql in [
        "DELETE FROM events WHERE job = $1",
        "DELETE FROM stages WHERE job = $1",
        "DELETE FROM jobs WHERE uid = $1",
    ] {
        sqlx::query(sql).bind(uid).execute(write.connection()).await.map_err(failed)?;
    }
    users::store::revoke_of_job(write, uid).await
}

/// Adds an event, and keeps the newest `most`: the last ones say how the job ended.
pub(super) async fn add_event(
    write: &mut Write<'_>,
    uid: &str,
    at_ms: u64,
    event: &str,
    most: u32,
) -> Result<()> {
    let sql = "INSERT INTO events (job, number, at_ms, text) VALUES \
               ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM events WHERE job = $1), $2, $3) \
               RETURNING number";
    let row = sqlx::query(sql)
        .bind(uid)
        .bind(signed(at_ms))
        .bind(event)
        .fetch_one(write.connection())
        .await
        .map_err(failed)?;
    let newest = number(&row, "number")?;
    sqlx::query("DELETE FROM events WHERE job = $1 AND number <= $2")
        .bind(uid)
        .bind(signed(newest) - i64::from(most))
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}

/// The events of a job, oldest first.
pub(super) async fn events(database: &Database, uid: &str) -> Result<Vec<Event>> {
    let rows = sqlx::query("SELECT number, at_ms, text FROM events WHERE job = $1 ORDER BY number")
        .bind(uid)
        .fetch_all(database.read())
        .await
        .map_err(failed)?;
    let event = |row| {
        Ok(Event {
            number: number(row, "number")?,
            at_ms: number(row, "at_ms")?,
            text: text(row, "text")?,
        })
    };
    rows.iter().map(event).collect()
}

/// Which jobs a list wants.
#[derive(Debug, Default)]
pub(super) struct Filter {
    pub(super) datacenter: String,
    /// Absent for everybody's.
    pub(super) username: Option<String>,
    pub(super) name: Option<String>,
    /// Empty for all.
    pub(super) states: Vec<String>,
    pub(super) is_active: bool,
    /// Only those before this one, in the order of the list.
    pub(super) before: Option<(u64, String)>,
    /// Only changes after this one, in their order.
    pub(super) since: Option<u64>,
    pub(super) limit: u32,
}

/// The jobs of a list, newest first; with `since`, in the order of their changes.
pub(super) async fn list(database: &Database, filter: &Filter) -> Result<Vec<Listed>> {
    Ok(select(database, "*", filter).await?.iter().map(listed).collect())
}

/// A job as a list shows it, or that it cannot be read.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) uid: String,
    pub(super) submitted_ms: u64,
    pub(super) job: Result<Job>,
}

/// What people see of the jobs of a list. It is written with every change of a job, because to make
/// it of all that is known of a hundred jobs takes milliseconds; and it is asked for in one row,
/// because a hundred rows take as long.
pub(super) async fn summaries(database: &Database, filter: &Filter) -> Result<Vec<Summary>> {
    let (page, mut texts) = statement("uid, submitted_ms, summary", filter);
    texts.push(SEPARATOR.to_string());
    let sql = format!(
        "SELECT string_agg(uid || ' ' || submitted_ms || ' ' || summary, ${} \
         ORDER BY submitted_ms DESC, uid DESC) AS lines FROM ({page}) AS page",
        texts.len()
    );
    let rows = ask(database, &sql, &texts).await?;
    let lines = rows.first().map(|row| optional_text(row, "lines")).transpose()?.flatten();
    let mut summaries = Vec::new();
    for line in lines.unwrap_or_default().split(SEPARATOR) {
        let mut words = line.splitn(3, ' ');
        let (Some(uid), Some(at), Some(job)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let job = match serde_json::from_str(job) {
            Ok(job) => Ok(job),
            // Written by an earlier release, or damaged.
            Err(_) => match get(database, uid).await {
                Ok(Some(row)) => Ok(row.job()),
                Ok(None) => Err(Error::new(Kind::NotFound, "a job was removed").with("uid", uid)),
                Err(error) => Err(error),
            },
        };
        let submitted_ms = at.parse().unwrap_or_default();
        summaries.push(Summary { uid: uid.to_owned(), submitted_ms, job });
    }
    Ok(summaries)
}

/// Between two summaries. JSON has no such character, only its escape.
const SEPARATOR: char = '\u{1e}';

async fn select(database: &Database, columns: &str, filter: &Filter) -> Result<Vec<AnyRow>> {
    let (sql, texts) = statement(columns, filter);
    ask(database, &sql, &texts).await
}

async fn ask(database: &Database, sql: &str, texts: &[String]) -> Result<Vec<AnyRow>> {
    let mut query = sqlx::query(sql);
    for text in texts {
        query = query.bind(text);
    }
    query.fetch_all(database.read()).await.map_err(failed)
}

/// The statement that a filter means, and what is bound to it.
fn statement(columns: &str, filter: &Filter) -> (String, Vec<String>) {
    let mut sql = format!("SELECT {columns} FROM jobs WHERE datacenter = $1");
    let mut texts = vec![filter.datacenter.clone()];
    let mut add = |clause: &str, value: &str| {
        texts.push(value.to_owned());
        sql.push_str(&clause.replace('?', &format!("${}", texts.len())));
    };
    if let Some(username) = &filter.username {
        add(" AND username = ?", username);
    }
    if let Some(name) = &filter.name {
        add(" AND name = ?", name);
    }
    for (index, state) in filter.states.iter().enumerate() {
        add(if index == 0 { " AND (state = ?" } else { " OR state = ?" }, state);
    }
    if !filter.states.is_empty() {
        sql.push(')');
    }
    if filter.is_active {
        sql.push_str(" AND ended_ms IS NULL");
    }
    // Numbers are ours, and need no place in the arguments.
    if let Some((submitted_ms, uid)) = &filter.before {
        texts.push(uid.clone());
        let at = signed(*submitted_ms);
        let place = texts.len();
        sql.push_str(&format!(
            " AND (submitted_ms < {at} OR (submitted_ms = {at} AND uid < ${place}))"
        ));
    }
    if filter.since.is_none() {
        sql.push_str(" AND (is_removed_at_end = 0 OR ended_ms IS NULL)");
    }
    match filter.since {
        Some(change) => sql.push_str(&format!(" AND change > {} ORDER BY change", signed(change))),
        None => sql.push_str(" ORDER BY submitted_ms DESC, uid DESC"),
    }
    sql.push_str(&format!(" LIMIT {}", filter.limit));
    (sql, texts)
}

/// Marks that the backend has nothing of a job any more.
pub(super) async fn set_forgotten(write: &mut Write<'_>, uid: &str) -> Result<()> {
    sqlx::query("UPDATE jobs SET is_forgotten = 1 WHERE uid = $1")
        .bind(uid)
        .execute(write.connection())
        .await
        .map_err(failed)?;
    // Its files may be mounted no longer by the configuration of now, so nobody else does it.
    users::store::revoke_of_job(write, uid).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_token_of_a_job_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open_file(&folder.path().join("db")).await.unwrap();
        let mut write = database.write().await.unwrap();
        for id in ["forgotten", "removed", "lost"] {
            let row = users::store::TokenRow {
                id: id.to_owned(),
                username: "wu".to_owned(),
                label: String::new(),
                job: Some(id.to_owned()),
                is_session: false,
                created_ms: 0,
                expires_ms: 100,
                lifetime_ms: 100,
            };
            users::store::add_token(&mut write, &row, id).await.unwrap();
        }
        set_forgotten(&mut write, "forgotten").await.unwrap();
        remove(&mut write, "removed").await.unwrap();
        write.commit().await.unwrap();
        let is_there = async |id| users::store::token_of_id(&database, id).await.unwrap().is_some();
        assert!(!is_there("forgotten").await && !is_there("removed").await);
        // Nobody knows its job.
        assert!(is_there("lost").await);
        let mut write = database.write().await.unwrap();
        users::store::sweep_tokens(&mut write, 1).await.unwrap();
        write.commit().await.unwrap();
        assert!(!is_there("lost").await);
    }

    #[tokio::test]
    async fn the_newest_events_of_a_job_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open_file(&folder.path().join("db")).await.unwrap();
        let mut write = database.write().await.unwrap();
        for number in 1..=5 {
            add_event(&mut write, "ctr-1", number, &format!("event {number}"), 3).await.unwrap();
        }
        write.commit().await.unwrap();
        let events = events(&database, "ctr-1").await.unwrap();
        let texts: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
        assert_eq!(texts, ["event 3", "event 4", "event 5"]);
    }
}
