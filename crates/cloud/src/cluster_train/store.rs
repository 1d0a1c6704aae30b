//! Rows of staged jobs: what each fetches, as JSON, and beside it the directory of its results: plans
//! are long, and every new one is compared with those of all jobs that have not ended. And which of its
//! nodes are ready, which any server of the cloud may be told.

use super::plan::Plan;
use crate::database::{Database, Write, failed, json, text, to_json};
use contract::{Error, Kind, Result};
use std::collections::BTreeSet;

/// A job that has not ended and sends its results to a directory.
const SENDS_TO: &str = "SELECT stages.job AS job FROM stages JOIN jobs ON jobs.uid = stages.job \
                        WHERE stages.fs_name = $1 AND stages.output = $2 \
                        AND jobs.ended_ms IS NULL AND stages.job <> $3";

/// The nodes of a job whose workspaces are ready.
const READY: &str = "SELECT ready FROM stages WHERE job = $1";

/// Keeps the plan of a job, in the transaction that accepts the job.
///
/// # Errors
/// [`Kind::Conflict`] if the results of a job that has not ended go to the same directory.
pub(crate) async fn insert(write: &mut Write<'_>, uid: &str, plan: &Plan) -> Result<()> {
    let (fs_name, output) = plan.results();
    let other = sqlx::query(SENDS_TO).bind(fs_name).bind(output).bind(uid);
    let other = other.fetch_optional(write.connection()).await.map_err(failed)?;
    if let Some(row) = other {
        let message = "a job that was accepted just now sends its results to the same directory: \
                       submit this one again";
        return Err(Error::new(Kind::Conflict, message).with("job", text(&row, "job")?));
    }
    sqlx::query("INSERT INTO stages (job, plan, fs_name, output) VALUES ($1, $2, $3, $4)")
        .bind(uid)
        .bind(to_json(plan)?)
        .bind(fs_name)
        .bind(output)
        .execute(write.connection())
        .await
        .map_err(failed)?;
    Ok(())
}

/// The plan of a job, if it has one.
pub(super) async fn get(database: &Database, uid: &str) -> Result<Option<Plan>> {
    let row = sqlx::query("SELECT plan FROM stages WHERE job = $1")
        .bind(uid)
        .fetch_optional(database.read())
        .await
        .map_err(failed)?;
    row.as_ref().map(|row| json(row, "plan")).transpose()
}

/// Notes that the workspace of a node is ready; all nodes of its job whose are. They ask every second
/// until all are, and any server of the cloud may be asked.
pub(super) async fn ready(database: &Database, uid: &str, rank: u32) -> Result<BTreeSet<u32>> {
    let gone = || Error::new(Kind::NotFound, "there is no such job").with("job", uid);
    let row = sqlx::query(READY).bind(uid).fetch_optional(database.read()).await;
    let mut ranks: BTreeSet<u32> = json(&row.map_err(failed)?.ok_or_else(gone)?, "ready")?;
    if ranks.contains(&rank) {
        return Ok(ranks);
    }
    let mut write = database.write().await?;
    let row = sqlx::query(READY).bind(uid).fetch_optional(write.connection()).await;
    ranks = json(&row.map_err(failed)?.ok_or_else(gone)?, "ready")?;
    ranks.insert(rank);
    sqlx::query("UPDATE stages SET ready = $1 WHERE job = $2")
        .bind(to_json(&ranks)?)
        .bind(uid)
        .execute(write.connection())
        .await
        .map_err(failed)?;
    write.commit().await?;
    Ok(ranks)
}

/// A job that has not ended and sends its results to a directory.
pub(super) async fn sending_to(
    database: &Database,
    fs_name: &str,
    output: &str,
) -> Result<Option<String>> {
    let row = sqlx::query(SENDS_TO).bind(fs_name).bind(output).bind("");
    let row = row.fetch_optional(database.read()).await.map_err(failed)?;
    row.as_ref().map(|row| text(row, "job")).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nodes_that_ask_several_servers_hear_of_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cloud.db");
        let one = Database::open_file(&path).await.unwrap();
        let other = Database::open_file(&path).await.unwrap();
        let staged = "INSERT INTO stages (job, plan) VALUES ('a', '{}')";
        sqlx::query(staged).execute(one.read()).await.unwrap();
        assert_eq!(ready(&one, "a", 1).await.unwrap(), [1].into());
        assert_eq!(ready(&other, "a", 0).await.unwrap(), [0, 1].into());
        assert_eq!(ready(&one, "a", 1).await.unwrap(), [0, 1].into());
        assert_eq!(ready(&one, "b", 0).await.unwrap_err().kind(), Kind::NotFound);
    }
}
