//! Rows of staged jobs: what each fetches, as JSON.

use super::plan::Plan;
use crate::database::{Database, Write, failed, json, text, to_json};
use contract::{Error, Kind, Result};
use sqlx::any::AnyRow;

const ACTIVE: &str = "SELECT stages.job AS job, stages.plan AS plan FROM stages JOIN jobs \
                      ON jobs.uid = stages.job WHERE jobs.ended_ms IS NULL AND stages.job <> $1";

/// Keeps the plan of a job, in the transaction that accepts the job.
///
/// # Errors
/// [`Kind::Conflict`] if the results of a job that has not ended go to the same directory.
pub(crate) async fn insert(write: &mut Write<'_>, uid: &str, plan: &Plan) -> Result<()> {
    let rows = sqlx::query(ACTIVE).bind(uid).fetch_all(write.connection()).await;
    if let Some((job, _)) = read(&rows.map_err(failed)?)?.iter().find(|(_, own)| own.meets(plan)) {
        let message = "a job that was accepted just now sends its results to the same directory: \
                       submit this one again";
        return Err(Error::new(Kind::Conflict, message).with("job", job));
    }
    sqlx::query("INSERT INTO stages (job, plan) VALUES ($1, $2)")
        .bind(uid)
        .bind(to_json(plan)?)
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

/// The plans of jobs that have not ended, with their uids.
pub(super) async fn active(database: &Database) -> Result<Vec<(String, Plan)>> {
    let rows = sqlx::query(ACTIVE).bind("").fetch_all(database.read()).await;
    read(&rows.map_err(failed)?)
}

fn read(rows: &[AnyRow]) -> Result<Vec<(String, Plan)>> {
    rows.iter().map(|row| Ok((text(row, "job")?, json(row, "plan")?))).collect()
}
