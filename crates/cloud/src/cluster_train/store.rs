//! Rows of staged jobs: what each fetches, as JSON.

use super::plan::Plan;
use crate::database::{Database, Write, failed, json, text, to_json};
use contract::Result;

/// Keeps the plan of a job, in the transaction that accepts the job.
pub(crate) async fn insert(write: &mut Write<'_>, uid: &str, plan: &Plan) -> Result<()> {
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
    let sql = "SELECT stages.job AS job, stages.plan AS plan FROM stages JOIN jobs \
               ON jobs.uid = stages.job WHERE jobs.ended_ms IS NULL";
    let rows = sqlx::query(sql).fetch_all(database.read()).await.map_err(failed)?;
    rows.iter().map(|row| Ok((text(row, "job")?, json(row, "plan")?))).collect()
}
